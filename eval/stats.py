"""Intervals for test scores: how far a score could move with other test rows of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "bootstrap", "bootstrap_macro_f1"]

LEVEL = 0.95
RESAMPLES = 1000
_NUMBERS = 1 << 17  # held at once

Rows: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile bootstrap interval (Efron 1979) over test rows."""

    low: float
    high: float
    level: float = LEVEL
    resamples: int = RESAMPLES


def bootstrap(values: Sequence[float]) -> Interval:
    """Interval of a mean of per-row values.

    >>> bootstrap([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5, level=0.95, resamples=1000)
    """
    array = np.asarray(values, dtype=np.float64)
    return _interval(len(array), lambda rows: array[rows].mean(axis=1))


def bootstrap_macro_f1(references: Sequence[int], predictions: Sequence[int]) -> Interval:
    """Interval of macro F1, over the classes that occur in the resampled rows."""
    true, guess = np.asarray(references), np.asarray(predictions)
    size = int(max(true.max(), guess.max())) + 1
    pairs = true * size + guess

    def macro_f1(rows: Rows) -> Floats:
        places = pairs[rows] + size**2 * np.arange(len(rows))[:, None]
        counts = np.bincount(places.ravel(), minlength=size**2 * len(rows))
        confusion = counts.reshape(len(rows), size, size)
        hits = np.diagonal(confusion, axis1=1, axis2=2)
        total = confusion.sum(axis=1) + confusion.sum(axis=2)
        f1 = np.divide(2 * hits, total, out=np.zeros(total.shape), where=total > 0)
        mean: Floats = f1.sum(axis=1) / (total > 0).sum(axis=1)
        return mean

    return _interval(len(true), macro_f1, width=size**2)


def _interval(n: int, score: Callable[[Rows], Floats], width: int = 1) -> Interval:
    """Interval of what `score` makes of resamples, an array (resamples, n) of rows.

    `score` needs `width` numbers a resample. How many are scored at once changes no number drawn.
    """
    random = np.random.default_rng(0)
    step = max(1, _NUMBERS // max(n, width))
    parts = [min(step, RESAMPLES - start) for start in range(0, RESAMPLES, step)]
    scores = np.concatenate([score(random.integers(0, n, (part, n))) for part in parts])
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return Interval(float(low), float(high))
