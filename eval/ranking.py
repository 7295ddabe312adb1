"""Exact top-k search with one rule for ties, so that no score hangs on the order of documents.

Equal documents get equal scores (each distinct vector is scored once), and equal scores are ordered
by a hash of query id and document id: neither the order of the corpus, nor how ids sort, nor the
number of threads decides a rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import Vectors

__all__ = ["SIMILARITIES", "rank", "tie_keys"]

SIMILARITIES = ("cosine", "dot", "euclidean")
_BLOCK = 1 << 24  # scores held at once

Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


def rank(
    queries: Vectors,
    documents: Vectors,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    similarity: str,
    k: int,
) -> list[list[str]]:
    """The k best documents of every query, best first.

    Args:
        queries: float32 (m, d).
        documents: float32 (n, d).
        query_ids: m ids; they only order equal scores.
        document_ids: n ids.
        similarity: `"cosine"` (a zero vector is at 0 from all), `"dot"`, `"euclidean"` (nearest).
        k: number of documents; a smaller corpus gives as many as it has.

    Returns:
        m lists of min(k, n) document ids.
    """
    distinct, index = _distinct(documents)
    wide = queries.astype(np.float64), distinct.astype(np.float64)
    left, right, shift = _prepare(*wide, similarity)
    keys, query_keys = _hashes(document_ids), _hashes(query_ids)
    k = min(k, len(document_ids))
    ranked: list[list[str]] = []
    step = max(1, _BLOCK // max(1, len(document_ids)))
    for start in range(0, len(left), step):
        scores = left[start : start + step] @ right.T + shift
        for row, query_key in zip(scores, query_keys[start : start + step], strict=True):
            ranked.append([document_ids[i] for i in _best(row[index], keys, query_key, k)])
    return ranked


def _best(scores: Floats, keys: Hashes, query_key: np.uint64, k: int) -> npt.NDArray[np.intp]:
    """Indices of the k highest scores; equal ones by tie key."""
    if k == 0:
        return np.empty(0, dtype=np.intp)
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= threshold)
    order = np.lexsort((tie_keys(keys[candidates], query_key), -scores[candidates]))
    return candidates[order[:k]]


def tie_keys(document_keys: Hashes, query_key: np.uint64) -> Hashes:
    """Mix hashes of documents and of a query (the finaliser of SplitMix64)."""
    mixed = document_keys ^ query_key
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _hashes(ids: Sequence[str]) -> Hashes:
    digests = (hashlib.blake2b(i.encode(), digest_size=8).digest() for i in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _distinct(vectors: Vectors) -> tuple[Vectors, npt.NDArray[np.intp]]:
    """Distinct rows in an order of their own, and for every row the index of its equal."""
    rows = np.ascontiguousarray(vectors) + np.float32(0)  # -0.0 becomes 0.0
    as_bytes: npt.NDArray[Any] = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    _, first, index = np.unique(as_bytes.ravel(), return_index=True, return_inverse=True)
    return rows[first], index.ravel()


def _prepare(
    queries: Floats, documents: Floats, similarity: str
) -> tuple[Floats, Floats, Floats | float]:
    """Factors whose product, plus a shift a document, orders documents as the similarity does.

    In float64: the vectors of one model often share a direction, and cosines near 1, like squared
    distances, are small differences of large numbers.
    """
    if similarity == "cosine":
        return _unit(queries), _unit(documents), 0.0
    if similarity == "dot":
        return queries, documents, 0.0
    if similarity == "euclidean":  # -|q - d|^2 / 2 = q.d - |d|^2 / 2 - a constant of the query
        return queries, documents, -np.square(documents).sum(axis=1) / 2
    raise ValueError(f"no similarity {similarity!r}; expected one of {', '.join(SIMILARITIES)}")


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms != 0)
    return unit
