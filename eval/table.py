"""Tables of results for the terminal. A missing score is "–" and enters no average."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from jfinteb.eval.result import Failed, Result, averages
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Kind, Task, get_task, suites

__all__ = ["comparison", "output_console", "print_results", "run_table", "task_table"]

MISSING = "–"
_TASK_WIDTH = 25
_WIDEST_RUN = 32
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
    table = _table("test score", "score", "95 % interval", "chosen on validation")
    scores = {name: result.score for name, result in results.items()}
    means = averages(scores, [task.name for task in tasks])
    for kind in Kind:
        group = [task for task in tasks if task.kind is kind]
        for task in group:
            table.add_row(*_row(task, results.get(task.name), failed.get(task.name)))
        if group:
            label = f"{kind} ({group[0].metric})"
            table.add_row(label, _number(means[kind.value]) if whole else "", style="bold")
            table.add_section()
    if whole:
        table.add_row("average", _number(means["all"]), style="bold")
    return table


def _row(task: Task, result: Result | None, failed: Failed | None) -> tuple[str, ...]:
    if result is None:
        reason = f"failed: {failed.reason.removeprefix(f'{task.name}: ')}" if failed else "not run"
        return task.name, MISSING, "", escape(textwrap.shorten(reason, _REASON, placeholder=" …"))
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
        return MISSING  # one run: nothing was drawn
    return f"{spread['low']:.4f}–{spread['high']:.4f} *"


def comparison(results: Sequence[Result], suite: str | None, width: int) -> list[Table]:
    """Several models, best average first: a row a task, a column a run, in tables of that width.

    Args:
        results: of one suite and perhaps of more tasks beside it.
        suite: its name; averages are over its tasks alone. None: no averages.
        width: of the terminal, in columns.
    """
    runs: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        runs.setdefault((result.model, result.spec_digest), {})[result.task] = result.score
    kinds = list(Kind)
    found = {name for scores in runs.values() for name in scores}
    names = sorted(found, key=lambda name: (kinds.index(get_task(name).kind), name))
    members = suites()[suite] if suite is not None else ()
    means = {run: averages(scores, members) if members else {} for run, scores in runs.items()}
    order = sorted(runs, key=lambda run: (-(means[run].get("all") or -1.0), run))
    longest = max(len(part) for model, _ in runs for part in (*model.split("/"), "0" * 12))
    per_table = max(1, (width - _TASK_WIDTH) // (min(longest, _WIDEST_RUN) + 3))
    parts = [order[i : i + per_table] for i in range(0, len(order), per_table)]
    return [_comparison_part(part, runs, means, names, suite) for part in parts]


def _comparison_part(
    part: Sequence[tuple[str, str]],
    runs: Mapping[tuple[str, str], Mapping[str, float]],
    means: Mapping[tuple[str, str], Mapping[str, float | None]],
    names: Sequence[str],
    suite: str | None,
) -> Table:
    heads = ["\n".join((*model.split("/"), digest[:12])) for model, digest in part]
    table = _table("test score", *map(escape, heads), widest=_WIDEST_RUN)
    for kind in Kind:
        group = [name for name in names if get_task(name).kind is kind]
        for name in group:
            table.add_row(name, *(_number(runs[run].get(name)) for run in part))
        if group and suite is not None:
            label = f"{kind} ({get_task(group[0]).metric})"
            cells = (_number(means[run].get(kind.value)) for run in part)
            table.add_row(label, *cells, style="bold")
        table.add_section()
    if suite is not None:
        cells = (_number(means[run]["all"]) for run in part)
        table.add_row(f"average of suite {suite}", *cells, style="bold")
    return table


def _table(first: str, *others: str, widest: int | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(first, no_wrap=True, min_width=_TASK_WIDTH, vertical="bottom")
    for name in others:
        text = name.startswith("chosen")
        table.add_column(
            name,
            justify="left" if text else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=widest,
        )
    return table


def task_table(tasks: Sequence[Task]) -> Table:
    """The tasks: what each asks, how large it is, under which licence."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("task", "kind", "labels", "rows", "licence"):
        justify: JustifyMethod = "right" if name in ("labels", "rows") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    for task in tasks:
        rows = "/".join(
            MISSING if split.rows is None else str(split.rows) for split in task.splits.values()
        )
        labels = str(len(task.labels) or MISSING)
        table.add_row(task.name, task.kind.value, labels, rows, task.license)
    return table


def print_results(console: Console, results: Sequence[Result]) -> None:
    """The paper's tasks; then every family of variants apart; then the sample under its notice."""
    families: dict[tuple[bool, str], list[Result]] = {}
    for result in results:
        recipe = get_task(result.task).recipe
        family = "" if recipe is None else recipe.name
        families.setdefault((result.is_sample, family), []).append(result)
    for (sample, family), group in sorted(families.items()):
        suite = "sample" if sample else {"": "jfinteb", "clean": "jfinteb-clean"}.get(family)
        if sample:
            console.print(f"[yellow]{NOTICE}[/]")
        elif family:
            console.print(f"{family} variants: not comparable with the paper's tasks")
        for table in comparison(group, suite, console.width):
            console.print(table)
            console.print()


def output_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough to cut nothing in a pipe."""
    return Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else 200)


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}"
