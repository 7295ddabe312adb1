"""What a protocol returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jfinteb.eval.stats import Interval

__all__ = ["Outcome", "Scores", "choose"]

Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Scores of one task.

    Attributes:
        score: the task's metric on test.
        scores: all metrics on test, with the chosen setting.
        chosen: the setting that validation chose.
        validation: setting -> metric -> value, of every setting, in the order they were tried.
        predictions: one record a test row, in order.
        interval: of `score`, over test rows; None where `spread` says more.
        spread: of `score` over seeds, for methods that draw random numbers.
        ceiling: the best score that these data allow, where it is below 1.
        notes: what a reader of the score should know.
    """

    score: float
    scores: Scores
    chosen: str
    validation: Mapping[str, Scores]
    predictions: Sequence[Mapping[str, Any]]
    interval: Interval | None = None
    spread: Mapping[str, Any] | None = None
    ceiling: float | None = None
    notes: Sequence[str] = field(default_factory=tuple)


def choose(validation: Mapping[str, Scores], metric: str) -> str:
    """The setting with the highest validation score; of equal ones the first.

    >>> choose({"a": {"m": 0.5}, "b": {"m": 0.5}}, "m")
    'a'
    """
    return max(validation, key=lambda setting: validation[setting][metric])
