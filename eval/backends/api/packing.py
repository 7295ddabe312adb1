"""Texts into requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["packed"]


def packed(
    tokens: npt.NDArray[np.int64], inputs: int, budget: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Rows in requests of at most `inputs` texts and `budget` tokens; a longer text goes alone.

    Longest first, so that a text that the server finds too long shows early, and texts of similar
    length share a request, which servers that pad are faster with.

    >>> [rows.tolist() for rows in packed(np.array([5, 40, 9, 30]), 2, 40)]
    [[1], [3, 2], [0]]
    """
    order = np.argsort(-tokens, kind="stable")
    start = 0
    while start < len(order):
        ends = np.cumsum(tokens[order[start : start + inputs]])
        size = max(1, int(np.searchsorted(ends, budget, side="right")))
        yield order[start : start + size]
        start += size
