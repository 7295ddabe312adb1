"""Clustering: four scikit-learn algorithms, V-measure; seeded, with its spread over seeds."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sklearn.cluster import BisectingKMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.metrics.v_measure.v_measure import v_measure
from jfinteb.eval.outcome import Outcome, Scores, choose
from jfinteb.eval.ward import Ward, WardBirch
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SEEDS", "SETTINGS", "run"]

SEEDS = 5

# AgglomerativeClustering(n) and Birch(n_clusters=n), as in the paper, with our faster Ward.
SETTINGS: Mapping[str, Callable[[int, int], Any]] = {
    "minibatch_kmeans": lambda n, seed: MiniBatchKMeans(n, n_init="auto", random_state=seed),
    "agglomerative": lambda n, seed: Ward(n),
    "bisecting_kmeans": lambda n, seed: BisectingKMeans(n, random_state=seed),
    "birch": lambda n, seed: WardBirch(n),
}
_SEEDED = ("minibatch_kmeans", "bisecting_kmeans")


def run(
    task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors], seed: int
) -> Outcome:
    """Choose by validation V-measure, cluster test with the chosen algorithm.

    An algorithm that draws random numbers runs with the seeds `seed` to `seed + 4`, and its score
    is the mean; the predictions kept are those of the first seed.

    Raises:
        DataError: a split with one label only (V-measure then says nothing) or too few rows.
    """
    labels = {split: table.column("label").to_pylist() for split, table in tables.items()}
    for split, values in labels.items():
        if len(set(values)) < 2 or len(values) < len(task.labels):
            raise DataError(
                f"{task.name}/{split} has {len(values)} rows of {len(set(values))} labels, "
                f"expected two labels and {len(task.labels)} rows (one a cluster) or more"
            )
    notes: list[str] = []
    validation = {
        name: _mean(_runs(task, name, vectors["validation"], labels["validation"], seed, notes)[1])
        for name in SETTINGS
    }
    chosen = choose(validation, task.metric)
    clusters, runs = _runs(task, chosen, vectors["test"], labels["test"], seed, notes)
    scores = _mean(runs)
    values = [run[task.metric] for run in runs]
    ids = tables["test"].column("id").to_pylist()
    return Outcome(
        score=scores[task.metric],
        scores=scores,
        chosen=chosen,
        validation=validation,
        predictions=[
            {"id": i, "reference": task.labels[y], "cluster": c}
            for i, y, c in zip(ids, labels["test"], clusters, strict=True)
        ],
        spread={
            "seeds": [seed + n for n in range(len(values))],
            "scores": values,
            "low": min(values),
            "high": max(values),
            "standard_deviation": statistics.pstdev(values),
        },
        notes=sorted(set(notes)),
    )


def _runs(
    task: Task, name: str, vectors: Vectors, labels: Sequence[int], seed: int, notes: list[str]
) -> tuple[list[int], list[Scores]]:
    """Clusters of the first seed, and the scores of every seed."""
    seeds = range(seed, seed + SEEDS) if name in _SEEDED else (seed,)
    found: list[list[int]] = []
    scores: list[Scores] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for each in seeds:
            clusters = SETTINGS[name](len(task.labels), each).fit_predict(vectors).tolist()
            found.append(clusters)
            scores.append({k: float(v) for k, v in v_measure(clusters, labels).items()})
    if any(issubclass(w.category, ConvergenceWarning) for w in caught):
        notes.append(f"{name} found fewer than {len(task.labels)} clusters")
    return found[0], scores


def _mean(runs: Sequence[Scores]) -> Scores:
    return {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}
