"""The `clean` recipe: the same sources as the paper's sets, without the flaws of their splits.

Texts that are equal after NFKC and strip are one text. Pure and seeded: the same rows in give the
same rows out on any machine.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from jfinteb.build.plain import plain
from jfinteb.build.split import shuffled_parts
from jfinteb.loaders.task import CORPUS, Kind, Task

__all__ = ["MASK", "Row", "clean"]

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
MASK = "〇〇"
_SHARES = {Kind.CLASSIFICATION: (0.7, 0.1), Kind.CLUSTERING: (0.5,), Kind.RETRIEVAL: (0.2,)}


def clean(
    task: Task,
    rows: Rows,
    *,
    group: str | None = None,
    mask_queries: bool = False,
    markup: bool = True,
) -> tuple[dict[str, list[Row]], Counter[str]]:
    """Clean the rows of a task and split them again.

    Args:
        task: the task, with the splits that are to be made.
        rows: the rows of all its splits, as the paper's recipe gives them.
        group: column whose rows must stay in the split they are in (the reports of chABSA); labels
            are then not stratified.
        mask_queries: also mask, in every document, the queries that it is relevant to.
        markup: leave leftovers of wiki markup in texts; see `jfinteb.build.plain`.

    Returns:
        The rows of every split, and how many rows were changed or left out, by reason.
    """
    changes: Counter[str] = Counter()
    if not markup:
        rows = {split: _without_markup(part, changes) for split, part in rows.items()}
    if task.kind is Kind.RETRIEVAL:
        return _clean_retrieval(task, rows, changes, mask_queries=mask_queries)
    pooled = _pooled(rows)
    labels: dict[str, set[str]] = defaultdict(set)
    for _, row in pooled:
        labels[_key(row["text"])].add(row["label"])
    kept, seen = [], set()
    for split, row in pooled:
        key = _key(row["text"])
        if not key:
            changes["empty text"] += 1
        elif len(labels[key]) > 1:
            changes["same text under several labels"] += 1
        elif key in seen:
            changes["duplicate text"] += 1
        else:
            seen.add(key)
            kept.append((split, row))
    if group is not None:
        return {s: [row for split, row in kept if split == s] for s in task.splits}, +changes
    return _stratified(task, [row for _, row in kept]), +changes


def _pooled(rows: Rows) -> list[tuple[str, Row]]:
    """All rows with their split; where two splits share an id, ids get the split's name."""
    pooled = [(split, row) for split in rows for row in rows[split]]
    if len({row["id"] for _, row in pooled}) == len(pooled):
        return pooled
    return [(split, {**row, "id": f"{split}-{row['id']}"}) for split, row in pooled]


def _stratified(task: Task, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Split label by label; a label of three or more rows stands in every split."""
    names = list(task.splits)
    place: dict[str, str] = {}
    for label in task.labels:
        members = [row["id"] for row in rows if row["label"] == label]
        parts = shuffled_parts(members, *_SHARES[task.kind])
        if len(members) >= len(names):
            for part in parts:
                if not part:
                    part.append(max(parts, key=len).pop())
        place.update({i: name for name, part in zip(names, parts, strict=True) for i in part})
    return {name: [row for row in rows if place[row["id"]] == name] for name in names}


def _without_markup(rows: Sequence[Row], changes: Counter[str]) -> list[Row]:
    """Rows with plain texts; those of queries, which have none, as they are."""
    made = [{**row, "text": plain(row["text"])} if "text" in row else row for row in rows]
    changes["text with markup or a note taken out"] += sum(
        new != old for new, old in zip(made, rows, strict=True)
    )
    return made


def _clean_retrieval(
    task: Task, rows: Rows, changes: Counter[str], *, mask_queries: bool
) -> tuple[dict[str, list[Row]], Counter[str]]:
    corpus, same = _merge_documents(rows[CORPUS], changes)
    queries: dict[str, Row] = {}
    for split in rows:
        if split == CORPUS:
            continue
        for row in rows[split]:
            relevant = list(dict.fromkeys(same[d] for d in row["relevant_docs"] if d in same))
            first = queries.setdefault(_key(row["query"]), {**row, "relevant_docs": []})
            if first["id"] != row["id"]:
                changes["duplicate query"] += 1
            first["relevant_docs"] = list(dict.fromkeys([*first["relevant_docs"], *relevant]))
    answered = [row for row in queries.values() if row["relevant_docs"]]
    changes["query whose document is empty"] += len(queries) - len(answered)
    if mask_queries:
        corpus = _mask(corpus, answered, changes)
    parts = shuffled_parts(answered, *_SHARES[task.kind])
    splits = [split for split in task.splits if split != CORPUS]
    return {**dict(zip(splits, parts, strict=True)), CORPUS: corpus}, +changes


def _merge_documents(
    documents: Iterable[Row], changes: Counter[str]
) -> tuple[list[Row], dict[str, str]]:
    """Distinct documents, and for every id the id of the document that stands for it."""
    kept: dict[str, Row] = {}
    same: dict[str, str] = {}
    for row in documents:
        key = _key(row["text"])
        if not key:
            changes["empty document"] += 1
            continue
        if key in kept:
            changes["duplicate document"] += 1
        same[row["docid"]] = kept.setdefault(key, row)["docid"]
    return list(kept.values()), same


def _mask(corpus: Sequence[Row], queries: Iterable[Row], changes: Counter[str]) -> list[Row]:
    names: dict[str, list[str]] = defaultdict(list)
    for row in queries:
        for docid in row["relevant_docs"]:
            names[docid].append(row["query"])
    masked = []
    for row in corpus:
        text = row["text"]
        for name in sorted(names[row["docid"]], key=len, reverse=True):
            text = mask_name(text, name)
        changes["document with a name masked"] += text != row["text"]
        masked.append({**row, "text": text})
    return masked


def mask_name(text: str, name: str) -> str:
    """Replace every occurrence of a name that is verbatim up to width and case.

    >>> mask_name("株式会社ＡＢＣ商事（ABC）は、abc商事とも", "ABC商事")
    '株式会社〇〇（ABC）は、〇〇とも'
    """
    folded, origin = _folded(text)
    pattern = re.escape(_fold(name.strip()))
    parts, last = [], 0
    for match in re.finditer(pattern, folded) if pattern else ():
        parts += [text[last : origin[match.start()]], MASK]
        last = origin[match.end()]
    return "".join([*parts, text[last:]])


def _folded(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its positions the position in `text` it came from."""
    starts = [i for i, character in enumerate(text) if not i or not _joins(character)]
    pieces = [_fold(text[a:b]) for a, b in pairwise([*starts, len(text)])]
    origin = [start for start, piece in zip(starts, pieces, strict=True) for _ in piece]
    return "".join(pieces), [*origin, len(text)]


def _joins(character: str) -> bool:
    """Whether a character becomes one with the one before it, as a (half-width) voicing mark."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _key(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()
