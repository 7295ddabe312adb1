"""The network run by OpenVINO gives torch's vectors, or is refused."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.cli import main
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import UsageError

from .conftest import OpenTiny

# not importorskip: the library is to be imported by the backend first, without its telemetry
pytestmark = pytest.mark.skipif(find_spec("openvino") is None, reason="no openvino extra")


def opened(folder: Path, **options: Any) -> TextEncoder:
    return open_encoder(
        EncoderOptions(model=str(folder), backend="openvino", device="cpu", **options)
    )


def exports() -> list[Path]:
    return sorted((Path(os.environ["JFINTEB_CACHE"]) / "exports").iterdir())


@pytest.mark.parametrize("name", ["bert", "xlm_roberta", "modernbert", "llama"])
def test_vectors_are_those_of_torch(
    name: str, tiny: dict[str, Path], open_tiny: OpenTiny, sentences: list[str]
) -> None:
    options: dict[str, Any] = {"pooling": "cls+mean+last", "prompts": {"query": "query: "}}
    try:
        encoder = opened(tiny[name], **options)
        vectors = encoder.encode([*sentences, ""], "query")
    except ModelError as error:  # a network that it cannot run is refused, never run wrong
        assert "give --backend transformers" in str(error) and "\n" not in str(error)
        assert name in ("modernbert", "llama")
        return
    expected = open_tiny(name, **options).encode([*sentences, ""], "query")
    assert np.abs(vectors - expected).max() < 1e-5
    assert encoder.spec.backend == "openvino"
    assert encoder.environment["openvino"]


def test_it_is_exported_once_and_checked_when_read(
    tiny: dict[str, Path], sentences: list[str]
) -> None:
    first = opened(tiny["bert"]).encode(sentences, "query")
    (folder,) = exports()
    seal = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    assert seal["least_cosine"] >= 0.9999
    made = (folder / "model.xml").stat().st_mtime_ns
    assert np.array_equal(opened(tiny["bert"]).encode(sentences, "query"), first)
    assert (folder / "model.xml").stat().st_mtime_ns == made
    with (folder / "model.bin").open("r+b") as file:
        file.write(b"\xff" * 64)
    assert np.array_equal(opened(tiny["bert"]).encode(sentences, "query"), first)
    assert exports() == [folder]


def test_other_vectors_than_torchs_are_refused(
    tiny: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = opened(tiny["bert"])
    probed = encoder._probed  # type: ignore[attr-defined]

    def off() -> Any:
        return probed() + (0 if encoder._compiled is None else 1)  # type: ignore[attr-defined]

    monkeypatch.setattr(encoder, "_probed", off)
    with pytest.raises(ModelError, match="its vectors have cosine") as caught:
        encoder.load()
    assert "\n" not in str(caught.value)
    assert exports() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layer": 1}, "last layer's states alone"),
        ({"pooling": "first_last_avg"}, "last layer's states alone"),
        ({"dtype": "float16"}, "takes float32 or bfloat16"),
    ],
)
def test_what_it_cannot_do(options: dict[str, Any], says: str, tiny: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match=says):
        opened(tiny["bert"], **options)


def test_nothing_is_sent_about_the_export() -> None:
    assert sys.modules.get("openvino_telemetry") is None


# --- where exports are kept -----------------------------------------------------------------------

RUN = ["run", "--backend", "openvino", "--device", "cpu", "--suite", "sample", "--tasks", "pfmt"]


def test_exports_are_kept_with_the_vectors_shown_and_cleared(
    tiny: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ["--cache", str(tmp_path / "kept")]
    run = [*RUN, "--model", str(tiny["bert"]), *cache, "--output", str(tmp_path / "out")]
    assert main(run) == 0
    (export,) = (tmp_path / "kept" / "exports").iterdir()
    assert not Path(os.environ["JFINTEB_CACHE"], "exports").exists()
    foreign = tmp_path / "kept" / "exports" / ("0" * 32)
    foreign.mkdir()
    (foreign / "mine.txt").write_text("mine")
    capsys.readouterr()
    assert main(["cache", *cache]) == 0
    shown = capsys.readouterr().out
    size = sum(path.stat().st_size for path in export.iterdir()) / 1e6
    assert "OpenVINO export of bert files-" in shown and f" {size:.1f} MB, made 20" in shown
    assert shown.count("OpenVINO export") == 1
    assert main(["cache", "--clear", "other", *cache]) == 2
    assert export.exists()
    assert main(["cache", "--clear", "bert", *cache]) == 0
    assert f"removed export {export.name} of bert" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "kept" / "exports").iterdir()] == [foreign.name]
    assert not list((tmp_path / "kept").glob("*.sqlite"))


def test_without_a_cache_nothing_stays(
    tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    run = [*RUN, "--model", str(tiny["bert"]), "--output", str(tmp_path / "out"), "--no-cache"]
    assert main(run) == 0
    assert not list(temporary.glob("jfinteb-export-*"))
    assert not Path(os.environ["JFINTEB_CACHE"], "exports").exists()
    encoder = opened(tiny["bert"])
    encoder.keep_in(None)
    encoder.load()
    assert len(list(temporary.glob("jfinteb-export-*/*/model.bin"))) == 1
    encoder.close()
    assert not list(temporary.glob("jfinteb-export-*"))
