"""Macro F1: the F1 of each class, averaged over the classes that occur.

F1 is the harmonic mean of precision and recall (van Rijsbergen, 1979); the macro average is the one
that Opitz and Burst (2019) call averaged F1: the mean of the classes' F1 values.
The module stands alone, so that ``evaluate.load`` can read its folder from anywhere; the helpers
that the label metrics share are therefore repeated in each, and a test keeps them identical.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import datasets
import evaluate

Label = int | str

CITATION = """@misc{opitz-burst-2019-macro,
    title = {Macro {F1} and Macro {F1}},
    author = {Opitz, Juri and Burst, Sebastian},
    year = {2019}, eprint = {1911.03347}, archivePrefix = {arXiv},
}
"""

INPUTS = """
    predictions (list of int or str): the predicted label of each example.
    references (list of int or str): the true label of each example, of the same type.
    labels (list of int or str, optional): every label of the task; any other is an error.
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


def per_class(predictions: Iterable[Any], references: Iterable[Any]) -> dict[Label, float]:
    """Score each class that occurs: F1 = 2 TP / (2 TP + FP + FN).

    Args:
        predictions: The predicted label of each example, int or ``str``.
        references: The true label of each example, of the same type.

    Returns:
        F1, in [0, 1], of each label in the predictions or the references, in ascending order.

    Raises:
        ValueError: The sides differ in length, or are empty.
        TypeError: Labels are not all ints or all strings.

    Examples:
        >>> per_class(predictions=[0, 1, 2, 2], references=[0, 1, 0, 3])
        {0: 0.6666666666666666, 1: 1.0, 2: 0.0, 3: 0.0}
    """
    predicted, true = comparable(predictions, references)
    hits = Counter(p for p, t in zip(predicted, true, strict=True) if p == t)
    # TP + FP is how often a class is predicted, TP + FN how often it is true; their sum is >= 1.
    occurrences = Counter(predicted) + Counter(true)
    return {label: 2 * hits[label] / occurrences[label] for label in sorted(occurrences)}


def macro_f1(
    predictions: Iterable[Any],
    references: Iterable[Any],
    labels: Iterable[Any] | None = None,
) -> dict[str, float | int]:
    """Average F1 over the classes that occur (Opitz and Burst, 2019, "averaged F1").

    A class in neither predictions nor references has no F1 (0 / 0) and is left out, declared in
    ``labels`` or not; a perfect classifier therefore scores 1.0 on a split that lacks a class.

    Args:
        predictions: The predicted label of each example, int or ``str``.
        references: The true label of each example, of the same type.
        labels: All labels of the task. They never change the score; they expose foreign values.

    Returns:
        ``macro_f1``, in [0, 1], and ``n_classes``, how many classes are averaged.

    Raises:
        ValueError: A label is not among ``labels``, the sides differ in length, or are empty.
        TypeError: Labels are not all ints or all strings.

    Examples:
        F1 is 2/3, 1, 0 and 0, and a declared class that does not occur changes nothing.

        >>> macro_f1(predictions=[0, 1, 2, 2], references=[0, 1, 0, 3], labels=[0, 1, 2, 3, 4])
        {'macro_f1': 0.41666666666666663, 'n_classes': 4}
    """
    predicted, true = comparable(predictions, references)
    if labels is not None:
        check_declared(predicted, true, plain_labels(labels, "labels"))
    scores = per_class(predicted, true)
    return {"macro_f1": math.fsum(scores.values()) / len(scores), "n_classes": len(scores)}


def check_declared(
    predictions: Sequence[Label], references: Sequence[Label], labels: Sequence[Label]
) -> None:
    """Refuse a label that the task does not declare.

    Raises:
        ValueError: A prediction or reference is not among ``labels``.
    """
    declared = set(labels)
    for side, values in (("predictions", predictions), ("references", references)):
        for row, value in enumerate(values):
            if value not in declared:
                raise ValueError(
                    f"{side}[{row}] is {value!r}; expected one of the {len(declared)} labels "
                    f"{labels!r:.100}: correct the value, or pass all labels of the task"
                )


class MacroF1(evaluate.Metric):  # type: ignore[misc]
    """:func:`macro_f1` as a module of the ``evaluate`` library."""

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

    def _compute(
        self,
        predictions: list[Label],
        references: list[Label],
        labels: list[Label] | None = None,
    ) -> dict[str, float | int]:
        return macro_f1(predictions, references, labels)
