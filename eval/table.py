"""Tables of results for the terminal. A missing score is "–" and enters no average."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from jfinteb.eval.cache_file import CachedSpec
from jfinteb.eval.result import Failed, Result, averages
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Kind, Task, get_task, suites

__all__ = [
    "cache_table",
    "comparison",
    "output_console",
    "print_results",
    "run_table",
    "runs_table",
    "task_table",
]

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
        if group and whole:
            label = f"{kind} ({group[0].metric})"
            table.add_row(label, _number(means[kind.value]), style="bold")
        if group:
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
    members = suites()[suite] if suite is not None else ()
    label = f"average of suite {suite}" if suite is not None else ""
    return _side_by_side(_columns(results), members, label, width, best_first=True)


def runs_table(
    results: Sequence[Result], tasks: Sequence[Task], *, whole: bool, width: int
) -> list[Table]:
    """Several ways to use one model, in the order they were asked for; as `comparison`."""
    members = [task.name for task in tasks] if whole else ()
    return _side_by_side(_columns(results), members, "average", width, best_first=False)


@dataclass(frozen=True, slots=True)
class _Column:
    """One run: what stands above it, and its scores by task."""

    heads: tuple[str, ...]
    scores: Mapping[str, float]


def _columns(results: Sequence[Result]) -> list[_Column]:
    """A column a run; runs of one model are told apart by what differs between their specs."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        runs.setdefault((result.model, result.spec_digest), []).append(result)
    specs: dict[str, list[Mapping[str, Any]]] = {}
    for (model, _), found in runs.items():
        specs.setdefault(model, []).append(found[0].spec)
    return [
        _Column(
            (*model.split("/"), *_differences(found[0].spec, specs[model]), digest[:12]),
            {result.task: result.score for result in found},
        )
        for (model, digest), found in runs.items()
    ]


def _differences(spec: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a spec says where the specs of one model do not agree, a line each."""
    found = []
    for name, value in spec.items():
        if all(other.get(name) == value for other in others):
            continue
        if isinstance(value, Mapping):
            shown = [f"{k}={v!r}" for k, v in value.items() if v != ""] or ["none"]
            found += [f"{name} {text}" for text in dict.fromkeys(shown)]
        else:
            found.append(f"{name} {'all' if value is None else value}")
    return found


def _side_by_side(
    columns: Sequence[_Column],
    members: Sequence[str],
    label: str,
    width: int,
    *,
    best_first: bool,
) -> list[Table]:
    kinds = list(Kind)
    found = {name for column in columns for name in column.scores}
    names = sorted(found, key=lambda name: (kinds.index(get_task(name).kind), name))
    if best_first:

        def mean(column: _Column) -> float:
            found = averages(column.scores, members)["all"] if members else None
            return -1.0 if found is None else found

        columns = sorted(columns, key=lambda column: (-mean(column), column.heads))
    longest = max((len(line) for column in columns for line in column.heads), default=0)
    per_table = max(1, (width - _TASK_WIDTH) // (min(longest, _WIDEST_RUN) + 3))
    parts = [columns[i : i + per_table] for i in range(0, len(columns), per_table)]
    return [_comparison_part(part, names, members, label) for part in parts]


def _comparison_part(
    part: Sequence[_Column], names: Sequence[str], members: Sequence[str], label: str
) -> Table:
    table = _table("test score", *(escape("\n".join(c.heads)) for c in part), widest=_WIDEST_RUN)
    means = [averages(column.scores, members) if members else {} for column in part]
    for kind in Kind:
        group = [name for name in names if get_task(name).kind is kind]
        for name in group:
            table.add_row(name, *(_number(column.scores.get(name)) for column in part))
        if group and members:
            cells = (_number(mean.get(kind.value)) for mean in means)
            table.add_row(f"{kind} ({get_task(group[0]).metric})", *cells, style="bold")
        table.add_section()
    if members:
        table.add_row(label, *(_number(mean["all"]) for mean in means), style="bold")
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
