"""Bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from jfinteb.eval import stats
from jfinteb.eval.stats import bootstrap, bootstrap_macro_f1

Score = Callable[[Any], Any]


def test_rows_that_agree_leave_no_doubt() -> None:
    interval = bootstrap([0.25] * 7)
    assert (interval.low, interval.high) == (0.25, 0.25)


def test_the_interval_of_a_mean_is_about_two_standard_errors_wide() -> None:
    values = np.random.default_rng(3).uniform(size=400)
    interval = bootstrap(values.tolist())
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.low == pytest.approx(values.mean() - half, abs=half / 5)
    assert interval.high == pytest.approx(values.mean() + half, abs=half / 5)
    assert (interval.level, interval.resamples) == (0.95, 1000)


@pytest.mark.parametrize("accuracy", [0.4, 0.7, 0.95])
def test_the_interval_of_macro_f1_holds_the_score(accuracy: float) -> None:
    random = np.random.default_rng(5)
    true = random.integers(0, 4, 600)
    guess = np.where(random.random(600) < accuracy, true, random.integers(0, 4, 600))
    interval = bootstrap_macro_f1(true.tolist(), guess.tolist())
    score = f1_score(true, guess, average="macro")
    assert interval.low < score < interval.high
    assert interval.high - interval.low < 0.12


def test_each_resample_scores_as_scikit_learn_scores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scorers: list[Score] = []

    def keep(n: int, score: Score, **width: int) -> stats.Interval:
        scorers.append(score)
        return stats.Interval(0.0, 1.0)

    monkeypatch.setattr(stats, "_interval", keep)
    random = np.random.default_rng(0)
    # labels 0 to 8, of which 3 never occurs and 8 only among the predictions
    true = random.choice([0, 1, 2, 4, 5, 6, 7], 30)
    guess = np.where(random.random(30) < 0.5, true, 8)
    bootstrap_macro_f1(true.tolist(), guess.tolist())
    rows = random.integers(0, 30, (50, 30))
    expected = [f1_score(true[part], guess[part], average="macro") for part in rows]
    assert scorers[0](rows) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("numbers", [1, 100, 10**7])
def test_the_interval_one_resample_at_a_time(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are scored at once: rows drawn in turn with seed 0, scikit-learn's F1."""
    random = np.random.default_rng(8)
    true = random.integers(0, 3, 20)
    guess = np.where(random.random(20) < 0.6, true, random.integers(0, 3, 20))
    values = random.uniform(size=20)
    draw = np.random.default_rng(0)
    rows = [draw.integers(0, 20, 20) for _ in range(1000)]
    monkeypatch.setattr(stats, "_NUMBERS", numbers)
    for interval, scores in (
        (
            bootstrap_macro_f1(true.tolist(), guess.tolist()),
            [f1_score(true[part], guess[part], average="macro") for part in rows],
        ),
        (bootstrap(values.tolist()), [math.fsum(values[part]) / 20 for part in rows]),
    ):
        low, high = np.percentile(scores, [2.5, 97.5])
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)


def test_case_24_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(n: int, score: Score, **width: int) -> stats.Interval:
        (value,) = score(np.arange(n)[None])
        return stats.Interval(value, value)

    monkeypatch.setattr(stats, "_interval", whole)
    assert bootstrap_macro_f1([0, 1, 0, 3], [0, 1, 2, 2]).low == pytest.approx(5 / 12)


def test_a_perfect_classifier_is_perfect_in_every_resample() -> None:
    labels = [0, 5, 5, 2, 32]
    interval = bootstrap_macro_f1(labels, labels)
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_the_same_rows_the_same_interval() -> None:
    assert bootstrap([0.0, 1.0, 0.5]) == bootstrap([0.0, 1.0, 0.5])
