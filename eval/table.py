"""Tables of results for the terminal. A missing score is "–" and enters no average."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from jfinteb.eval.result import Failed, Result, averages
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Kind, Task, get_task

__all__ = ["comparison", "output_console", "print_results", "run_table", "task_table"]

MISSING = "–"
_TASK_WIDTH = 25
_RUN_WIDTH = 14


def run_table(
    tasks: Sequence[Task], results: Mapping[str, Result], failed: Mapping[str, Failed]
) -> Table:
    """One model: a row a task, by kind, with averages and what went wrong."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("test score", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("chosen on validation", no_wrap=True, overflow="ellipsis")
    scores = {name: result.score for name, result in results.items()}
    means = averages(scores, [task.name for task in tasks])
    for kind in Kind:
        group = [task for task in tasks if task.kind is kind]
        for task in group:
            table.add_row(*_row(task, results.get(task.name), failed.get(task.name)))
        if group:
            label = f"{kind} ({group[0].metric})"
            table.add_row(label, _number(means[kind.value]), "", "", style="bold")
            table.add_section()
    table.add_row("average", _number(means["all"]), "", "", style="bold")
    return table


def _row(task: Task, result: Result | None, failed: Failed | None) -> tuple[str, ...]:
    if result is None:
        reason = f"failed: {failed.reason}" if failed else "not run"
        return task.name, MISSING, "", escape(reason)
    outcome = result.outcome
    chosen = outcome["chosen"]
    if "ceiling" in outcome:
        chosen += f" (ceiling {outcome['ceiling']:.4f})"
    return task.name, _number(result.score), _range(outcome), chosen


def _range(outcome: Mapping[str, Any]) -> str:
    spread = outcome.get("spread")
    if spread is None:
        bounds = outcome["interval"]
        return f"{bounds['low']:.4f}–{bounds['high']:.4f}"
    if len(spread["seeds"]) == 1:
        return "no seed"
    return f"{spread['low']:.4f}–{spread['high']:.4f} *"


def comparison(results: Sequence[Result], width: int) -> list[Table]:
    """Several models, best average first: a row a task, a column a run, in tables of that width."""
    runs: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        runs.setdefault((result.model, result.spec_digest), {})[result.task] = result.score
    kinds = list(Kind)
    found = {name for scores in runs.values() for name in scores}
    names = sorted(found, key=lambda name: (kinds.index(get_task(name).kind), name))
    means = {run: averages(scores, names) for run, scores in runs.items()}
    order = sorted(runs, key=lambda run: (-(means[run]["all"] or -1.0), run))
    per_table = max(1, (width - _TASK_WIDTH) // (_RUN_WIDTH + 3))
    parts = [order[i : i + per_table] for i in range(0, len(order), per_table)]
    return [_comparison_part(part, runs, means, names) for part in parts]


def _comparison_part(
    part: Sequence[tuple[str, str]],
    runs: Mapping[tuple[str, str], Mapping[str, float]],
    means: Mapping[tuple[str, str], Mapping[str, float | None]],
    names: Sequence[str],
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("test score", no_wrap=True, min_width=_TASK_WIDTH)
    for model, digest in part:
        head = f"{escape(model)}\n{digest[:12]}"
        table.add_column(head, justify="right", overflow="fold", width=_RUN_WIDTH)
    for kind in Kind:
        group = [name for name in names if get_task(name).kind is kind]
        for name in group:
            table.add_row(name, *(_number(runs[run].get(name)) for run in part))
        if group:
            label = f"{kind} ({get_task(group[0]).metric})"
            cells = (_number(means[run][kind.value]) for run in part)
            table.add_row(label, *cells, style="bold")
            table.add_section()
    table.add_row("average", *(_number(means[run]["all"]) for run in part), style="bold")
    return table


def task_table(tasks: Sequence[Task]) -> Table:
    """The tasks: what each asks, how large it is, under which licence."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("task", "kind", "labels", "rows", "licence"):
        justify: JustifyMethod = "right" if name in ("labels", "rows") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    for task in tasks:
        rows = " / ".join(
            MISSING if split.rows is None else str(split.rows) for split in task.splits.values()
        )
        labels = str(len(task.labels) or MISSING)
        table.add_row(task.name, task.kind.value, labels, rows, task.license)
    return table


def print_results(console: Console, results: Sequence[Result]) -> None:
    """Real results first; sample results apart, under their notice."""
    for sample in (False, True):
        group = [result for result in results if result.is_sample is sample]
        if group and sample:
            console.print(f"[yellow]{NOTICE}[/]")
        for table in comparison(group, console.width) if group else ():
            console.print(table)


def output_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough to cut nothing in a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}"
