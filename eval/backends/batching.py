"""Which texts go through a model together, and the memory that batches leave behind."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from jfinteb.eval.backends.base import Flags, Rows
from jfinteb.eval.encoder import ModelError

__all__ = ["BATCH_TOKENS", "Fitting", "filled_up", "token_budget", "units"]

T = TypeVar("T")

BATCH_TOKENS = {"cpu": 1024, "mps": 16384, "cuda": 65536}  # padding included, by kind of device
_LEAST = 64  # tokens of a batch on a CPU
_TRIM_EVERY = 32  # batches
_NO_ROOM = ("out of memory", "can't allocate memory", "not enough memory")
_ACTIVATION = 1 << 29  # bytes of a batch's widest activation on an accelerator


def token_budget(device: str, config: Any) -> int:
    """Tokens, padding included, that go through a model at once.

    On CPUs it is 1,024 for each of the batches that are computed at once, whatever the width: half
    or twice as many were as fast. On accelerators a wide model gets fewer, so that its widest
    activation stays below 512 MB.

    Args:
        device: its kind, a key of `BATCH_TOKENS`.
        config: of the model.
    """
    most = BATCH_TOKENS[device]
    if device == "cpu":
        return most
    width = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return max(BATCH_TOKENS["cpu"], min(most, _ACTIVATION // (4 * int(width))))


class Fitting:
    """Computes batches, in smaller parts once the device had no room for one.

    Args:
        model: its name, for messages.
        device: that computes.
        notes: of the encoder; told when batches had to be made smaller.
    """

    def __init__(self, model: str, device: torch.device, notes: list[str]) -> None:
        self._model, self._device, self._notes = model, device, notes
        self._room: int | None = None  # tokens, padding included
        self._count = 0

    def __call__(
        self, lengths: npt.NDArray[np.int64], rows: Rows, compute: Callable[[Rows], T]
    ) -> list[T]:
        """What `compute` gives for some rows, part by part, in order.

        Args:
            lengths: tokens of every string.
            rows: of one batch, none of them without tokens.
            compute: a part.

        Raises:
            ModelError: there is no room for a single text.
        """
        self._count += 1
        if self._count % _TRIM_EVERY == 0:
            self.give_back()
        width = int(lengths[rows].max())
        size = len(rows) if self._room is None else max(1, self._room // width)
        if len(rows) > size:
            parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            return [found for part in parts for found in self(lengths, part, compute)]
        try:
            return [compute(rows)]
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise ModelError(
                    f"{self._model}: {self._device} has no memory for one text of {width} tokens; "
                    "give a lower --max-length, or --dtype bfloat16"
                ) from error
        # not in the handler: its traceback holds on to what was computed so far
        room = len(rows) * width // 2
        self._room = room if self._room is None else min(room, self._room)  # batches at once
        self.give_back()
        note = f"batches made smaller, for want of memory on {self._device}"
        if note not in self._notes:
            self._notes.append(note)
        return self(lengths, rows, compute)

    def give_back(self) -> None:
        """Return to the system, or to the device, what earlier batches left."""
        if self._device.type == "cpu":
            _give_back_memory()
        elif self._device.type == "cuda" and self._room is not None:
            torch.cuda.empty_cache()


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Torch has a class for it on CUDA, and words elsewhere."""
    told = any(words in str(error) for words in _NO_ROOM)
    return told or isinstance(error, torch.OutOfMemoryError)


def _batches(
    lengths: npt.NDArray[np.int64], strings: Sequence[str], budget: int, *, alike: bool
) -> Iterator[Rows]:
    """Rows in batches of at most `budget` tokens, padding included; a longer text goes alone.

    Longest first, so that memory shows early; among equals by the text itself, so that batches do
    not depend on the order of the texts. Rows without tokens are in no batch.
    """
    filled = np.flatnonzero(lengths).tolist()
    order = np.array(sorted(filled, key=lambda i: (-int(lengths[i]), strings[i])), dtype=np.intp)
    start = 0
    while start < len(order):
        width = int(lengths[order[start]])
        stop = min(len(order), start + max(1, budget // width))
        if alike:
            stop = start + int(np.searchsorted(-lengths[order[start:stop]], -width, "right"))
        yield order[start:stop]
        start = stop


def units(
    lengths: npt.NDArray[np.int64],
    strings: Sequence[str],
    missing: Flags,
    budget: int,
    *,
    alike: bool = False,
) -> Iterator[Rows]:
    """The missing rows: those without tokens first, then batch by batch; see `_batches`.

    Args:
        lengths: tokens of every string.
        strings: the strings.
        missing: whether a string is to be encoded.
        budget: tokens of a batch, padding included.
        alike: whether only strings of equal length share a batch.
    """
    batches = _batches(lengths, strings, budget, alike=alike)
    for rows in (np.flatnonzero(lengths == 0), *batches):
        wanted = rows[missing[rows]]
        if len(wanted):
            yield wanted


def filled_up(rows: Rows, width: int) -> Rows:
    """The rows, over again until they have 64 tokens.

    Matrix products of fewer than 16 rows go other ways (measured with MKL on AVX-512, widths 64 to
    1,024), and with them the last bits of a text's vector would follow from what it is beside.
    """
    return np.resize(rows, max(len(rows), -(-_LEAST // width)))


def _give_back_memory() -> None:
    """Return freed activations to the system.

    glibc keeps freed blocks below 32 MB; with a new shape every batch its heap only grows, to twice
    the memory in use on a suite of 13 tasks. Other C libraries have no such call and no such need.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
