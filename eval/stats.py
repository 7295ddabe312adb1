"""Intervals for test scores: how far a score could move with other test rows of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "bootstrap", "bootstrap_macro_f1"]

LEVEL = 0.95
RESAMPLES = 1000


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
    return _interval(len(array), lambda rows: float(array[rows].mean()))


def bootstrap_macro_f1(references: Sequence[int], predictions: Sequence[int]) -> Interval:
    """Interval of macro F1, over the classes that occur in the resampled rows."""
    true, guess = np.asarray(references), np.asarray(predictions)
    size = int(max(true.max(), guess.max())) + 1

    def macro_f1(rows: npt.NDArray[np.int64]) -> float:
        hits = np.bincount(true[rows][true[rows] == guess[rows]], minlength=size)
        total = np.bincount(true[rows], minlength=size) + np.bincount(guess[rows], minlength=size)
        return float((2 * hits[total > 0] / total[total > 0]).mean())

    return _interval(len(true), macro_f1)


def _interval(n: int, score: Callable[[npt.NDArray[np.int64]], float]) -> Interval:
    random = np.random.default_rng(0)
    scores = [score(random.integers(0, n, n)) for _ in range(RESAMPLES)]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return Interval(float(low), float(high))
