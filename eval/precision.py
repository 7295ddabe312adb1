"""Vectors in fewer bits: int8 and binary, in float32 arrays that any protocol scores unchanged.

int8 spreads a dimension's range over 256 steps; binary keeps the sign. Ranges come from one split
of a task, `CALIBRATES`, and never from the vectors of a batch or from what is searched with: a
system that is in use knows its corpus, not its queries.

On ±1, dot product, cosine and Euclidean distance all order as the Hamming distance h does: of d
dimensions, dot = d - 2h, cosine = 1 - 2h/d and distance² = 4h.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import Vectors
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import CORPUS, Kind

__all__ = ["CALIBRATES", "PRECISIONS", "check_precision", "quantize", "quantized", "ranges_of"]

PRECISIONS = ("float32", "int8", "binary")

# What may be known before the test: the corpus that is searched, the rows that are learned from
# and, where nothing is learned, the rows that the setting is chosen by.
CALIBRATES: Mapping[Kind, str] = {
    Kind.RETRIEVAL: CORPUS,
    Kind.CLASSIFICATION: "train",
    Kind.CLUSTERING: "validation",
}
_ROWS = 1 << 14  # that are quantised at once

Ranges = npt.NDArray[np.float32]


def check_precision(name: str) -> None:
    """Raise UsageError unless a precision is known."""
    if name not in PRECISIONS:
        raise UsageError(f"no precision {name!r}; expected {', '.join(PRECISIONS)}")


def ranges_of(vectors: Vectors) -> Ranges:
    """Lowest and highest value of every dimension, shape (2, dimensions).

    >>> ranges_of(np.array([[0.0, 5.0], [2.0, 3.0]], dtype=np.float32)).tolist()
    [[0.0, 3.0], [2.0, 5.0]]
    """
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float32)


def quantize(vectors: Vectors, precision: str, ranges: Ranges | None = None) -> Vectors:
    """The values that quantised vectors hold.

    Args:
        vectors: (n, dimensions), finished: cut and scaled.
        precision: `float32`: as they are. `binary`: 1 above zero, else -1. `int8`: -128 to 127, the
            step of 255 between a dimension's lowest and highest value, what lies outside held to
            the ends; a dimension of one value has steps of 1.
        ranges: of int8, from `ranges_of`.

    Returns:
        float32 (n, dimensions), whole numbers.

    Raises:
        UsageError: no such precision.
        ValueError: int8 without ranges, or with those of other dimensions.

    >>> quantize(np.array([[-0.2, 0.0, 0.7]], dtype=np.float32), "binary").tolist()
    [[-1.0, -1.0, 1.0]]
    """
    check_precision(precision)
    if precision == "float32":
        return vectors
    if precision == "int8" and (ranges is None or ranges.shape != (2, vectors.shape[1])):
        raise ValueError(f"int8 needs ranges of shape (2, {vectors.shape[1]})")
    found = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), _ROWS):
        rows = slice(start, start + _ROWS)
        found[rows] = _signs(vectors[rows]) if ranges is None else _steps(vectors[rows], ranges)
    return found


def _signs(vectors: Vectors) -> Vectors:
    return np.where(vectors > 0, np.float32(1), np.float32(-1))


def _steps(vectors: Vectors, ranges: Ranges) -> Vectors:
    low, high = ranges
    step = (high - low) / np.float32(255)
    step = np.where(step == 0, np.float32(1), step)
    codes: Vectors = np.clip(np.floor((vectors - low) / step), 0, 255) - np.float32(128)
    return codes


def quantized(vectors: Mapping[str, Vectors], kind: Kind, precision: str) -> dict[str, Vectors]:
    """The vectors of a task's splits, all by the ranges of the split that calibrates its kind.

    Args:
        vectors: by split, as the encoder gave them.
        kind: of the task.
        precision: a name of `PRECISIONS`.
    """
    ranges = ranges_of(vectors[CALIBRATES[kind]]) if precision == "int8" else None
    return {split: quantize(found, precision, ranges) for split, found in vectors.items()}
