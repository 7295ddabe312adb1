"""Accuracy: the share of examples whose label was predicted.

The module stands alone, so that ``evaluate.load`` can read its folder from anywhere; the helpers
that the label metrics share are therefore repeated in each, and a test keeps them identical.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import datasets
import evaluate

Label = int | str

CITATION = r"""@book{manning-etal-2008-introduction,
    title = {Introduction to Information Retrieval},
    author = {Manning, Christopher D. and Raghavan, Prabhakar and Sch{\"u}tze, Hinrich},
    publisher = {Cambridge University Press}, year = {2008},
}
"""

INPUTS = """
    predictions (list of int or str): the predicted label of each example.
    references (list of int or str): the true label of each example, of the same type.
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


def comparable(
    predictions: Iterable[Any], references: Iterable[Any]
) -> tuple[list[Label], list[Label]]:
    """Return both sides as plain labels that can be equal: ints in both, or strings in both.

    Raises:
        ValueError: The sides differ in length, or are empty.
        TypeError: One side has ints and the other strings, or see :func:`plain_labels`.
    """
    predicted, true = paired(predictions, references)
    if type(predicted[0]) is not type(true[0]):
        raise TypeError(
            f"predictions hold {predicted[0]!r} and references {true[0]!r}; expected ints in both "
            "or strings in both: convert one side, since 0 and '0' never match"
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


def per_example(predictions: Iterable[Any], references: Iterable[Any]) -> list[float]:
    """Score each example: 1.0 if the prediction is the reference, else 0.0.

    Args:
        predictions: The predicted label of each example, int or ``str``.
        references: The true label of each example, of the same type.

    Returns:
        One score per example, in order.

    Raises:
        ValueError: The sides differ in length, or are empty.
        TypeError: Labels are not all ints or all strings.

    Examples:
        >>> per_example(["◎", "○"], ["◎", "×"])
        [1.0, 0.0]
    """
    predicted, true = comparable(predictions, references)
    return [float(p == t) for p, t in zip(predicted, true, strict=True)]


def accuracy(predictions: Iterable[Any], references: Iterable[Any]) -> dict[str, float]:
    """Share of examples whose prediction is the reference (Manning et al., 2008, chapter 8).

    Args:
        predictions: The predicted label of each example, int or ``str``.
        references: The true label of each example, of the same type.

    Returns:
        ``accuracy``, in [0, 1].

    Raises:
        ValueError: The sides differ in length, or are empty.
        TypeError: Labels are not all ints or all strings.

    Examples:
        >>> accuracy(predictions=[0, 1, 2, 2], references=[0, 1, 0, 2])
        {'accuracy': 0.75}
    """
    scores = per_example(predictions, references)
    return {"accuracy": sum(scores) / len(scores)}


class Accuracy(evaluate.Metric):  # type: ignore[misc]
    """:func:`accuracy` as a module of the ``evaluate`` library."""

    def _info(self) -> evaluate.MetricInfo:
        # String comes first: evaluate takes the first that fits, and would read "01" as the int 1.
        values = [datasets.Value("string"), datasets.Value("int64")]
        features = [{"predictions": value, "references": value} for value in values]
        return evaluate.MetricInfo(
            description=__doc__,
            citation=CITATION,
            inputs_description=INPUTS,
            features=[datasets.Features(feature) for feature in features],
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add examples once their types are known to agree: evaluate would cast them unseen."""
        predicted, true = comparable(predictions, references)
        check_format(self.selected_feature_format, predicted, true)
        evaluate.Metric.add_batch(self, predictions=predicted, references=true, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one example, checked as in :meth:`add_batch`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(self, predictions: list[Label], references: list[Label]) -> dict[str, float]:
        return accuracy(predictions, references)
