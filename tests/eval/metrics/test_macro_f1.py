"""Macro F1 against scikit-learn and against arithmetic by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from jfinteb.eval.metrics.macro_f1.macro_f1 import macro_f1, per_class

ints = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)
names = st.sampled_from(["◎", "○", "□", "▲", "×", "企業動向", "0"])
strings = st.lists(st.tuples(names, names), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(pairs=st.one_of(ints, strings))
def test_equals_scikit_learn(pairs: list[tuple[Any, Any]]) -> None:
    predictions, references = [p for p, _ in pairs], [r for _, r in pairs]
    occurring = sorted(set(predictions) | set(references))
    result = macro_f1(predictions, references)
    assert result["macro_f1"] == pytest.approx(
        f1_score(references, predictions, average="macro"), abs=1e-12
    )
    assert result["n_classes"] == len(occurring)
    each = f1_score(references, predictions, labels=occurring, average=None, zero_division=0.0)
    assert per_class(predictions, references) == pytest.approx(
        dict(zip(occurring, each, strict=True)), abs=1e-12
    )


@pytest.mark.parametrize("labels", [None, [0, 1, 2, 3], [0, 1, 2, 3, 4], range(33)])
def test_the_mean_is_over_the_labels_that_occur(labels: Any) -> None:
    # class 0: P 1, R 1/2, F1 2/3; class 1: 1; class 2 is never true, class 3 never predicted: 0
    result = macro_f1(predictions=[0, 1, 2, 2], references=[0, 1, 0, 3], labels=labels)
    assert result == {
        "macro_f1": pytest.approx((2 / 3 + 1 + 0 + 0) / 4, abs=1e-15),
        "n_classes": 4,
    }
    assert result["macro_f1"] == pytest.approx(0.4166666666666667, abs=1e-15)


def test_a_perfect_classifier_scores_one_where_classes_are_missing_from_a_split() -> None:
    labels = [f"業種{i:02d}" for i in range(33)]
    split = labels[:26] * 2
    assert macro_f1(split, split, labels=labels) == {"macro_f1": 1.0, "n_classes": 26}


def test_ids_and_names_score_alike() -> None:
    names = ["negative", "positive", "neutral"]
    predictions, references = [0, 1, 2, 0, 1], [0, 1, 1, 2, 1]
    by_name = macro_f1([names[i] for i in predictions], [names[i] for i in references])
    assert by_name == macro_f1(predictions, references)


def test_numpy_labels_are_plain_labels() -> None:
    result = macro_f1(np.array([0, 1, 1]), np.array([0, 1, 0]), labels=np.arange(2))
    assert result["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2, abs=1e-15)
    assert macro_f1([np.int64(1)], [1]) == {"macro_f1": 1.0, "n_classes": 1}
    assert [type(label) for label in per_class(np.array([0, 1]), np.array([0, 1]))] == [int, int]


@pytest.mark.parametrize(
    ("predictions", "references", "labels", "message"),
    [
        ([0, 7], [0, 1], [0, 1], r"predictions\[1\] is 7; expected one of the 2 labels"),
        ([0, 1], [0, -1], [0, 1], r"references\[1\] is -1; expected one of the 2 labels"),
        (["A"], ["a"], ["a", "b"], r"predictions\[0\] is 'A'; expected one of the 2 labels"),
        (["0"], ["0"], [0, 1], r"predictions\[0\] is '0'; expected one of the 2 labels \[0, 1\]"),
        ([0], [0, 1], None, "predictions hold 1 labels and references 2"),
        ([], [], None, "are empty; expected at least one example"),
    ],
)
def test_a_wrong_value_is_named(
    predictions: Any, references: Any, labels: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        macro_f1(predictions, references, labels=labels)


@pytest.mark.parametrize(
    ("predictions", "references", "labels", "message"),
    [
        (["0"], [0], None, "predictions hold '0' and references 0; expected ints in both"),
        ([0, "1"], [0, 1], None, r"predictions holds 0 and, at 1, '1'"),
        ([0.0], [0], None, r"predictions\[0\] is 0.0 \(float\)"),
        ([0], [None], None, r"references\[0\] is None"),
        ([True], [1], None, r"predictions\[0\] is True \(bool\)"),
        (np.array([True]), [1], None, r"predictions\[0\] is True \(bool\)"),
        ([[0]], [0], None, r"predictions\[0\] is \[0\] \(list\)"),
        ("micro", "micro", None, r"predictions is 'micro' \(str\); expected a list"),
        # an average's name is no set of labels, least of all the set of its characters
        (["m"], ["m"], "micro", r"labels is 'micro' \(str\); expected a list"),
        (0, [0], None, r"predictions is 0 \(int\); expected a list"),
    ],
)
def test_a_wrong_type_is_named(
    predictions: Any, references: Any, labels: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        macro_f1(predictions, references, labels=labels)
