"""Batches on a device without room for them: smaller ones, the same vectors, and a word of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from jfinteb.eval.backends.batching import BATCH_TOKENS, Fitting, token_budget
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.store import MemoryStore

from .conftest import OpenTiny

CPU = torch.device("cpu")
HOST = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error code 12"
MPS = "MPS backend out of memory (MPS allocated: 1 GB)"


def no_room() -> RuntimeError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def device_of(tokens: int, tried: list[int], error: Callable[[], RuntimeError]) -> Callable:
    """A device with room for so many tokens, padding included, in texts of 10."""

    def compute(rows: np.ndarray) -> list[int]:
        tried.append(len(rows))
        if len(rows) * 10 > tokens:
            raise error()
        return rows.tolist()

    return compute


@pytest.mark.parametrize("error", [no_room, lambda: RuntimeError(MPS), lambda: RuntimeError(HOST)])
def test_parts_get_smaller_until_they_fit_and_stay_so(error: Callable[[], RuntimeError]) -> None:
    notes: list[str] = []
    tried: list[int] = []
    fitting = Fitting("m", CPU, notes)
    lengths, compute = np.full(32, 10), device_of(50, tried, error)
    found = fitting(lengths, np.arange(16), compute)
    assert [row for part in found for row in part] == list(range(16))
    # 16 texts, 8, then 4 at a time
    assert tried == [16, 8, 4, 4, 4, 4]
    assert notes == ["batches made smaller, for want of memory on cpu"]
    tried.clear()
    found = fitting(lengths, np.arange(16, 32), compute)
    assert [row for part in found for row in part] == list(range(16, 32))
    assert tried == [4, 4, 4, 4]  # what did not fit is not tried again
    assert len(notes) == 1


def test_a_single_text_without_room_is_one_line() -> None:
    fitting = Fitting("some/model", CPU, [])
    with pytest.raises(ModelError, match=r"some/model: cpu has no memory for one text of 10 tok"):
        fitting(np.full(2, 10), np.arange(2), device_of(5, [], no_room))


def test_other_faults_are_not_taken_for_a_want_of_memory() -> None:
    fitting, tried = Fitting("m", CPU, []), []
    with pytest.raises(RuntimeError, match="a tensor has another shape"):
        fitting(
            np.full(4, 10),
            np.arange(4),
            device_of(5, tried, lambda: RuntimeError("a tensor has another shape")),
        )
    assert tried == [4]


@pytest.mark.parametrize("backend", ["transformers", "sentence-transformers"])
def test_a_model_on_a_small_device(backend: str, open_tiny: OpenTiny, sentences: list[str]) -> None:
    """Vectors are those of a device with room; its notes say what happened."""
    plain = open_tiny("bert", backend=backend).encode(sentences, "query")
    encoder: Any = open_tiny("bert", backend=backend)
    encoder.load()
    module = encoder._loaded if backend == "transformers" else encoder._model
    real, sizes = module.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]["input_ids"]
        sizes.append(ids.numel())
        if ids.numel() > 150:
            raise no_room()
        return real(*args, **kwargs)

    module.forward = forward
    vectors = encoder.encode(sentences, "query")
    assert max(sizes) > 150 and sum(size > 150 for size in sizes) <= 6
    assert np.abs(vectors - plain).max() < 1e-6
    assert "batches made smaller, for want of memory on cpu" in encoder.notes


@pytest.mark.parametrize(
    ("device", "hidden", "inner", "expected"),
    [
        ("cpu", 384, 1536, 1024),
        ("cpu", 4096, 14336, 1024),
        ("cuda", 384, 1536, 65536),
        ("cuda", 4096, 14336, 2**29 // 4 // 14336),  # 9,362 tokens: 512 MB of float32
        ("mps", 384, 1536, 16384),
    ],
)
def test_the_budget_follows_from_the_width(
    device: str, hidden: int, inner: int, expected: int
) -> None:
    config = transformers.BertConfig(hidden_size=hidden, intermediate_size=inner)
    assert token_budget(device, config) == expected <= BATCH_TOKENS[device]


def test_neither_budget_nor_threads_nor_kept_vectors_change_a_vector(
    open_tiny: OpenTiny, sentences: list[str]
) -> None:
    """More than 1e-6 never, whatever shares a batch, on however many threads."""
    plain = open_tiny("bert").encode(sentences, "query")
    for budget in (1, 64, 300, 100_000):
        found = open_tiny("bert", batch_tokens=budget).encode(sentences, "query")
        assert np.abs(found - plain).max() < 1e-6
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        found = open_tiny("bert").encode(sentences, "query")
    finally:
        torch.set_num_threads(before)
    assert np.abs(found - plain).max() < 1e-6
    store = MemoryStore()
    half = open_tiny("bert")
    half.store = store
    half.encode(sentences[::2], "query")
    rest = open_tiny("bert")
    rest.store = store
    found = rest.encode(sentences, "query")
    assert rest.counts.cached == len(sentences[::2])
    assert np.abs(found - plain).max() < 1e-6
