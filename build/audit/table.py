"""Audits for the terminal: a table of numbers, one of retrieval, one of findings."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jfinteb.build.audit.findings import Finding, Severity
from jfinteb.build.audit.measures import Lengths, Repeats, SplitAudit
from jfinteb.loaders.task import CORPUS

if TYPE_CHECKING:
    from jfinteb.build.audit import TaskAudit

__all__ = ["print_audits"]

_SHOWN = 5  # ids of a finding; the JSON has all
_NOTE = """\
repeated: texts that occur more than once, after NFKC and strip
surplus:  rows beyond the first of each such text; exact: without NFKC and strip
all:      over the splits together, of a retrieval task over all queries
"""
_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def print_audits(audits: Sequence[TaskAudit]) -> None:
    """Print to standard output: as wide as the terminal, or cutting nothing in a pipe."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    console.print(_numbers(audits))
    console.print(_NOTE, end="")
    if any(split.verbatim is not None for one in audits for split in one.splits.values()):
        console.print()
        console.print(_retrieval(audits))
    console.print()
    console.print(_findings(audits) if any(one.findings for one in audits) else "no findings")
    errors = sum(len(one.errors) for one in audits)
    known = sum(flaw.known for one in audits for flaw in one.findings)
    warnings = sum(len(one.findings) for one in audits) - errors - known
    console.print(
        f"{errors} errors that no card declares, {known} errors that cards declare, "
        f"{warnings} warnings"
    )


def _table(*columns: str, left: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for n, column in enumerate(columns):
        table.add_column(column, justify="left" if n < left else "right")
    return table


def _numbers(audits: Sequence[TaskAudit]) -> Table:
    tokens = any(split.tokens for one in audits for split in one.splits.values())
    heads = ("repeated", "surplus", "exact", "characters median", "p95", "max")
    more = ("tokens median", "p95", "max") if tokens else ()
    table = _table("task", "split", "rows", "labels", *heads, *more, left=2)
    for one in audits:
        for name, split in one.splits.items():
            table.add_row(one.task, name, *_row(split, tokens))
        rows = sum(split.rows for name, split in one.splits.items() if name != CORPUS)
        table.add_row(one.task, "all", f"{rows:,}", "", *_repeated(one.repeats), end_section=True)
    return table


def _row(split: SplitAudit, tokens: bool) -> list[str]:
    present = sum(n > 0 for n in split.labels.values())
    labels = f"{present} of {len(split.labels)}" if split.labels else "–"
    cells = [f"{split.rows:,}", labels, *_repeated(split.repeats), *_cells(split.characters)]
    return [*cells, *_cells(split.tokens)] if tokens else cells


def _repeated(repeats: Repeats) -> list[str]:
    return [f"{n:,}" for n in (repeats.texts, repeats.surplus, repeats.exact)]


def _cells(lengths: Lengths | None) -> list[str]:
    if lengths is None:
        return ["–"] * 3
    return [f"{lengths.median:,g}", f"{lengths.p95:,}", f"{lengths.max:,}"]


def _retrieval(audits: Sequence[TaskAudit]) -> Table:
    heads = ("ceiling nDCG@10", "verbatim in a relevant document", "share")
    table = _table("task", "queries", *heads, left=2)
    for one in audits:
        asked = {name: split for name, split in one.splits.items() if split.verbatim is not None}
        for name, split in asked.items():
            table.add_row(one.task, name, f"{split.ceiling:.4f}", *_share([split]))
        if asked:
            table.add_row(one.task, "all", "", *_share(asked.values()), end_section=True)
    return table


def _share(splits: Iterable[SplitAudit]) -> tuple[str, str]:
    splits = list(splits)
    found, of = sum(split.verbatim or 0 for split in splits), sum(split.rows for split in splits)
    return f"{found:,} of {of:,}", f"{found / of:.1%}"


def _findings(audits: Sequence[TaskAudit]) -> Table:
    table = _table("", "task", "split", "finding", "count", "which", left=4)
    table.columns[-1].justify = "left"
    table.columns[-1].overflow = "fold"
    for one in audits:
        for flaw in one.findings:
            severity = "known" if flaw.known else flaw.severity.value
            table.add_row(
                severity,
                one.task,
                flaw.split,
                flaw.check.value,
                str(flaw.count),
                escape(_which(flaw)),
                style=None if flaw.known else _STYLES[flaw.severity],
            )
    return table


def _which(flaw: Finding) -> str:
    shown = ", ".join(flaw.ids[:_SHOWN]) + (", …" if len(flaw.ids) > _SHOWN else "")
    return "; ".join(filter(None, [shown, flaw.note]))
