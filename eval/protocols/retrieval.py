"""Retrieval: exact search by cosine, dot product or Euclidean distance, nDCG@10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from jfinteb.loaders.ceiling import K, ceiling
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import CORPUS, Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["run"]

_HITS = (1, 3, 5, 10)
_SPLITS = ("validation", "test")


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
    ids = {split: tables[split].column("id").to_pylist() for split in _SPLITS}
    gold = {split: tables[split].column("relevant_docs").to_pylist() for split in _SPLITS}
    for split, relevant in gold.items():
        if not any(relevant):
            raise DataError(f"{task.name}/{split}: no query has a relevant document")

    def search(split: str, similarity: str) -> list[list[str]]:
        return rank(vectors[split], vectors[CORPUS], ids[split], documents, similarity, K)

    validation = {
        name: _scores(search("validation", name), gold["validation"]) for name in SIMILARITIES
    }
    chosen = choose(validation, task.metric)
    ranked, relevant = search("test", chosen), gold["test"]
    scores = _scores(ranked, relevant)
    each = per_query(ranked, relevant, K)
    top = ceiling(
        tables["test"].column("query").to_pylist(),
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
            for i, docs, found, value in zip(ids["test"], relevant, ranked, each, strict=True)
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
