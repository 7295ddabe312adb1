"""Accuracy against scikit-learn and by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from jfinteb.eval.metrics.accuracy.accuracy import accuracy, per_example

labels = st.sampled_from(["negative", "positive", "□"])


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(labels, labels), min_size=1, max_size=40))
def test_equals_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    predictions, references = [p for p, _ in pairs], [r for _, r in pairs]
    expected = accuracy_score(references, predictions)
    assert accuracy(predictions, references) == {"accuracy": pytest.approx(expected, abs=1e-12)}


def test_by_hand() -> None:
    assert accuracy(predictions=[0, 1, 2, 2], references=[0, 1, 0, 2]) == {"accuracy": 0.75}
    assert per_example(["a", "b"], ["a", "a"]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("predictions", "references", "error", "message"),
    [
        ([], [], ValueError, "are empty; expected at least one example"),
        ([0], [0, 1], ValueError, "predictions hold 1 labels and references 2"),
        (["0"], [0], TypeError, "predictions hold '0' and references 0"),
        ([0.5], [0], TypeError, r"predictions\[0\] is 0.5 \(float\)"),
    ],
)
def test_errors(predictions: Any, references: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        accuracy(predictions, references)
