"""MRR@k: how early the first relevant document stands.

The mean reciprocal rank of Voorhees (1999), cut at rank k.
The module stands alone, so that ``evaluate.load`` can read its folder from anywhere; the helpers
that the five rank metrics share are therefore repeated in each, and a test keeps them identical.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import datasets
import evaluate

CITATION = """@inproceedings{voorhees-1999-trec8,
    title = {The {TREC-8} Question Answering Track Report},
    author = {Voorhees, Ellen M.},
    booktitle = {Proceedings of the Eighth Text REtrieval Conference (TREC-8)},
    pages = {77--82}, year = {1999},
}
"""

INPUTS = """
    predictions (list of list of str): document ids per query, best first.
    references (list of list of str): ids of the relevant documents per query.
    k (int, default 10): how many of the first documents count.
"""


def check_queries(
    predictions: Sequence[Collection[str]], references: Sequence[Collection[str]]
) -> None:
    """Refuse what is not one list of ``str`` ids per query on both sides.

    Raises:
        ValueError: The two sides differ in length.
        TypeError: A query's documents are no list (a set has no order), or an id is no ``str``.
    """
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions hold {len(predictions)} queries and references {len(references)}; "
            "expected as many in both: give one list per query, [] where there is none"
        )
    for side, queries in (("predictions", predictions), ("references", references)):
        unfit = (str, bytes, Mapping, Set) if side == "predictions" else (str, bytes, Mapping)
        for row, ids in enumerate(queries):
            if isinstance(ids, unfit) or not isinstance(ids, Collection):
                raise TypeError(
                    f"{side}[{row}] is {ids!r:.60} ({type(ids).__name__}); "
                    "expected a list of document ids: give one list per query"
                )
            for doc in ids:
                if not isinstance(doc, str):
                    raise TypeError(
                        f"{side}[{row}] holds the id {doc!r} ({type(doc).__name__}); "
                        "expected a str: convert ids on both sides, since 0 and '0' never match"
                    )


def relevant_ranks(
    predictions: Sequence[Collection[str]], references: Sequence[Collection[str]], k: int
) -> list[tuple[list[int], int]]:
    """Find where the relevant documents stand in each ranking.

    Args:
        predictions: Document ids per query, best first. Only an id's first position counts.
        references: Ids of the relevant documents per query; a repeated id counts once.
        k: Rank of the last document that counts, at least 1.

    Returns:
        Per query, the ascending ranks (from 1, at most ``k``) of the relevant documents found, and
        the number of relevant documents.

    Raises:
        ValueError: ``k`` is below 1, or the two sides differ in length.
        TypeError: ``k`` is no int, or see :func:`check_queries`.
    """
    if isinstance(k, bool) or not isinstance(k, int):
        raise TypeError(f"k is {k!r} ({type(k).__name__}); expected an int of at least 1: pass one")
    if k < 1:
        raise ValueError(f"k is {k}; expected an int of at least 1: pass one")
    check_queries(predictions, references)
    judged = []
    for ranking, gold in zip(predictions, references, strict=True):
        relevant = set(gold)
        first_k = list(dict.fromkeys(ranking))[:k]
        ranks = [rank for rank, doc in enumerate(first_k, start=1) if doc in relevant]
        judged.append((ranks, len(relevant)))
    return judged


def mean_score(name: str, scores: Sequence[float | None]) -> dict[str, float | int]:
    """Average the queries that have a score; ``fsum`` makes their order irrelevant to the last bit.

    Raises:
        ValueError: No query has a score.
    """
    kept = [score for score in scores if score is not None]
    if not kept:
        raise ValueError(
            f"none of the {len(scores)} queries has a relevant document; expected at least one: "
            "check the references"
        )
    return {
        name: math.fsum(kept) / len(kept),
        "n_queries": len(kept),
        "n_skipped": len(scores) - len(kept),
    }


def per_query(
    predictions: Sequence[Collection[str]], references: Sequence[Collection[str]], k: int = 10
) -> list[float | None]:
    """Score each query: 1 / rank of its first relevant document, 0 if none is in the first ``k``.

    Args:
        predictions: Document ids per query, best first.
        references: Ids of the relevant documents per query.
        k: Rank of the last document that counts, at least 1.

    Returns:
        One score in [0, 1] per query, in order; None for a query without relevant documents.

    Raises:
        ValueError: ``k`` is below 1, or the two sides differ in length.
        TypeError: ``k`` is no int, an id is no ``str``, or a query's documents are not a list.

    Examples:
        >>> per_query([["d9", "d1", "d2"], [], ["d1"]], [["d1", "d2"], ["d1"], []])
        [0.5, 0.0, None]
    """
    return [
        (1.0 / ranks[0] if ranks else 0.0) if n_relevant else None
        for ranks, n_relevant in relevant_ranks(predictions, references, k)
    ]


def mrr_at_k(
    predictions: Sequence[Collection[str]], references: Sequence[Collection[str]], k: int = 10
) -> dict[str, float | int]:
    """Average the reciprocal rank of the first relevant document over queries.

    Voorhees (1999): 1 / rank of the first relevant document; here 0 where that rank exceeds ``k``.

    Args:
        predictions: Document ids per query, best first; the order given is final.
        references: Ids of the relevant documents per query.
        k: Rank of the last document that counts, at least 1; it may exceed the ranking's length.

    Returns:
        ``mrr_at_k``, the mean, in [0, 1]; ``n_queries``, how many queries are in it;
        ``n_skipped``, how many have no relevant document and were left out.

    Raises:
        ValueError: No query has a relevant document, ``k`` is below 1, or the lengths differ.
        TypeError: ``k`` is no int, an id is no ``str``, or a query's documents are not a list.

    Examples:
        >>> mrr_at_k(predictions=[["d3", "d1"], ["d2"]], references=[["d1"], ["d2"]], k=10)
        {'mrr_at_k': 0.75, 'n_queries': 2, 'n_skipped': 0}
        >>> mrr_at_k([["d3", "d1"], ["d2"]], [["d1"], []], k=1)
        {'mrr_at_k': 0.0, 'n_queries': 1, 'n_skipped': 1}
    """
    return mean_score("mrr_at_k", per_query(predictions, references, k))


class MrrAtK(evaluate.Metric):  # type: ignore[misc]
    """:func:`mrr_at_k` as a module of the ``evaluate`` library."""

    def _info(self) -> evaluate.MetricInfo:
        ids = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=__doc__,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": ids, "references": ids}),
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add queries once their ids are known to be ``str``: evaluate would cast others unseen."""
        check_queries(predictions, references)
        evaluate.Metric.add_batch(self, predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one query, checked as in :meth:`add_batch`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(
        self, predictions: list[list[str]], references: list[list[str]], k: int = 10
    ) -> dict[str, float | int]:
        return mrr_at_k(predictions, references, k)
