"""Retrieval: exact search by cosine, dot product or Euclidean distance, nDCG@10."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.metrics.hit_rate_at_k.hit_rate_at_k import hit_rate_at_k
from jfinteb.eval.metrics.map_at_k.map_at_k import map_at_k
from jfinteb.eval.metrics.mrr_at_k.mrr_at_k import mrr_at_k
from jfinteb.eval.metrics.ndcg_at_k.ndcg_at_k import ndcg_at_k, per_query
from jfinteb.eval.metrics.recall_at_k.recall_at_k import recall_at_k
from jfinteb.eval.outcome import Outcome, Scores, choose
from jfinteb.eval.ranking import SIMILARITIES, rank
from jfinteb.eval.stats import bootstrap
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import CORPUS, Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["K", "ceiling", "run"]

K = 10
_HITS = (1, 3, 5, 10)


def run(
    task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors], seed: int
) -> Outcome:
    """Choose the similarity by validation nDCG@10, search test queries once.

    Args:
        task: the task.
        tables: queries of validation and test, and the corpus.
        vectors: one float32 vector a row, by split.
        seed: not used: nothing is drawn.

    Raises:
        DataError: a split whose queries have no relevant document at all.
    """
    documents = tables[CORPUS].column("docid").to_pylist()

    def search(split: str, similarity: str) -> tuple[list[list[str]], list[list[str]]]:
        queries = tables[split].column("id").to_pylist()
        relevant = tables[split].column("relevant_docs").to_pylist()
        if not any(relevant):
            raise DataError(f"{task.name}/{split}: no query has a relevant document")
        pair = (vectors[split], vectors[CORPUS])
        return rank(*pair, queries, documents, similarity, K), relevant

    validation = {name: _scores(*search("validation", name)) for name in SIMILARITIES}
    chosen = choose(validation, task.metric)
    ranked, relevant = search("test", chosen)
    scores = _scores(ranked, relevant)
    each = per_query(ranked, relevant, K)
    table = tables["test"]
    top = ceiling(
        table.column("query").to_pylist(),
        relevant,
        dict(zip(documents, tables[CORPUS].column("text").to_pylist(), strict=True)),
    )
    skipped = sum(value is None for value in each)
    return Outcome(
        score=scores[task.metric],
        scores=scores,
        chosen=chosen,
        validation=validation,
        predictions=[
            {"id": i, "reference": docs, "prediction": found, task.metric: value}
            for i, docs, found, value in zip(
                table.column("id").to_pylist(), relevant, ranked, each, strict=True
            )
        ],
        interval=bootstrap([value for value in each if value is not None]),
        ceiling=top if top < 1 else None,
        notes=[f"{skipped} queries without relevant documents left out"] if skipped else [],
    )


def _scores(ranked: Sequence[Sequence[str]], relevant: Sequence[Sequence[str]]) -> Scores:
    scores = {f"ndcg_at_{K}": float(ndcg_at_k(ranked, relevant, K)["ndcg_at_k"])}
    scores[f"mrr_at_{K}"] = float(mrr_at_k(ranked, relevant, K)["mrr_at_k"])
    scores[f"map_at_{K}"] = float(map_at_k(ranked, relevant, K)["map_at_k"])
    scores[f"recall_at_{K}"] = float(recall_at_k(ranked, relevant, K)["recall_at_k"])
    for k in _HITS:
        scores[f"hit_rate_at_{k}"] = float(hit_rate_at_k(ranked, relevant, k)["hit_rate_at_k"])
    return scores


def ceiling(
    queries: Sequence[str], relevant: Sequence[Sequence[str]], corpus: Mapping[str, str]
) -> float:
    """Expected nDCG@10 of a perfect model, which cannot tell equal texts apart.

    It ranks a relevant document together with the copies of its text, in random order, and ranks
    alike for queries of the same wording; the surest texts come first.

    Args:
        queries: query texts.
        relevant: relevant document ids of each.
        corpus: document id -> text.

    >>> round(ceiling(["q"], [["a"]], {"a": "x", "b": "x"}), 4)
    0.8155
    """
    copies = Counter(corpus.values())
    same: dict[str, list[set[str]]] = defaultdict(list)
    for query, docs in zip(queries, relevant, strict=True):
        if docs:
            same[query].append(set(docs))
    values = [value for asked in same.values() for value in _perfect(asked, corpus, copies)]
    return math.fsum(values) / len(values)


def _perfect(
    asked: Sequence[set[str]], corpus: Mapping[str, str], copies: Mapping[str, int]
) -> list[float]:
    """Expected nDCG@10 of the best ranking, for each of several queries of one wording."""
    # a query's share of a text: how likely one of its copies is relevant, over the ideal DCG
    shares = [
        {text: n / copies[text] / _dcg(len(docs)) for text, n in texts.items()}
        for docs in asked
        for texts in (Counter(corpus[doc] for doc in docs),)
    ]
    worth = {text: sum(share.get(text, 0.0) for share in shares) for text in chain(*shares)}
    values, above = [0.0] * len(asked), 0
    for text in sorted(worth, key=lambda text: (-worth[text], text)):
        gain = _dcg(above + copies[text]) - _dcg(above)
        above += copies[text]
        values = [v + share.get(text, 0.0) * gain for v, share in zip(values, shares, strict=True)]
    return values


def _dcg(n: int) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(n, K) + 1))
