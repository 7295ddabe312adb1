"""The user's own code as a model: what it may return, and one line for every mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.custom import as_vectors, is_factory
from jfinteb.eval.cli import main
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.store import MemoryStore
from jfinteb.loaders.errors import JfintebError, UsageError

from .conftest import one_line
from .results import read_results

ROOT = Path(__file__).resolve().parents[2]
Write = Callable[[str], str]
GOOD = """
    import numpy as np
    class Lengths:
        revision = "7"
        def __init__(self): self.seen = []
        def encode(self, texts, role):
            self.seen.append((list(texts), role))
            return np.array([[len(text), 1.0] for text in texts])
    ready = Lengths()
    def make(): return Lengths()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module of a new name into the current directory; returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])

    def written(code: str) -> str:
        number = len([name for name in sys.modules if name.startswith("own_")])
        name = f"own_{number}"
        Path(f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        sys.modules.pop(name, None)
        return name

    return written


def opened(model: str, **options: Any) -> TextEncoder:
    return open_encoder(EncoderOptions(model=model, **({"backend": "auto"} | options)))


def _saying(revision: str, after: str = "pass") -> str:
    """An object whose revision is computed, and that does something when it encodes."""
    return f"""
    import itertools
    class M:
        count = itertools.count()
        told = "one"
        @property
        def revision(self): {revision}
        def encode(self, texts, role):
            {after}
            return [[float(len(text)), 1.0] for text in texts]
    """


REVISIONS = {
    "raises": ("raise OSError('no server')", "pass", "its revision raised OSError: no server"),
    "leaves": ("raise SystemExit('bye')", "pass", "its revision raised SystemExit: bye"),
    "an attribute missing": ("return self.nothing", "pass", "its revision raised AttributeError"),
    "empty": ("return ''", "pass", "its revision is '', expected a string in one line"),
    "blank": ("return ' '", "pass", "its revision is ' ', expected"),
    "lines": ("return 'a\\nb'", "pass", "expected a string in one line"),
    "a number": ("return 7", "pass", "its revision is 7, expected a string"),
    "changes": ("return f'v{next(self.count)}'", "pass", "its revision was 'v0', then 'v1'"),
    "changes later": ("return self.told", "self.told = 'two'", "was 'one', then 'two'"),
    "comes later": (
        "return None if self.told == 'one' else 'x'",
        "self.told = 'two'",
        "its revision was None, then 'x'",
    ),
}


@pytest.mark.parametrize("case", REVISIONS)
def test_a_revision_that_names_nothing(case: str, write: Write) -> None:
    revision, after, said = REVISIONS[case]
    model = f"{write(_saying(revision, after))}:M"
    assert said in one_line(ModelError, lambda: opened(model).encode(["円安"], "query"))


def test_a_model_may_change_the_directory(write: Write, tmp_path: Path) -> None:
    name = write(
        GOOD.replace("ready =", "import os; os.mkdir('away'); os.chdir('away')\n    ready =")
    )
    run = f"run --model {name}:make --suite sample --tasks pfmt --output out --cache kept"
    assert main(run.split()) == 0
    assert Path.cwd() == tmp_path / "away"
    assert not list(Path.cwd().iterdir())
    assert len(read_results(tmp_path / "out")) == 1
    assert list((tmp_path / "kept").glob("*.sqlite"))


# --- the documented example -----------------------------------------------------------------------


def test_the_documented_example_end_to_end(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-model.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    command = re.findall(r"```console\n(.*?)\n```", page, re.S)[0].split()
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    assert command[:2] == ["jfinteb", "run"]
    (tmp_path / "my_model.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jfinteb.eval.cli", *command[1:]]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-m", "jfinteb.eval.cli", *command[1:]],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(p.read_text(encoding="utf-8")) for p in tmp_path.rglob("pfmt.json")]
    (result,) = results
    assert result["spec"]["model"] == "my_model:Characters"
    assert result["spec"]["revision"] == "1"
    assert result["spec"]["backend"] == "custom"
    assert result["protocol"]["dimensions"] == 256
    assert f"{result['score']:.4f}" in done.stdout
    assert any("my_model of the current directory" in note for note in result["notes"])


# --- what is called, and how ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["make", "Lengths", "ready"])
def test_factory_class_or_object(name: str, write: Write) -> None:
    encoder = opened(f"{write(GOOD)}:{name}", prompts={"query": "q: "})
    vectors = encoder.encode(["円安", "株", "円安", "　"], "query")
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[5, 1], [4, 1], [5, 1], [0, 0]]
    assert encoder._own.seen[-1] == (["q: 円安", "q: 株"], "query")  # type: ignore[attr-defined]
    assert type(encoder._own.seen[-1][1]) is str  # type: ignore[attr-defined]
    assert (encoder.counts.texts, encoder.counts.blank) == (4, 1)
    assert encoder.dimensions == 2


def test_at_most_256_texts_at_once(write: Write) -> None:
    encoder = opened(f"{write(GOOD)}:make")
    vectors = encoder.encode(["あ" * n for n in range(1, 601)], "document")
    assert vectors[:, 0].tolist() == list(range(1, 601))
    sizes = [len(texts) for texts, _ in encoder._own.seen]  # type: ignore[attr-defined]
    assert sizes == [1, 256, 256, 88]  # one word first


def test_a_revision_names_what_may_be_kept(write: Write) -> None:
    name = write(GOOD)
    with_one = opened(f"{name}:make")
    assert (with_one.spec.revision, with_one.cacheable) == ("7", True)
    assert with_one.spec.model == f"{name}:make"
    bare = GOOD.replace('revision = "7"', "pass")
    name = write(bare)
    without = opened(f"{name}:make")
    assert without.spec.revision.startswith("source-")
    assert not without.cacheable
    assert any("no revision" in note for note in without.notes)
    other = opened(f"{write(bare + '    # changed')}:make")
    assert other.spec.revision != without.spec.revision


def test_scaled_and_cut_if_asked(write: Write) -> None:
    encoder = opened(f"{write(GOOD)}:make", normalize=True, truncate_dim=1)
    assert encoder.encode(["円安"], "query").tolist() == [[1.0]]
    with pytest.raises(UsageError, match="truncate-dim is 3"):
        opened(f"{write(GOOD)}:make", truncate_dim=3).load()


def test_a_package_that_is_installed(write: Write) -> None:
    write(GOOD)
    with pytest.raises(ModelError, match="gave a OrderedDict without encode"):
        opened("collections:OrderedDict")


def test_the_current_directory_hides_nothing_that_is_installed(
    write: Write, tmp_path: Path
) -> None:
    opened(f"{write(GOOD)}:make")
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a:b", True),
        ("a.b:c.d", True),
        ("モデル:作る", True),
        ("org/a:b", False),
        ("./a:b", False),
        ("a:", False),
        (":b", False),
        ("a", False),
        ("a:b:c", False),
        ("1a:b", False),
    ],
)
def test_what_is_code(name: str, expected: bool) -> None:
    assert is_factory(name) is expected


def test_a_folder_of_that_name_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    assert not is_factory("a:b")


# --- what comes back ------------------------------------------------------------------------------

ROWS = [[1.5, -2.0], [3.0, 0.25]]


@pytest.mark.parametrize(
    "found",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        np.array(ROWS),
        np.array(ROWS, dtype=np.float16),
        [np.array(row) for row in ROWS],
        torch.tensor(ROWS),
        torch.tensor(ROWS, dtype=torch.bfloat16, requires_grad=True),
        [torch.tensor(row) for row in ROWS],
        [torch.tensor(row, requires_grad=True) for row in ROWS],
    ],
    ids=lambda found: type(found).__name__,
)
def test_arrays_tensors_and_lists(found: object) -> None:
    got = as_vectors(found, 2, "m")
    assert got.dtype == np.float32
    assert got.tolist() == ROWS


def test_whole_numbers_too() -> None:
    assert as_vectors(torch.tensor([[1, 2]]), 1, "m").tolist() == [[1, 2]]
    assert as_vectors(np.array([[1, 2]], dtype=np.int8), 1, "m").tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([[1.0, 2.0]], r"shape \(1, 2\) for 2 texts, expected \(2, dimensions\)"),
        ([1.0, 2.0], r"shape \(2,\) for 2 texts"),
        ([[], []], r"shape \(2, 0\) for 2 texts"),
        ([[1.0], [2.0, 3.0]], "list that is no array of 2 vectors"),
        (None, r"shape \(\) for 2 texts"),
        ([["a"], ["b"]], "expected real numbers"),
        (np.array([[1j], [2j]]), "complex128, expected real numbers"),
        ([[True], [False]], "bool, expected real numbers"),
        ([[None], [None]], "object, expected real numbers"),
    ],
)
def test_what_is_no_matrix(found: object, said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        as_vectors(found, 2, "own:make")
    assert str(caught.value).startswith("own:make: encode returned")
    assert "\n" not in str(caught.value)


def test_another_length_than_before() -> None:
    with pytest.raises(ModelError, match="vectors of length 2, before 3"):
        as_vectors([[1.0, 2.0]], 1, "m", 3)


@pytest.mark.parametrize("value", ["nan", "inf", "1e300"])
def test_not_finite(value: str, write: Write) -> None:
    code = "import numpy as np\nclass M:\n    def encode(self, texts, role):\n"
    code += f"        return [[0.0 if t != '株' else float('{value}')] for t in texts]\n"
    with pytest.raises(ModelError, match="gave NaN or infinity for row 1"):
        opened(f"{write(code)}:M").encode(["円", "株"], "query")


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES = {
    "no attribute": ("x = 1", "nothing_here", "has no 'nothing_here'; it has x"),
    "not callable": ("x = 1", "x", "is a int, expected a factory or an object"),
    "no encode": ("class M: pass", "M", "gave a M without encode(texts, role)"),
    "encode is a value": ("class M: encode = 3", "M", "without encode(texts, role)"),
    "factory raises": ("def make(): raise OSError('no\\nweights')", "make", "OSError: no weights"),
    "factory takes more": ("def make(path): return 1", "make", "missing 1 required positional"),
    "factory leaves": ("def make(): raise SystemExit(3)", "make", "raised SystemExit: 3"),
    "one argument": (
        "class M:\n  def encode(self, texts): return texts",
        "M",
        "encode(texts) cannot take (texts, role): too many positional arguments",
    ),
    "keywords only": (
        "class M:\n  def encode(self, texts, *, role): return texts",
        "M",
        "cannot take (texts, role)",
    ),
    "syntax": ("def make(:", "make", "cannot be imported: SyntaxError"),
    "an import missing": ("import not_there_at_all", "x", "No module named 'not_there_at_all'"),
    "module leaves": ("raise SystemExit('bye')", "x", "SystemExit: bye"),
    "encode raises": (
        "class M:\n  def encode(self, texts, role): raise KeyError('a')",
        "M",
        "encode raised KeyError: 'a'",
    ),
    "wrong count": (
        "class M:\n  def encode(self, texts, role): return [[1.0], [2.0]]",
        "M",
        "shape (2, 1) for 1 texts",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_in_one_line(case: str, write: Write) -> None:
    code, name, said = MISTAKES[case]
    model = f"{write(code)}:{name}"
    assert said in one_line(JfintebError, lambda: opened(model).load())


def test_no_module(write: Write) -> None:
    write(GOOD)
    for model in ("not_there_at_all:make", "not_there_at_all.deep:make", "json.not_there:make"):
        with pytest.raises(ModelError, match="in the current directory, and none is installed"):
            opened(model)


def test_not_code() -> None:
    with pytest.raises(UsageError, match="takes module:factory, found 'my_model'"):
        opened("my_model", backend="custom")


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "cls"},
        {"max_length": 5},
        {"dtype": "bfloat16"},
        {"device": "cuda"},
        {"revision": "main"},
        {"routes": {"query": "x"}},
        {"trust_remote_code": True},
    ],
)
def test_options_that_are_the_objects_own(options: dict[str, Any], write: Write) -> None:
    (flag,) = options
    with pytest.raises(UsageError, match=f"has no {flag.replace('_', '-')}; leave"):
        opened(f"{write(GOOD)}:make", **options)


def test_a_store_keeps_the_roles_of_code_that_sees_them_apart(write: Write) -> None:
    name = write(
        """
        import numpy as np
        class ByRole:
            revision = "1"
            def encode(self, texts, role):
                return np.array([[len(text), len(role)] for text in texts], dtype=float)
        """
    )
    encoder = opened(f"{name}:ByRole")
    encoder.store = MemoryStore()
    roles = ("query", "document", "classification", "clustering")
    assert [encoder.encode(["円安"], role)[0, 1] for role in roles] == [5, 8, 14, 10]


def test_an_encode_that_exits_ends_a_task_not_the_run(write: Write) -> None:
    name = write(
        """
        import sys
        class Leaves:
            def encode(self, texts, role): sys.exit(0)
        """
    )
    with pytest.raises(ModelError, match="encode raised SystemExit"):
        opened(f"{name}:Leaves").encode(["円"], "query")
