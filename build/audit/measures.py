"""Numbers of a split, whether good or bad: rows, labels, repeated texts, lengths, ceilings."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import is_normalized

from jfinteb.build.audit.rows import Rows, is_empty
from jfinteb.loaders.ceiling import ceiling

__all__ = ["Lengths", "Repeats", "SplitAudit", "Tokenizer", "lengths", "measure", "repeats"]

Tokenizer = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths of texts: median, 95th percentile and maximum."""

    median: float
    p95: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Repeated texts: equal after NFKC and strip; empty texts are equal.

    Attributes:
        texts: different texts that occur more than once.
        rows: rows that hold one of them.
        surplus: rows beyond the first of each text, `rows - texts`.
        exact: the surplus among texts as they stand, before NFKC and strip.
    """

    texts: int
    rows: int
    surplus: int
    exact: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAudit:
    """Numbers of one split.

    Attributes:
        labels: rows of each label of the card, also where there are none; empty in retrieval.
        characters: lengths in Unicode code points; None where there are no rows.
        tokens: lengths in tokens; None without a tokenizer.
        nfkc_changes: texts that NFKC changes.
        ceiling: expected nDCG@10 of a perfect model; None but for queries with their corpus.
        verbatim: queries that stand in one of their relevant documents after NFKC, strip and case
            folding (an empty query stands nowhere); None but for queries with their corpus.
    """

    rows: int
    labels: Mapping[str, int]
    characters: Lengths | None
    tokens: Lengths | None
    repeats: Repeats
    nfkc_changes: int
    ceiling: float | None = None
    verbatim: int | None = None


def measure(
    rows: Rows, labels: Sequence[str], corpus: Rows | None, tokenizer: Tokenizer | None
) -> SplitAudit:
    """The numbers of a split.

    Args:
        rows: the split.
        labels: the card's label names.
        corpus: documents of a retrieval task, if they can be read.
        tokenizer: the number of tokens of a text.
    """
    counts = Counter(rows.labels)
    documents = corpus if any(rows.relevant) else None
    return SplitAudit(
        rows=len(rows.ids),
        labels={label: counts[label] for label in labels},
        characters=lengths(map(len, rows.texts)),
        tokens=None if tokenizer is None else lengths(map(tokenizer, rows.texts)),
        repeats=repeats([rows]),
        nfkc_changes=sum(not is_normalized("NFKC", text) for text in rows.texts),
        ceiling=None if documents is None else _ceiling(rows, documents),
        verbatim=None if documents is None else _verbatim(rows, documents),
    )


def lengths(values: Iterable[int]) -> Lengths | None:
    """Median (the mean of the middle two), 95th percentile (nearest rank) and maximum.

    >>> lengths(range(1, 101))
    Lengths(median=50.5, p95=95, max=100)
    """
    ordered = sorted(values)
    if not ordered:
        return None
    rank = math.ceil(len(ordered) * 95 / 100)
    return Lengths(median=statistics.median(ordered), p95=ordered[rank - 1], max=ordered[-1])


def repeats(splits: Iterable[Rows]) -> Repeats:
    """Count the repeated texts of some splits together."""
    splits = list(splits)
    forms = Counter(form for rows in splits for form in rows.forms)
    exact = Counter(text for rows in splits for text in rows.texts)
    several = [n for n in forms.values() if n > 1]
    return Repeats(
        texts=len(several),
        rows=sum(several),
        surplus=sum(several) - len(several),
        exact=sum(exact.values()) - len(exact),
    )


def _ceiling(queries: Rows, corpus: Rows) -> float:
    documents = dict(zip(corpus.ids, corpus.texts, strict=True))
    return ceiling(queries.texts, queries.relevant, documents)


def _verbatim(queries: Rows, corpus: Rows) -> int:
    documents = {i: form.casefold() for i, form in zip(corpus.ids, corpus.forms, strict=True)}
    return sum(
        not is_empty(form) and any(form.casefold() in documents.get(doc, "") for doc in docs)
        for form, docs in zip(queries.forms, queries.relevant, strict=True)
    )
