"""The checks of an audit, pure functions over the rows of a task; `Check` says what each counts.

Two texts are *the same* when they are equal after NFKC and strip; empty texts are the same text,
and enter every count.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.entities import html5
from itertools import compress

from jfinteb.build.audit.findings import Check, Finding, finding
from jfinteb.build.audit.measures import repeats
from jfinteb.build.audit.rows import Rows, is_empty
from jfinteb.loaders.task import CORPUS

__all__ = ["findings"]

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]{1,31}));")
_WIKI = re.compile(r"\[\[|\]\]|\{\{|\}\}")
_NAMED = 5  # missing ids that a note names
Flags = dict[Check, tuple[Iterable[bool], str]]


def findings(
    splits: Mapping[str, Rows], labels: Sequence[str], corpus: Rows | None
) -> Iterator[Finding]:
    """All flaws of a task's rows, by split.

    Args:
        splits: rows by split in the order of the card, without the corpus.
        labels: the card's label names; none in retrieval.
        corpus: the documents of a retrieval task.
    """
    every = splits if corpus is None else {**splits, CORPUS: corpus}
    several = _contradictory(splits.values())
    documents = None if corpus is None else set(corpus.ids)
    for split, rows in every.items():
        if not rows.ids:
            yield finding(Check.EMPTY_SPLIT, split)
        lacking = tuple(label for label in labels if label not in rows.labels)
        if lacking:
            note = f"{len(labels) - len(lacking)} of {len(labels)} labels are there"
            yield finding(Check.MISSING_LABEL, split, lacking, note)
        if rows.relevant and not any(rows.relevant):
            yield finding(Check.NOTHING_RELEVANT, split, note=f"of {len(rows.ids)} queries")
        flags = {
            **_row_flags(rows),
            **_label_flags(rows, several),
            **_text_flags(split, splits),
            **_relevance_flags(rows, documents),
        }
        for check, (flagged, note) in flags.items():
            ids = tuple(compress(rows.ids, flagged))
            if ids:
                yield finding(check, split, ids, note)


def _row_flags(rows: Rows) -> Flags:
    markup = (any(_is_entity(m) for m in _ENTITY.finditer(text)) for text in rows.texts)
    return {
        Check.EMPTY_CELL: (rows.nulls, ""),
        Check.DUPLICATE_ID: (_again(rows.ids), ""),
        Check.EMPTY_TEXT: (map(is_empty, rows.forms), ""),
        Check.NOT_NFC: ((not unicodedata.is_normalized("NFC", t) for t in rows.texts), ""),
        Check.DUPLICATE_TEXT: (_again(rows.forms), f"exact: {repeats([rows]).exact}"),
        Check.HTML_ENTITY: (markup, ""),
        Check.WIKI_MARKUP: ((bool(_WIKI.search(text)) for text in rows.texts), ""),
    }


def _label_flags(rows: Rows, several: set[str]) -> Flags:
    if not rows.labels:
        return {}
    note = f"texts over all splits: {len(several)}"
    return {
        Check.UNKNOWN_LABEL: ((label is None for label in rows.labels), ""),
        Check.CONTRADICTION: ((form in several for form in rows.forms), note),
    }


def _text_flags(split: str, splits: Mapping[str, Rows]) -> Flags:
    """Texts that an earlier split holds; the corpus is no such split."""
    if split not in splits:
        return {}
    before = list(splits)[: list(splits).index(split)]
    train = {form for s in before if s == "train" for form in splits[s].forms}
    others = {form for s in before for form in splits[s].forms} - train
    forms = splits[split].forms
    return {
        Check.LEAK: ((form in train for form in forms), f"of {len(forms)}"),
        Check.SHARED_TEXT: ((form in others for form in forms), ""),
    }


def _relevance_flags(rows: Rows, corpus: set[str] | None) -> Flags:
    if corpus is None or not rows.relevant:
        return {}
    missing = sorted({doc for docs in rows.relevant for doc in docs} - corpus)
    shown = ", ".join(map(repr, missing[:_NAMED]))
    note = f"missing: {shown}{', …' if len(missing) > _NAMED else ''} ({len(missing)})"
    return {
        Check.MISSING_RELEVANT: ((not corpus.issuperset(docs) for docs in rows.relevant), note),
        Check.NO_RELEVANT: ((not docs for docs in rows.relevant), ""),
    }


def _contradictory(splits: Iterable[Rows]) -> set[str]:
    """Texts that have two labels or more; a label that the card lacks is none."""
    found: dict[str, set[str]] = defaultdict(set)
    for rows in splits:
        for form, label in zip(rows.forms, rows.labels, strict=bool(rows.labels)):
            if label is not None:
                found[form].add(label)
    return {form for form, labels in found.items() if len(labels) > 1}


def _again(values: Sequence[str]) -> Iterator[bool]:
    """Whether a value has stood before."""
    seen: set[str] = set()
    for value in values:
        yield value in seen
        seen.add(value)


def _is_entity(match: re.Match[str]) -> bool:
    return match[1] is None or f"{match[1]};" in html5
