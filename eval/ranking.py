"""Exact top-k search with one rule for ties, so that no score hangs on the order of documents.

Equal documents get equal scores, and equal scores are ordered by a hash of query id and document
id: neither the order of the corpus, nor how ids sort, nor the number of threads decides a rank.

Documents stream by in chunks. A float32 matrix product, whose error is bounded, tells which
documents of a chunk can be among the best; only those are scored, in float64. Where it tells too
little (near-equal documents, a corpus far from the origin), equal documents are searched as one,
and the product is made in float64.
"""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.similarity import SIMILARITIES, Floats, product, scores
from jfinteb.loaders.processes import cores

__all__ = ["SIMILARITIES", "rank", "tie_keys"]

_QUERIES, _DOCUMENTS = 512, 4096  # of a block; its product stays in the processor's cache
_NUMBERS = 1 << 22  # of vectors held at once beside the product
_OFFERS = 1 << 18  # documents offered at once
_SMALL = 1 << 29  # multiplications that are not worth a second thread

Hashes: TypeAlias = npt.NDArray[np.uint64]
Indices: TypeAlias = npt.NDArray[np.intp]


def rank(
    queries: Vectors,
    documents: Vectors,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    similarity: str,
    k: int,
    *,
    threads: int | None = None,
) -> list[list[str]]:
    """The k best documents of every query, best first.

    Beside the vectors and the result, memory holds m * k numbers and some 50 MB a thread.

    Args:
        queries: float32 (m, d), all finite.
        documents: float32 (n, d), all finite; may be an `np.memmap`, which is read once.
        query_ids: m ids; they only order equal scores.
        document_ids: n ids.
        similarity: `"cosine"` (a zero vector is at 0 from all), `"dot"`, `"euclidean"` (nearest).
        k: number of documents; a smaller corpus gives as many as it has.
        threads: at most so many, each with a matrix product of its own; None: one a core. They
            change no rank.

    Returns:
        m lists of min(k, n) document ids.

    Raises:
        ValueError: no such similarity, or vectors that are not finite.
    """
    if similarity not in SIMILARITIES:
        raise ValueError(f"no similarity {similarity!r}; expected one of {', '.join(SIMILARITIES)}")
    m, n, k = len(query_ids), len(document_ids), min(k, len(document_ids))
    if not m or not k:
        return [[] for _ in range(m)]
    step = max(64, min(_DOCUMENTS, _NUMBERS // documents.shape[1]))
    starts: queue.SimpleQueue[int] = queue.SimpleQueue()
    for start in range(0, n, step):
        starts.put(start)
    search = _Search(queries, documents, _hashes(query_ids), document_ids, similarity, k, step)
    small = m * n * documents.shape[1] < _SMALL
    workers = 1 if small else min(threads or cores(), starts.qsize())
    if workers == 1:
        best = search.run(starts)
    else:
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
            best, *others = pool.map(search.run, [starts] * workers)
        for other in others:
            best.merge(other)
    return [[document_ids[i] for i in row] for row in best.documents]


def tie_keys(document_keys: Hashes, query_key: np.uint64 | Hashes) -> Hashes:
    """Mix hashes of documents and of a query (the finaliser of SplitMix64)."""
    mixed = document_keys ^ query_key
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


class _Best:
    """The k best documents so far of every query, best first; -infinity where there are fewer."""

    def __init__(self, m: int, k: int) -> None:
        self.scores = np.full((m, k), -np.inf)
        self.keys = np.full((m, k), np.iinfo(np.uint64).max, dtype=np.uint64)
        self.documents = np.full((m, k), -1, dtype=np.intp)

    def offer(self, rows: Indices, documents: Indices, scores: Floats, keys: Hashes) -> None:
        """Take in documents of some queries (`rows`, one an offer)."""
        last = self.scores[rows, -1]
        better = (scores > last) | ((scores == last) & (keys < self.keys[rows, -1]))
        if not better.any():
            return
        touched = np.unique(rows[better])
        k = self.scores.shape[1]
        of = np.concatenate([np.repeat(touched, k), rows[better]])
        found = np.concatenate([self.scores[touched].ravel(), scores[better]])
        ties = np.concatenate([self.keys[touched].ravel(), keys[better]])
        which = np.concatenate([self.documents[touched].ravel(), documents[better]])
        order = np.lexsort((ties, -found, of))
        first = np.searchsorted(of[order], touched)
        kept = order[first[:, None] + np.arange(k)]
        self.scores[touched], self.keys[touched] = found[kept], ties[kept]
        self.documents[touched] = which[kept]

    def merge(self, other: _Best) -> None:
        """Take in what another search found for the same queries."""
        rows, places = np.nonzero(other.documents >= 0)
        at = (rows, places)
        self.offer(rows, other.documents[at], other.scores[at], other.keys[at])


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Consecutive documents by vector: vector i is that of `members[starts[i] : starts[i + 1]]`.

    `members` count from the document `first`. Few documents are ever candidates: `keys` has the
    hashes of those that were (`known`).
    """

    first: int
    vectors: Vectors
    members: Indices
    starts: Indices
    keys: Hashes
    known: npt.NDArray[np.bool_]
    merged: bool = False

    @classmethod
    def of(cls, vectors: Vectors, first: int) -> _Chunk:
        """Documents with a vector each."""
        n = len(vectors)
        keys, known = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.bool_)
        return cls(first, vectors, np.arange(n), np.arange(n + 1), keys, known)

    def distinct(self) -> _Chunk:
        """The same documents with every vector once, unless that saves little."""
        rows = self.vectors + np.float32(0)  # -0.0 becomes 0.0
        as_bytes: npt.NDArray[Any] = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
        _, first, index = np.unique(as_bytes.ravel(), return_index=True, return_inverse=True)
        if len(first) > 0.75 * len(rows):
            return replace(self, merged=True)
        order = np.argsort(index.ravel(), kind="stable")
        starts = np.searchsorted(index.ravel()[order], np.arange(len(first) + 1))
        members = self.members[order]
        return replace(self, vectors=rows[first], members=members, starts=starts, merged=True)

    def expand(self, columns: Indices) -> Iterator[tuple[Indices, Indices]]:
        """The documents of vectors, some at a time: places in `columns`, a document for each."""
        sizes = self.starts[columns + 1] - self.starts[columns]
        ends = np.cumsum(sizes)
        done = 0
        while done < len(columns):
            before = int(ends[done - 1]) if done else 0
            stop = max(done + 1, int(np.searchsorted(ends, before + _OFFERS, side="right")))
            part = np.repeat(np.arange(done, stop), sizes[done:stop])
            within = np.arange(len(part)) - (ends[part] - sizes[part] - before)
            yield part, self.members[self.starts[columns[part]] + within]
            done = stop

    def keys_of(self, members: Indices, ids: Sequence[str]) -> Hashes:
        """Hashes of documents; `ids` are those of the whole corpus."""
        missing = np.zeros_like(self.known)
        missing[members] = True
        missing &= ~self.known
        self.keys[missing] = _hashes(
            [ids[self.first + i] for i in np.flatnonzero(missing).tolist()]
        )
        self.known[missing] = True
        return self.keys[members]


@dataclass(frozen=True, slots=True)
class _Search:
    queries: Vectors
    documents: Vectors
    query_keys: Hashes
    document_ids: Sequence[str]
    similarity: str
    k: int
    step: int

    def run(self, starts: queue.SimpleQueue[int]) -> _Best:
        """Search chunks of documents until none is left in the queue."""
        best = _Best(len(self.query_keys), self.k)
        while True:
            try:
                start = starts.get_nowait()
            except queue.Empty:
                return best
            rows = np.ascontiguousarray(self.documents[start : start + self.step], np.float32)
            chunk = _Chunk.of(rows, start)
            for first in range(0, len(self.query_keys), _QUERIES):
                chunk = self._block(chunk, first, best)

    def _block(self, chunk: _Chunk, first: int, best: _Best) -> _Chunk:
        """Search a chunk for a block of queries; returns the chunk as it serves the next block."""
        queries = np.ascontiguousarray(self.queries[first : first + _QUERIES], np.float32)
        known = best.scores[first : first + _QUERIES, -1]
        found = self._candidates(queries, chunk, known, np.float32)
        if found is None and not chunk.merged:
            chunk = chunk.distinct()
            found = self._candidates(queries, chunk, known, np.float32)
        if found is None:
            found = self._candidates(queries, chunk, known, np.float64)
            assert found is not None
        self._score(queries, chunk, first, found, best)
        return chunk

    def _candidates(
        self, queries: Vectors, chunk: _Chunk, known: Floats, dtype: type[Any]
    ) -> Indices | None:
        """Cells (query * vectors + vector) that can be among the best; None: float32 cannot tell.

        Args:
            queries: (m, d).
            chunk: of c vectors.
            known: (m,) score that a document needs at least.
            dtype: of the product.
        """
        estimate = product(queries, chunk.vectors, self.similarity, dtype)
        if estimate is None:
            return None
        cells = estimate.values.size
        wanted = 2 * self.k * len(queries)
        able = estimate.reach(known)
        count = np.count_nonzero(able)
        if count > wanted and self.k < len(chunk.vectors):
            able &= estimate.reach_best(self.k)
            count = np.count_nonzero(able)
            if count > wanted + cells // 64 and dtype is np.float32:
                return None
        return np.flatnonzero(able)

    def _score(
        self, queries: Vectors, chunk: _Chunk, first: int, cells: Indices, best: _Best
    ) -> None:
        """Score candidates exactly and offer them, some at a time."""
        batch = max(1, _NUMBERS // queries.shape[1])
        # whatever the document, a zero query scores 0: then all documents can be candidates
        told = np.logical_or(queries.any(axis=1), self.similarity == "euclidean")
        for start in range(0, len(cells), batch):
            rows, columns = np.divmod(cells[start : start + batch], len(chunk.vectors))
            found = np.zeros(len(rows))
            at = np.flatnonzero(told[rows])
            pairs = queries[rows[at]], chunk.vectors[columns[at]]
            found[at] = scores(*pairs, self.similarity)
            rows += first
            able = found >= best.scores[rows, -1]
            for part, members in chunk.expand(columns[able]):
                asked = rows[able][part]
                keys = tie_keys(chunk.keys_of(members, self.document_ids), self.query_keys[asked])
                best.offer(asked, chunk.first + members, found[able][part], keys)


def _hashes(ids: Sequence[str]) -> Hashes:
    digests = (hashlib.blake2b(i.encode(), digest_size=8).digest() for i in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
