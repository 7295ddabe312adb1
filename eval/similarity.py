"""Similarities of float32 vectors: exact ones for few pairs, bounded ones for all pairs of a block.

`scores` is what ranks documents: float64, each pair by itself, so that a score depends on the two
vectors only. `product` estimates the same by one matrix product and says how far it can be off,
whatever the order in which the machine adds (Higham 2002, Accuracy and Stability of Numerical
Algorithms, section 3.1: a sum of d products is off by at most gamma_d |q| |d|).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import Vectors

__all__ = ["SIMILARITIES", "Estimate", "Floats", "product", "scores"]

SIMILARITIES = ("cosine", "dot", "euclidean")

Floats: TypeAlias = npt.NDArray[np.float64]

# Squared lengths between which no float32 product of two vectors overflows or loses its digits.
_LEAST, _MOST = 2.0**-60, 2.0**60


def scores(queries: Vectors, documents: Vectors, similarity: str) -> Floats:
    """Score pairs; higher is nearer, and only the order of one query's scores means something.

    Products of float32 numbers are exact in float64. Every row is summed alone and in one order:
    equal vectors have equal scores, wherever they stand.

    Args:
        queries: float32 (n, d), C-contiguous.
        documents: float32 (n, d), C-contiguous, the other half of each pair.
        similarity: `"cosine"`: q.d / |d|, 0 for a zero vector; `"dot"`: q.d; `"euclidean"`:
            -|q - d|^2, from differences, so that near vectors lose no digits.

    Returns:
        float64 (n,).
    """
    left, right = queries.astype(np.float64), documents.astype(np.float64)
    if similarity == "euclidean":
        left -= right
        squared: Floats = np.square(left, out=left).sum(axis=1)
        return -squared
    left *= right
    dots: Floats = left.sum(axis=1)
    if similarity == "dot":
        return dots
    lengths = np.sqrt(np.square(right, out=right).sum(axis=1))
    cosines: Floats = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths != 0)
    return cosines


@dataclass(frozen=True, slots=True)
class Estimate:
    """Scores of a block of queries by documents, up to a bounded error.

    Attributes:
        values: (queries, documents), of (score + offset) * scale.
        error: float64 (queries, documents), or (queries, 1) for the most of a row; no value is
            further from the true one than that.
        offset: float64 (queries, 1).
        scale: the same for all.
    """

    values: npt.NDArray[Any]
    error: Floats
    offset: Floats
    scale: float

    def reach(self, scores: Floats) -> npt.NDArray[np.bool_]:
        """Which documents can have at least these scores (queries,)."""
        return self._above((scores[:, None] + self.offset) * self.scale)

    def reach_best(self, k: int) -> npt.NDArray[np.bool_]:
        """Which documents can be among the k best of these."""
        last = self.values.shape[1] - k
        shared = self.error.shape[1] == 1
        least = np.partition(self.values if shared else self.values - self.error, last, axis=1)
        return self._above(least[:, last, None] - (self.error if shared else 0))

    def _above(self, floor: Floats) -> npt.NDArray[np.bool_]:
        rounded = (floor - self.error).astype(self.values.dtype)
        able: npt.NDArray[np.bool_] = self.values >= np.nextafter(rounded, -np.inf)
        return able


def product(
    queries: Vectors, documents: Vectors, similarity: str, dtype: type[np.floating[Any]]
) -> Estimate | None:
    """Estimate all scores of a block by a matrix product in `dtype`.

    Returns:
        None where vectors are so long or short that float32 overflows or loses digits; float64
        holds all products of float32 numbers.

    Raises:
        ValueError: NaN or infinity among the vectors.
    """
    wide = queries.astype(np.float64)
    lengths_squared: Floats = np.einsum("ij,ij->i", wide, wide)
    left, right = queries.astype(dtype, copy=False), documents.astype(dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", right, right)
    if dtype is np.float32 and not _holds(lengths_squared, squares, documents):
        return None
    if not (np.isfinite(lengths_squared).all() and np.isfinite(squares).all()):
        raise ValueError("NaN or infinity among the vectors, expected finite ones; encode again")
    values = left @ right.T
    if similarity == "cosine":
        values *= 1 / np.sqrt(np.where(squares > 0, squares, 1))
    elif similarity == "euclidean":  # -|q - d|^2 = 2 (q.d - |d|^2 / 2) - |q|^2
        values -= squares / 2
    # per row in float32, for speed; in float64 for each pair, as few long vectors spoil a row
    lengths = np.sqrt(squares.max(keepdims=True) if dtype is np.float32 else squares)
    offset = lengths_squared[:, None]
    error = _error(np.sqrt(offset), lengths.astype(np.float64), similarity, dtype, right.shape[1])
    if similarity == "euclidean":
        return Estimate(values, error, offset, 0.5)
    return Estimate(values, error, np.zeros_like(offset), 1.0)


def _holds(lengths_squared: Floats, squares: npt.NDArray[Any], documents: Vectors) -> bool:
    """Whether float32 holds the block: no length is out of bounds, but for zero vectors."""
    short = squares < _LEAST
    return bool(
        squares.max() <= _MOST
        and lengths_squared.max() <= _MOST
        and not (short.any() and documents[short].any())
    )


def _error(q: Floats, d: Floats, similarity: str, dtype: type[Any], dimensions: int) -> Floats:
    """How far a value of `product`, or a score of `scores`, can be from the true one.

    gamma is taken of 2 * dimensions + 8 roundings: those of the product, of the documents' squared
    lengths, and of scaling or shifting. Scores are rounded too, in float64. The last term bounds
    what float32 flushes to zero, in products and inputs, where 1 / |d| <= 2^30.

    Args:
        q: lengths of queries (m, 1).
        d: lengths of documents (1, n), or the greatest (1,).
        similarity: one of `SIMILARITIES`.
        dtype: of the product.
        dimensions: of the vectors.
    """
    size: Floats = q if similarity == "cosine" else q * d
    exact = size
    if similarity == "euclidean":
        size, exact = size + d * d / 2, 2 * (q + d) ** 2
    roundings = 2 * dimensions + 8
    bound: Floats = 1.01 * (_gamma(roundings, dtype) * size + _gamma(roundings, np.float64) * exact)
    return bound + dimensions * 2.0**-95 * (1 + d + q) if dtype is np.float32 else bound


def _gamma(n: int, dtype: type[Any]) -> float:
    share = n * float(np.finfo(dtype).eps) / 2
    return share / (1 - share)
