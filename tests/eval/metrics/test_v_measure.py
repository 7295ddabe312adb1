"""V-measure against entropies computed here, scikit-learn and arithmetic by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import homogeneity_completeness_v_measure

from jfinteb.eval.metrics.v_measure.v_measure import v_measure

pairs_of_labels = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["雇用", "物価", "賃金", "×"])),
    min_size=2,
    max_size=40,
)


def entropy(values: Sequence[Hashable]) -> float:
    shares = [count / len(values) for count in Counter(values).values()]
    return -math.fsum(share * math.log(share) for share in shares)


def by_entropies(clusters: Sequence[int], classes: Sequence[str]) -> list[float]:
    """V, homogeneity and completeness from H(A | B) = H(A, B) - H(B)."""
    joint = entropy(list(zip(clusters, classes, strict=True)))
    homogeneity = 1 - (joint - entropy(clusters)) / entropy(classes)
    completeness = 1.0
    if entropy(clusters):
        completeness = 1 - (joint - entropy(classes)) / entropy(clusters)
    total = homogeneity + completeness
    v = 2 * homogeneity * completeness / total if total else 0.0
    return [v, homogeneity, completeness]


@settings(max_examples=120, deadline=None)
@given(pairs=pairs_of_labels)
def test_equals_the_definition_and_scikit_learn(pairs: list[tuple[int, str]]) -> None:
    clusters, classes = [c for c, _ in pairs], [t for _, t in pairs]
    assume(len(set(classes)) > 1)
    result = v_measure(clusters, classes)
    assert list(result) == ["v_measure", "homogeneity", "completeness"]
    sklearn_h, sklearn_c, sklearn_v = homogeneity_completeness_v_measure(classes, clusters)
    expected = [sklearn_v, sklearn_h, sklearn_c]
    assert list(result.values()) == pytest.approx(expected, abs=1e-12)
    assert result["homogeneity"] == pytest.approx(by_entropies(clusters, classes)[1], abs=1e-9)
    assert result["completeness"] == pytest.approx(by_entropies(clusters, classes)[2], abs=1e-9)
    assert all(0.0 <= score <= 1.0 for score in result.values())


def test_by_hand() -> None:
    # H(class) = 1.5 bit, H(class | cluster) = 1/2 * 0 + 1/2 * 1 = 0.5 bit; H(cluster | class) = 0
    result = v_measure([0, 0, 1, 1], ["a", "a", "b", "c"])
    assert result == {
        "v_measure": pytest.approx(2 * (2 / 3) / (2 / 3 + 1), abs=1e-12),
        "homogeneity": pytest.approx(2 / 3, abs=1e-12),
        "completeness": pytest.approx(1.0, abs=1e-12),
    }


def test_names_of_clusters_do_not_matter() -> None:
    classes = ["a", "a", "b", "b", "c", "c"]
    assert v_measure([2, 2, 0, 0, 1, 1], classes)["v_measure"] == pytest.approx(1.0, abs=1e-12)
    mixed = v_measure([0, 0, 0, 1, 1, 1], classes)
    assert v_measure(list("zzzyyy"), classes) == pytest.approx(mixed, abs=1e-12)


def test_one_cluster_is_a_valid_bad_answer() -> None:
    assert v_measure([0, 0, 0], ["a", "b", "c"]) == {
        "v_measure": pytest.approx(0.0, abs=1e-12),
        "homogeneity": pytest.approx(0.0, abs=1e-12),
        "completeness": pytest.approx(1.0, abs=1e-12),
    }


@pytest.mark.parametrize("clusters", [[0, 0, 0], [0, 1, 2]])
def test_one_class_is_an_error(clusters: list[int]) -> None:
    with pytest.raises(ValueError, match="references hold the single class 'a'"):
        v_measure(clusters, ["a", "a", "a"])


@pytest.mark.parametrize(
    ("predictions", "references", "error", "message"),
    [
        ([], [], ValueError, "are empty; expected at least one example"),
        ([0], [0, 1], ValueError, "predictions hold 1 labels and references 2"),
        ([0.5, 1.0], ["a", "b"], TypeError, r"predictions\[0\] is 0.5 \(float\)"),
        ([0, 1], ["a", 1], TypeError, "references holds 'a' and, at 1, 1"),
    ],
)
def test_errors(predictions: Any, references: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        v_measure(predictions, references)
