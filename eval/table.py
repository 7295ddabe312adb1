"""Tables of results for the terminal. A missing score is "–" and enters no average."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from jfinteb.eval.board_table import MISSING, board_tables, number
from jfinteb.eval.cache_file import CachedSpec
from jfinteb.eval.leaderboard import board_of, bounds
from jfinteb.eval.result import Failed, Result, averages
from jfinteb.eval.runs import gather, labels
from jfinteb.loaders.task import Kind, Task

__all__ = [
    "cache_table",
    "output_console",
    "run_table",
    "runs_table",
    "task_table",
]

_TASK_WIDTH = 25
_REASON = 80  # characters of it in a table; it is told whole when it happens


def run_table(
    tasks: Sequence[Task],
    results: Mapping[str, Result],
    failed: Mapping[str, Failed],
    *,
    whole: bool,
) -> Table:
    """One model: a row a task, by kind, with what went wrong.

    Args:
        tasks: what was to be run.
        results: by task name.
        failed: by task name.
        whole: whether `tasks` are a suite; a choice of tasks has no average.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("test score", no_wrap=True, min_width=_TASK_WIDTH)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("chosen on validation", no_wrap=True, overflow="ellipsis")
    scores = {name: result.score for name, result in results.items()}
    means = averages(scores, [task.name for task in tasks])
    for kind in Kind:
        group = [task for task in tasks if task.kind is kind]
        for task in group:
            table.add_row(*_row(task, results.get(task.name), failed.get(task.name)))
        if group and whole:
            label = f"{kind} ({group[0].metric})"
            table.add_row(label, number(means[kind.value]), style="bold")
        if group:
            table.add_section()
    if whole:
        table.add_row("average", number(means["all"]), style="bold")
    return table


def _row(task: Task, result: Result | None, failed: Failed | None) -> tuple[str, ...]:
    if result is None:
        reason = f"failed: {failed.reason.removeprefix(f'{task.name}: ')}" if failed else "not run"
        return task.name, MISSING, "", escape(textwrap.shorten(reason, _REASON, placeholder=" …"))
    outcome = result.outcome
    chosen = outcome["chosen"]
    if "ceiling" in outcome:
        chosen += f" (ceiling {outcome['ceiling']:.4f})"
    return task.name, number(result.score), str(bounds(result) or MISSING), chosen


def runs_table(
    results: Sequence[Result], tasks: Sequence[Task], *, whole: bool, width: int
) -> list[Table]:
    """Several ways to use one model, in the order they were asked for: a row each.

    Args:
        results: of all of them.
        tasks: what was to be run.
        whole: as in `run_table`.
        width: of the terminal, in columns.
    """
    runs = gather(("", result) for result in results)
    named = list(zip(labels(runs), runs, strict=True))
    members = [task.name for task in tasks] if whole else []
    board = board_of(named, members, suite="asked for" if whole else None, sort=False)
    return board_tables(board, width, None)


def task_table(tasks: Sequence[Task]) -> Table:
    """The tasks by kind, variants apart: how large, under which licence, and who may have them."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("task", "labels", "rows", "licence", "public"):
        justify: JustifyMethod = "right" if name in ("labels", "rows") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    for (variant, heading), group in itertools.groupby(tasks, key=_group):
        table.add_section()
        table.add_row(f"{variant}{heading}", style="bold")
        for task in group:
            rows = "/".join(
                MISSING if split.rows is None else str(split.rows) for split in task.splits.values()
            )
            classes = str(len(task.labels) or MISSING)
            public = "yes" if task.redistributable else "no"
            table.add_row(task.name, classes, rows, task.license, public)
    return table


def _group(task: Task) -> tuple[str, str]:
    recipe = f"{task.recipe.name}: " if task.recipe is not None else ""
    return recipe, f"{task.kind} ({task.metric})"


def cache_table(held: Sequence[CachedSpec]) -> Table:
    """What is kept: a row a model and spec."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in (
        *("model", "backend", "revision", "pooling", "dtype", "max length"),
        *("vectors", "MB", "since"),
    ):
        justify: JustifyMethod = "right" if name in ("max length", "vectors", "MB") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    verified = any(spec.damaged is not None for spec in held)
    if verified:
        table.add_column("damaged", justify="right")
    for found in held:
        names = ("backend", "revision", "pooling", "dtype", "max_length")
        cells = [found.model, *(str(found.spec.get(name)) for name in names)]
        cells += [f"{found.vectors:,}", f"{found.bytes / 1e6:.1f}", found.made]
        table.add_row(*map(escape, cells), *([str(found.damaged)] if verified else []))
    return table


def output_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough to cut nothing in a pipe."""
    return Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else 200)
