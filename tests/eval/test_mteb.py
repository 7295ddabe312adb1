"""Models of the mteb library, through its own wrappers and with its own prompts."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.cli import run_main
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UsageError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    mteb: Any = pytest.importorskip("mteb", reason="extra mteb")
    library: Any = pytest.importorskip("sentence_transformers", reason="test extra")

RANDOM = "mteb/baseline-random-encoder"
PROMPTS = {
    "query": "query: ",
    "document": "passage: ",
    "Classification": "ROE",
    "Clustering": "2024",
    "Retrieval-document": "passage: passage: ",  # the type with the role comes before the role
}


def opened(model: str, **options: Any) -> TextEncoder:
    options = {"backend": "mteb", "device": "cpu"} | options
    return open_encoder(EncoderOptions(model=model, **options))


@pytest.fixture
def known(tiny: dict[str, Path]) -> Iterator[str]:
    """A tiny model in the library's registry, with prompts by task type and by role."""
    from mteb.models.model_implementations import MODEL_REGISTRY
    from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper

    def loader(name: str, revision: str | None, **options: Any) -> Any:
        options.pop("trust_remote_code", None)
        return SentenceTransformerEncoderWrapper(str(tiny["bert"]), **options)

    meta = MODEL_REGISTRY[RANDOM].model_copy(
        update={
            "name": "tiny/bert",
            "revision": "abc",
            "loader": loader,
            "loader_kwargs": {"model_prompts": PROMPTS},
            "modalities": ["text"],
        }
    )
    MODEL_REGISTRY["tiny/bert"] = meta
    MODEL_REGISTRY["tiny/code"] = meta.model_copy(
        update={"name": "tiny/code", "loader_kwargs": {"trust_remote_code": True}}
    )
    MODEL_REGISTRY["tiny/unnamed"] = meta.model_copy(
        update={"name": "tiny/unnamed", "revision": "no_revision_available"}
    )
    MODEL_REGISTRY["tiny/lexical"] = meta.model_copy(
        update={"name": "tiny/lexical", "model_type": ["sparse"]}
    )
    yield "tiny/bert"
    for name in [name for name in MODEL_REGISTRY if name.startswith("tiny/")]:
        del MODEL_REGISTRY[name]


@pytest.mark.parametrize(
    ("role", "prompt"),
    [
        ("query", "query: "),
        ("document", "passage: passage: "),
        ("classification", "ROE"),
        ("clustering", "2024"),
    ],
)
def test_its_prompts_by_role(
    role: str, prompt: str, known: str, tiny: dict[str, Path], sentences: list[str]
) -> None:
    encoder = opened(known)
    expected = library.SentenceTransformer(str(tiny["bert"]), device="cpu").encode(
        [prompt + text for text in sentences]
    )
    got = encoder.encode(sentences, role)
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() < 1e-6
    assert f"{role} {prompt!r}" in next(note for note in encoder.notes if "by mteb" in note)


def test_as_the_library_calls_it(known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mteb.types import PromptType

    encoder = opened(known)
    encoder.load()
    inner = encoder._model  # type: ignore[attr-defined]
    seen: list[tuple[Any, Any]] = []
    encode = inner.encode

    def spy(inputs: Any, *, task_metadata: Any, prompt_type: Any = None, **rest: Any) -> Any:
        assert set(rest) >= {"hf_split", "hf_subset"}
        assert isinstance(task_metadata, mteb.TaskMetadata)
        seen.append((str(task_metadata.type), prompt_type))
        return encode(inputs, task_metadata=task_metadata, prompt_type=prompt_type, **rest)

    monkeypatch.setattr(inner, "encode", spy)
    for role in ("query", "document", "classification", "clustering"):
        encoder.encode(["円安"], role)
    assert seen == [
        ("Retrieval", PromptType.query),
        ("Retrieval", PromptType.document),
        ("Classification", None),
        ("Clustering", None),
    ]


def test_instructions_are_the_librarys_for_a_kind_of_task() -> None:
    """Those of its abstract tasks, which a task without an instruction of its own has."""
    from mteb.abstasks import AbsTaskClassification, AbsTaskClustering, AbsTaskRetrieval

    from jfinteb.eval.backends.mteb import _task
    from jfinteb.loaders.task import Role

    assert _task(Role.CLASSIFICATION).prompt == AbsTaskClassification.abstask_prompt
    assert _task(Role.CLUSTERING).prompt == AbsTaskClustering.abstask_prompt
    assert _task(Role.QUERY).prompt["query"] == AbsTaskRetrieval.abstask_prompt
    assert all(_task(role).languages == ["jpn"] for role in Role)


def test_order_counts_blank_and_cut(known: str) -> None:
    encoder = opened(known, truncate_dim=5, normalize=True)
    texts = [f"円{'安' * (n % 7)}{n}" for n in range(70)]
    vectors = encoder.encode(["　", *texts, texts[3]], "document")
    assert vectors.shape == (72, 5)
    assert not vectors[0].any()
    assert np.array_equal(vectors[71], vectors[4])
    assert np.abs(np.linalg.norm(vectors[1:], axis=1) - 1).max() < 1e-6
    for n in (0, 33, 69):
        alone = encoder.encode([texts[n]], "document")[0]
        assert np.abs(vectors[n + 1] - alone).max() < 1e-5
    assert encoder.counts.blank == 1


def test_spec_and_environment(known: str) -> None:
    encoder = opened(known)
    spec = encoder.spec
    assert (spec.model, spec.revision, spec.backend) == (known, "abc", "mteb")
    assert spec.settings == {"mteb": encoder.environment["mteb"]}
    assert encoder.cacheable
    unnamed = opened("tiny/unnamed")
    assert (unnamed.spec.revision, unnamed.cacheable) == ("unknown", False)
    assert any("no revision" in note for note in unnamed.notes)


def test_a_task_by_the_command_line(tmp_path: Path) -> None:
    arguments = ["--backend", "mteb", "--model", RANDOM, "--suite", "sample"]
    tasks = ["--tasks", "ews_horizon,pfmt", "--output", str(tmp_path)]
    assert run_main([*arguments, *tasks]) == 0
    (path,) = tmp_path.rglob("pfmt.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["spec"]["model"] == RANDOM
    assert result["protocol"]["dimensions"] > 0


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("tiny/nothing", {}, "not found in MTEB registry"),
        ("mteb/baseline-random-encodr", {}, f"Did you mean: '{RANDOM}'"),
        ("tiny/bert", {"revision": "other"}, "Model revision other not found"),
        ("tiny/code", {}, "brings its own code"),
        ("tiny/lexical", {}, "is sparse in mteb, expected a dense model"),
        ("mteb/baseline-random-cross-encoder", {}, "expected a dense model"),
        ("tiny/bert", {"prompts": {"query": "q"}}, "brings its own prompts"),
        ("tiny/bert", {"pooling": "cls"}, "the mteb backend has no pooling"),
        ("tiny/bert", {"max_length": 3}, "the mteb backend has no max-length"),
        ("tiny/bert", {"routes": {"query": "q"}}, "the mteb backend has no routes"),
    ],
)
def test_mistakes_are_told_in_one_line(
    model: str, options: dict[str, Any], said: str, known: str
) -> None:
    with pytest.raises(JfintebError) as caught:
        opened(model, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_dimensions_than_there_are(known: str) -> None:
    with pytest.raises(UsageError, match="truncate-dim is 33, tiny/bert has 32"):
        opened(known, truncate_dim=33).load()


def test_code_that_is_allowed(known: str) -> None:
    assert opened("tiny/code", trust_remote_code=True).spec.remote_code


def test_a_loader_that_fails(known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mteb.models.model_implementations import MODEL_REGISTRY

    def loader(name: str, revision: str | None, **options: Any) -> Any:
        raise ImportError("this model needs\nnot_there")

    meta = MODEL_REGISTRY[known].model_copy(update={"loader": loader})
    monkeypatch.setitem(MODEL_REGISTRY, known, meta)
    with pytest.raises(ModelError, match="tiny/bert in mteb: this model needs not_there"):
        opened(known).load()


_BLOCKED = """
import importlib.machinery as machinery, sys
find = machinery.PathFinder.find_spec
def blocked(name, path=None, target=None):
    return None if name.split(".")[0] == "mteb" else find(name, path, target)
machinery.PathFinder.find_spec = staticmethod(blocked)
from jfinteb.eval.cli import run_main
sys.exit(run_main(sys.argv[1:]))
"""


def test_without_the_library(tmp_path: Path) -> None:
    arguments = ["--backend", "mteb", "--model", RANDOM, "--suite", "sample"]
    command = [sys.executable, "-c", _BLOCKED, *arguments, "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "needs mteb, which is not installed; pip install 'jfinteb[mteb]'" in line
