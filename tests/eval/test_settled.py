"""What is remembered of a model holds only while nothing it follows from has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.settled import recall, remember
from jfinteb.loaders.files import write_whole

RUN = "run --suite sample --tasks pfmt,chabsa --device cpu"


@pytest.fixture
def model(tiny: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny["bert"], tmp_path / "model"))


@pytest.fixture
def options(model: Path, tmp_path: Path) -> EncoderOptions:
    options = EncoderOptions(model=str(model), device="cpu")
    remember(tmp_path / "kept", options, open_encoder(options))
    return options


def test_it_is_what_was_opened(options: EncoderOptions, tmp_path: Path) -> None:
    known, opened = recall(tmp_path / "kept", options), open_encoder(options)
    assert known is not None
    for name in ("spec", "notes", "dimensions", "environment", "adds_end", "cacheable"):
        assert getattr(known, name) == getattr(opened, name), name


@pytest.mark.parametrize(
    "change",
    [{"pooling": "cls"}, {"max_length": 8}, {"prompts": {"query": "q: "}}, {"dtype": "bfloat16"}],
)
def test_other_options_are_not_known(
    change: dict[str, object], options: EncoderOptions, model: Path, tmp_path: Path
) -> None:
    other = EncoderOptions(model=str(model), device="cpu", **change)  # type: ignore[arg-type]
    assert recall(tmp_path / "kept", other) is None


def test_weights_of_the_same_size_and_time_are_not_known(
    options: EncoderOptions, model: Path, tmp_path: Path
) -> None:
    weights = model / "model.safetensors"
    before = weights.stat()
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert weights.stat().st_mtime_ns == before.st_mtime_ns
    assert recall(tmp_path / "kept", options) is None


def test_files_of_a_linked_folder_count(
    options: EncoderOptions, model: Path, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "weights").write_text("1")
    (model / "2_Dense").symlink_to(beside)
    (model / "loop").symlink_to(model)
    revisions = set()
    for content in ("1", "2"):
        (beside / "weights").write_text(content)
        remember(tmp_path / "kept", options, open_encoder(options))
        revisions.add(open_encoder(options).spec.revision)
    assert len(revisions) == 2
    (beside / "weights").write_text("3")
    assert recall(tmp_path / "kept", options) is None


def test_a_file_more_is_not_known(options: EncoderOptions, model: Path, tmp_path: Path) -> None:
    (model / "modules.json").write_text("[]")
    assert recall(tmp_path / "kept", options) is None


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"spec": 3}'])
def test_what_cannot_be_read_is_not_known(
    content: str, options: EncoderOptions, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "kept" / "settled").iterdir()
    write_whole(file, content)
    assert recall(tmp_path / "kept", options) is None


_WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not to be imported")
sys.meta_path.insert(0, Blocked())
from jfinteb.eval.cli import main
sys.exit(main(sys.argv[1:]))
"""


_NO_MODEL = "BLOCKED = ('transformers',)" + _WITHOUT  # `evaluate`, under the metrics, takes torch
_NO_TORCH = "BLOCKED = ('torch', 'transformers')" + _WITHOUT


def test_dry_runs_need_no_torch_and_kept_vectors_no_model(model: Path, tmp_path: Path) -> None:
    command = [*RUN.split(), "--model", str(model), "--cache", str(tmp_path / "kept")]

    def run(code: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *command, *more], text=True, capture_output=True
        )

    first = run(_NO_TORCH, "--output", str(tmp_path / "a"), "--dry-run")
    assert first.returncode != 0  # nothing is remembered yet: the model has to be opened
    plain = "import sys; from jfinteb.eval.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run(plain, "--output", str(tmp_path / "a"))
    assert done.returncode == 0, done.stderr
    dry = run(_NO_TORCH, "--output", str(tmp_path / "b"), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.count("         0 to encode") == 3  # two tasks and their sum
    again = run(_NO_MODEL, "--output", str(tmp_path / "b"))
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
