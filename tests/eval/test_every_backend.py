"""What every backend must do with prompts, blanks, repeated texts, lengths and dimensions.

The right vectors come from a plain forward pass over one text at a time, from the numbers that the
test server makes of a text, or, where a library brings its own prompts, from the backend itself.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.base import EncoderOptions as Options
from jfinteb.eval.store import MemoryStore
from jfinteb.loaders.task import Role

from . import proxy
from .conftest import PROMPTED, SENTENCES

E5 = {"query": "query: ", "document": "passage: ", "classification": "query: "}
BACKENDS = ("transformers", "sentence-transformers", "openvino", "custom", "api")
BLANK = ["", "　", "\n", " \t"]


@dataclass
class Backend:
    """How to open it, and the right vector of a final string."""

    open: Callable[..., TextEncoder]
    right: Callable[[str], np.ndarray[Any, Any]]
    near: float = 1e-5
    opened: list[TextEncoder] = field(default_factory=list)

    def __call__(self, **options: Any) -> TextEncoder:
        encoder = self.open(**options)
        encoder.identify()
        self.opened.append(encoder)
        return encoder

    def assert_right(self, vectors: np.ndarray[Any, Any], strings: Sequence[str]) -> None:
        right = np.stack([self.right(string) for string in strings])
        np.testing.assert_allclose(vectors, right, atol=self.near)


@functools.cache
def plain(folder: Path) -> Callable[[str], np.ndarray[Any, Any]]:
    """Mean of the last hidden states of one text, without anything of ours."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    @functools.cache
    def vector(text: str) -> np.ndarray[Any, Any]:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return np.asarray(states.mean(dim=0))

    return vector


class Own:
    """A user's object."""

    revision = "1"

    def __init__(self, folder: Path) -> None:
        self._vector = plain(folder)

    def encode(self, texts: Sequence[str], role: str) -> np.ndarray[Any, Any]:
        return np.stack([self._vector(text) for text in texts])


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where OpenVINO's export is kept, so that it is made once."""
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest,
    tiny: dict[str, Path],
    exports: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Backend]:
    folder, name = tiny["bert"], request.param
    monkeypatch.setenv("JFINTEB_CACHE", str(exports))
    with proxy.Server() as server:

        def opened(**options: Any) -> TextEncoder:
            if name == "api":
                return proxy.opened(server, **options)
            if name == "custom":
                module = types.ModuleType("own_of_every_backend")
                module.make = lambda: Own(folder)  # type: ignore[attr-defined]
                monkeypatch.setitem(sys.modules, module.__name__, module)
                given = Options(model=f"{module.__name__}:make", backend="custom", **options)
                return open_encoder(given)
            options |= {"backend": name, "device": "cpu"}
            return open_encoder(EncoderOptions(model=str(folder), **options))

        right = proxy.vector_of if name == "api" else plain(folder)
        found = Backend(opened, right)
        yield found
        for encoder in found.opened:
            encoder.close()


def test_prompts_go_by_role_and_never_share_a_vector(backend: Backend) -> None:
    """Cases 1, 2 and 4: one store, the same texts in each role, and E5's prompts."""
    encoder = backend(prompts=E5)
    encoder.store = MemoryStore()
    for role in (Role.QUERY, Role.DOCUMENT, Role.CLASSIFICATION, Role.CLUSTERING, Role.QUERY):
        vectors = encoder.encode(PROMPTED, role)
        backend.assert_right(vectors, [E5.get(role, "") + text for text in PROMPTED])
    assert encoder.spec.to_json()["prompts"] == {
        "query": "query: ",
        "document": "passage: ",
        "classification": "query: ",
        "clustering": "",
    }  # case 5
    # the last of them, and classification with a query's prompt, were found, not encoded again
    assert encoder.counts.cached >= len(PROMPTED)


@pytest.mark.parametrize("prompts", [{"query": "query: "}, {"document": "passage: "}])
def test_a_prompt_on_one_side_is_that_sides_alone(
    prompts: dict[str, str], backend: Backend
) -> None:
    """Case 3."""
    encoder = backend(prompts=prompts)
    for role in (Role.QUERY, Role.DOCUMENT):
        strings = [prompts.get(role, "") + text for text in PROMPTED]
        backend.assert_right(encoder.encode(PROMPTED, role), strings)


def test_as_many_vectors_as_texts_in_their_order(backend: Backend, sentences: list[str]) -> None:
    """Cases 13, 15 and 32: blanks, repeated texts, no texts at all; alone as in a batch."""
    encoder = backend(batch_tokens=None)
    assert encoder.encode([], "query").shape[0] == 0
    texts = [BLANK[0], *sentences[:20], *BLANK, *sentences[10:30], sentences[0]]
    vectors = encoder.encode(texts, "query")
    filled = [i for i, text in enumerate(texts) if text.strip()]
    assert len(vectors) == len(texts)
    backend.assert_right(vectors[filled], [texts[i] for i in filled])
    blank = sorted(set(range(len(texts))) - set(filled))
    assert len(blank) == 5 == encoder.counts.blank
    assert not vectors[blank].any()
    assert not encoder.encode(BLANK, "document").any()


def test_prompts_stand_before_no_blank(backend: Backend) -> None:
    assert not backend(prompts=E5).encode(BLANK, "query").any()


def test_cut_then_scaled(backend: Backend) -> None:
    """Case 14; what is kept in a store is the whole vector."""
    store = MemoryStore()
    whole = backend()
    whole.store = store
    whole.encode(SENTENCES, "query")
    width = len(backend.right(SENTENCES[0]))
    cut = backend(truncate_dim=width // 2, normalize=True)
    if cut.spec.vector_digest == whole.spec.vector_digest:
        cut.store = store
    vectors = cut.encode(SENTENCES, "query")
    right = np.stack([backend.right(text)[: width // 2] for text in SENTENCES])
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, right, atol=backend.near)


def test_text_that_is_not_nfc_is_taken_as_it_is_and_counted(backend: Backend) -> None:
    """Case 11."""
    composed, apart = "ガソリン", "カ\u3099ソリン"
    encoder = backend()
    vectors = encoder.encode([composed, apart], "query")
    backend.assert_right(vectors, [composed, apart])
    assert encoder.counts.not_nfc == 1


def test_special_names_in_a_text_are_text(backend: Backend) -> None:
    """Case 34: what reads like a token of some vocabulary reaches the model unchanged."""
    texts = ["<|endoftext|> 円安", "円安 </s>", "円安"]
    backend.assert_right(backend().encode(texts, "query"), texts)
