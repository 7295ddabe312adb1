"""Which texts go through a model together, and the memory that batches leave behind."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from jfinteb.eval.backends.base import Flags, Rows

__all__ = ["BATCH_TOKENS", "TRIM_EVERY", "batches", "give_back_memory", "units"]

BATCH_TOKENS = {"cpu": 2048, "mps": 16384, "cuda": 65536}  # padding included, by kind of device
TRIM_EVERY = 32  # batches


def batches(lengths: npt.NDArray[np.int64], strings: Sequence[str], budget: int) -> Iterator[Rows]:
    """Rows in batches of at most `budget` tokens, padding included; a longer text goes alone.

    Longest first, so that memory shows early; among equals by the text itself, so that batches do
    not depend on the order of the texts. Rows without tokens are in no batch.
    """
    filled = np.flatnonzero(lengths).tolist()
    order = np.array(sorted(filled, key=lambda i: (-int(lengths[i]), strings[i])), dtype=np.intp)
    start = 0
    while start < len(order):
        width = int(lengths[order[start]])
        size = max(1, budget // width)
        yield order[start : start + size]
        start += size


def units(
    lengths: npt.NDArray[np.int64], strings: Sequence[str], missing: Flags, budget: int
) -> Iterator[Rows]:
    """The missing rows: those without tokens first, then batch by batch; see `batches`."""
    for rows in (np.flatnonzero(lengths == 0), *batches(lengths, strings, budget)):
        wanted = rows[missing[rows]]
        if len(wanted):
            yield wanted


def give_back_memory() -> None:
    """Return freed activations to the system.

    glibc keeps freed blocks below 32 MB; with a new shape every batch its heap only grows, to twice
    the memory in use on a suite of 13 tasks. Other C libraries have no such call and no such need.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
