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
