"""V-measure: how well clusters and classes agree, whatever the clusters are called.

Homogeneity, completeness and their harmonic mean after Rosenberg and Hirschberg (2007).
The module stands alone, so that ``evaluate.load`` can read its folder from anywhere; the helpers
that the label metrics share are therefore repeated in each, and a test keeps them identical.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import datasets
import evaluate
from sklearn.metrics import homogeneity_completeness_v_measure

Label = int | str

CITATION = """@inproceedings{rosenberg-hirschberg-2007-v,
    title = {{V}-Measure: A Conditional Entropy-Based External Cluster Evaluation Measure},
    author = {Rosenberg, Andrew and Hirschberg, Julia},
    booktitle = {Proceedings of EMNLP-CoNLL 2007},
    pages = {410--420}, year = {2007},
}
"""

INPUTS = """
    predictions (list of int or str): the cluster of each example.
    references (list of int or str): the class of each example; its type may differ.
"""


def plain_labels(values: Iterable[Any], side: str) -> list[Label]:
    """Return labels as Python ints or Python strings, one of the two throughout.

    Raises:
        TypeError: ``values`` is no list, a label is neither int nor ``str``, or both occur.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(
            f"{side} is {values!r:.60} ({type(values).__name__}); expected a list: give labels"
        )
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    if set(map(type, given)) in ({int}, {str}):
        return given
    labels: list[Label] = []
    for row, value in enumerate(given):
        if isinstance(value, bool) or not isinstance(value, (str, Integral)):
            raise TypeError(
                f"{side}[{row}] is {value!r:.60} ({type(value).__name__}); "
                "expected an int or a str: convert the labels"
            )
        label: Label = str(value) if isinstance(value, str) else int(value)
        if labels and type(label) is not type(labels[0]):
            raise TypeError(
                f"{side} holds {labels[0]!r} and, at {row}, {label!r}; "
                "expected ints only or strings only: convert one kind, since 0 and '0' never match"
            )
        labels.append(label)
    return labels


def paired(
    predictions: Iterable[Any], references: Iterable[Any]
) -> tuple[list[Label], list[Label]]:
    """Return both sides as plain labels, equally many and at least one.

    Raises:
        ValueError: The sides differ in length, or are empty.
        TypeError: See :func:`plain_labels`.
    """
    predicted = plain_labels(predictions, "predictions")
    true = plain_labels(references, "references")
    if len(predicted) != len(true):
        raise ValueError(
            f"predictions hold {len(predicted)} labels and references {len(true)}; "
            "expected as many in both: give one pair per example"
        )
    if not true:
        raise ValueError(
            "predictions and references are empty; expected at least one example: add some"
        )
    return predicted, true


def check_format(chosen: Any, predictions: Sequence[Label], references: Sequence[Label]) -> None:
    """Refuse a batch of another type than the batches before it, which evaluate would cast unseen.

    Raises:
        TypeError: ``chosen``, the features of the batches before (None: there are none), differs.
    """
    for side, labels in (("predictions", predictions), ("references", references)):
        dtype = "string" if isinstance(labels[0], str) else "int64"
        if chosen is not None and chosen[side].dtype != dtype:
            raise TypeError(
                f"{side} of this batch hold {labels[0]!r}, those before {chosen[side].dtype}; "
                "expected one type in all batches: convert the labels"
            )


def v_measure(predictions: Iterable[Any], references: Iterable[Any]) -> dict[str, float]:
    """Compare a clustering with classes (Rosenberg and Hirschberg, 2007, beta = 1).

    Homogeneity is 1 - H(class | cluster) / H(class): 1 if no cluster mixes classes. Completeness is
    1 - H(cluster | class) / H(cluster): 1 if no class is spread out. V is their harmonic mean.

    Args:
        predictions: The cluster of each example, int or ``str``; only equality matters.
        references: The class of each example, int or ``str``, of either type.

    Returns:
        ``v_measure``, ``homogeneity`` and ``completeness``, each in [0, 1].

    Raises:
        ValueError: The references hold one class only, the sides differ in length, or are empty.
        TypeError: A side is not all ints or all strings.

    Examples:
        Every class is in one cluster, but one cluster holds two classes.

        >>> scores = v_measure(predictions=[0, 0, 1, 1], references=[0, 0, 1, 2])
        >>> {name: round(score, 4) for name, score in scores.items()}
        {'v_measure': 0.8, 'homogeneity': 0.6667, 'completeness': 1.0}
    """
    clusters, classes = paired(predictions, references)
    if len(set(classes)) == 1:
        # H(class) is 0: V is 1 for one cluster and 0 for more, which says nothing of quality.
        raise ValueError(
            f"references hold the single class {classes[0]!r}; expected at least two, since with "
            "one, V is 1 for a single cluster and 0 for more, whatever they hold: check the labels"
        )
    # min: rounding can lift a ratio of entropies to 1 + 4e-16.
    homogeneity, completeness, v = (
        min(1.0, float(score)) for score in homogeneity_completeness_v_measure(classes, clusters)
    )
    return {"v_measure": v, "homogeneity": homogeneity, "completeness": completeness}


class VMeasure(evaluate.Metric):  # type: ignore[misc]
    """:func:`v_measure` as a module of the ``evaluate`` library."""

    def _info(self) -> evaluate.MetricInfo:
        # String comes first: evaluate takes the first that fits, and would read "01" as the int 1.
        values = [datasets.Value("string"), datasets.Value("int64")]
        features = [{"predictions": p, "references": r} for p in values for r in values]
        return evaluate.MetricInfo(
            description=__doc__,
            citation=CITATION,
            inputs_description=INPUTS,
            features=[datasets.Features(feature) for feature in features],
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add examples once their types are known to agree: evaluate would cast them unseen."""
        predicted, true = paired(predictions, references)
        check_format(self.selected_feature_format, predicted, true)
        evaluate.Metric.add_batch(self, predictions=predicted, references=true, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one example, checked as in :meth:`add_batch`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(self, predictions: list[Label], references: list[Label]) -> dict[str, float]:
        return v_measure(predictions, references)
