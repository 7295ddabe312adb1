"""Classification: kNN (k=2, cosine) or logistic regression on frozen vectors, macro F1."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.metrics.accuracy.accuracy import accuracy
from jfinteb.eval.metrics.macro_f1.macro_f1 import macro_f1
from jfinteb.eval.outcome import Outcome, Scores, choose
from jfinteb.eval.stats import bootstrap_macro_f1
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SETTINGS", "run"]

# Lengths between these are safe in scikit-learn's float32 cosine: it squares them, and takes those
# below 1.2e-6 for zero.
_SHORT, _LONG = 2.0**-19, 2.0**40


def _measurable(vectors: Vectors) -> Vectors:
    """Scale vectors of extreme length by powers of two: cosines stay, others stay to the bit."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    extreme = np.flatnonzero((lengths > _LONG) | ((lengths < _SHORT) & (lengths > 0)))
    if not len(extreme):
        return vectors
    scaled = vectors.copy()
    scaled[extreme] = np.ldexp(vectors[extreme], -np.frexp(lengths[extreme])[1][:, None])
    return scaled


# scikit-learn's defaults, as in the paper. Where kNN's two neighbours disagree the lower label id
# wins (the mode of two votes): the paper's rule, kept knowingly.
SETTINGS: Mapping[str, Callable[[], Any]] = {
    "knn_k2_cosine": lambda: make_pipeline(
        FunctionTransformer(_measurable), KNeighborsClassifier(n_neighbors=2, metric="cosine")
    ),
    "logistic_regression": LogisticRegression,
}


def run(
    task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors], seed: int
) -> Outcome:
    """Fit on train, choose by validation macro F1, score test once.

    Args:
        task: gives the label names.
        tables: rows of train, validation and test.
        vectors: one float32 vector a row, by split.
        seed: not used: neither classifier draws random numbers.

    Raises:
        DataError: fewer than two labels or rows in train.
    """
    labels = {split: table.column("label").to_pylist() for split, table in tables.items()}
    if len(set(labels["train"])) < 2:
        raise DataError(f"{task.name}/train has one label only, expected two or more")
    notes: list[str] = []
    fitted, validation = {}, {}
    for name, make in SETTINGS.items():
        fitted[name] = _fit(name, make(), vectors["train"], labels["train"], notes)
        predicted = fitted[name].predict(vectors["validation"]).tolist()
        validation[name] = _scores(task, predicted, labels["validation"])
    chosen = choose(validation, task.metric)
    predicted = fitted[chosen].predict(vectors["test"]).tolist()
    scores = _scores(task, predicted, labels["test"])
    ids = tables["test"].column("id").to_pylist()
    return Outcome(
        score=scores[task.metric],
        scores=scores,
        chosen=chosen,
        validation=validation,
        predictions=[
            {"id": i, "reference": task.labels[y], "prediction": task.labels[p]}
            for i, y, p in zip(ids, labels["test"], predicted, strict=True)
        ],
        interval=bootstrap_macro_f1(labels["test"], predicted),
        notes=notes,
    )


def _fit(name: str, model: Any, vectors: Vectors, labels: list[int], notes: list[str]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(vectors, labels)
    if any(issubclass(w.category, ConvergenceWarning) for w in caught):
        notes.append(f"{name} stopped at scikit-learn's default of iterations, as in the paper")
    return model


def _scores(task: Task, predictions: list[int], references: list[int]) -> Scores:
    known = list(range(len(task.labels)))
    return {
        "macro_f1": float(macro_f1(predictions, references, labels=known)["macro_f1"]),
        "accuracy": float(accuracy(predictions, references)["accuracy"]),
    }
