"""Many runs side by side: a row a run, a column a task, from which every view is made.

A mean is over named tasks and is None where one of them has no score, never over what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from jfinteb.eval.result import Result, averages
from jfinteb.eval.runs import Label, ScoredRun, labels, remarks, same_terms
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Kind, get_suite, get_task, suites

__all__ = ["Board", "Bounds", "Row", "board_of", "boards", "bounds", "choose"]

_SUITES = {"": "jfinteb", "clean": "jfinteb-clean"}  # of a family of variants


@dataclass(frozen=True, slots=True)
class Bounds:
    """A 95 % interval, or the lowest and highest score over seeds."""

    low: float
    high: float
    seeds: bool

    def __str__(self) -> str:
        return f"{self.low:.4f}–{self.high:.4f}{' *' if self.seeds else ''}"


def bounds(result: Result) -> Bounds | None:
    """How far a score moves; None where one seed was run and nothing was drawn."""
    spread = result.outcome.get("spread")
    if spread is None:
        found = result.outcome["interval"]
        return Bounds(found["low"], found["high"], seeds=False)
    return Bounds(spread["low"], spread["high"], seeds=True) if len(spread["seeds"]) > 1 else None


@dataclass(frozen=True, slots=True)
class Row:
    """One run.

    Attributes:
        label: what it is called.
        run: its results, those of the board's tasks alone.
        means: by kind and over `"all"`; None where a task of the suite has no score.
        common: over the board's common tasks; None where the board has none.
    """

    label: Label
    run: ScoredRun
    means: Mapping[str, float | None]
    common: float | None


@dataclass(frozen=True, slots=True)
class Board:
    """One table.

    Attributes:
        title: what it holds.
        sample: whether its scores mean nothing.
        suite: whose average its rows have; None: they have none.
        members: the tasks that means may be over.
        tasks: those with a score, by kind and name.
        common: the tasks that every row has, under equal terms, where their mean says something
            that the average does not.
        rows: by average where all have one, else by common mean, else by name.
        remarks: what a reader should know before comparing.
    """

    title: str
    sample: bool
    suite: str | None
    members: tuple[str, ...]
    tasks: tuple[str, ...]
    common: tuple[str, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Those whose mean some row has, and that are more than one task."""
        sizes = Counter(get_task(name).kind for name in self.members)
        return tuple(
            kind
            for kind in Kind
            if sizes[kind] > 1 and any(row.means.get(kind.value) is not None for row in self.rows)
        )

    def marks(self, task: str) -> dict[int, str]:
        """By row index: `"best"` for the best score on a task, `"near"` where bounds meet its.

        Where a row has no bounds nothing tells it apart, so it is near. No marks where the rows
        were not scored under equal terms, or there is one score only.
        """
        runs = [row.run for row in self.rows]
        found = {i: run.results[task] for i, run in enumerate(runs) if task in run.results}
        if len(found) < 2 or not same_terms(task, runs):
            return {}
        top = max(result.score for result in found.values())
        best = [i for i, result in found.items() if result.score == top]
        near = (i for i in found if any(_meet(found[i], found[b]) for b in best))
        return {**dict.fromkeys(near, "near"), **dict.fromkeys(best, "best")}


def _meet(one: Result, other: Result) -> bool:
    a, b = bounds(one), bounds(other)
    return a is None or b is None or (a.low <= b.high and b.low <= a.high)


def choose(
    runs: Sequence[ScoredRun], model: str | None, suite: str | None, tasks: Collection[str] | None
) -> list[ScoredRun]:
    """The runs of models with that text in their name, with their results on those tasks.

    Args:
        runs: all there are.
        model: text, in upper or lower case; None: every model.
        suite: its tasks, of the sample if it is `sample`, else of real data; None: all.
        tasks: names or aliases; None: all.

    Raises:
        UsageError: no such suite or task, or nothing is left.
    """
    members = None if suite is None else {task.name for task in get_suite(suite)}
    wanted = None if tasks is None else {get_task(name).name for name in tasks}
    found = []
    for run in runs:
        if model is not None and model.casefold() not in run.first.model.casefold():
            continue
        if suite is not None and run.first.is_sample != (suite == "sample"):
            continue
        kept = {
            name: result
            for name, result in run.results.items()
            if (members is None or name in members) and (wanted is None or name in wanted)
        }
        if kept:
            found.append(ScoredRun(run.folder, kept))
    if not found:
        models = ", ".join(sorted({run.first.model for run in runs}))
        raise UsageError(f"no results left by --model, --suite and --tasks; models: {models}")
    return found


def boards(runs: Sequence[ScoredRun], *, suite: str | None, chosen: bool) -> list[Board]:
    """The paper's tasks; then every family of variants apart; then the sample.

    Args:
        runs: see `choose`.
        suite: the one asked for; None: each family has its own.
        chosen: whether tasks were chosen by name; such a choice has no average.
    """
    families: dict[tuple[bool, str], list[tuple[Label, ScoredRun]]] = {}
    for label, run in zip(labels(runs), runs, strict=True):
        parts: dict[str, dict[str, Result]] = {}
        for name, result in run.results.items():
            recipe = get_task(name).recipe
            parts.setdefault("" if recipe is None else recipe.name, {})[name] = result
        for family, results in parts.items():
            key = (run.first.is_sample, family)
            families.setdefault(key, []).append((label, ScoredRun(run.folder, results)))
    found = []
    for (sample, family), named in sorted(families.items(), key=lambda item: item[0]):
        title = f"{family} variants: not comparable with the paper's tasks" if family else ""
        own = suite or ("sample" if sample else _SUITES.get(family))
        members = suites()[own] if own is not None else ()
        if chosen:
            own, members = None, tuple({name: None for _, run in named for name in run.results})
        found.append(board_of(named, members, title=NOTICE if sample else title, suite=own))
    return found


def board_of(
    named: Sequence[tuple[Label, ScoredRun]],
    members: Sequence[str],
    *,
    title: str = "",
    suite: str | None,
    sort: bool = True,
) -> Board:
    """One table of runs.

    Args:
        named: the runs, and what they are called.
        members: the tasks that means may be over.
        title: see `Board`.
        suite: the name of `members` as a whole, which then has an average; None: it has none.
        sort: see `Board.rows`; else in the order given.
    """
    runs = [run for _, run in named]
    kinds = list(Kind)
    held = {name for run in runs for name in run.results}
    tasks = sorted(held, key=lambda name: (kinds.index(get_task(name).kind), name))
    common = [
        name
        for name in tasks
        if name in members and all(name in run.results for run in runs) and same_terms(name, runs)
    ]
    if len(runs) < 2 or len(common) < 2 or (suite and len(common) == len(members)):
        common = []
    rows = [_row(label, run, members if suite else (), common) for label, run in named]
    ordered = "as given"
    if sort:
        ordered, place = _order(rows)
        rows.sort(key=place)
    legend = _legend(suite, members, tasks, common, rows)
    if len(rows) > 1:
        legend.append(f"order: {ordered}")
    return Board(
        title=title,
        sample=any(run.first.is_sample for run in runs),
        suite=suite,
        members=tuple(members),
        tasks=tuple(tasks),
        common=tuple(common),
        rows=tuple(rows),
        remarks=(*legend, *remarks([row.run for row in rows])),
    )


def _row(label: Label, run: ScoredRun, members: Sequence[str], common: Sequence[str]) -> Row:
    scores = {name: result.score for name, result in run.results.items()}
    means = averages(scores, members) if members else {}
    return Row(label, run, means, averages(scores, common)["all"] if common else None)


def _order(rows: Sequence[Row]) -> tuple[str, Callable[[Row], tuple[float, str, str, str]]]:
    """By one mean that every row has, else by name: a row without it may be better or worse."""
    means: dict[str, Callable[[Row], float | None]] = {
        "by average": lambda row: row.means.get("all"),
        "by common mean": lambda row: row.common,
        "by name, since no mean is over the same tasks in all rows": lambda row: 0.0,
    }
    told, mean = next((t, m) for t, m in means.items() if None not in map(m, rows))

    def place(row: Row) -> tuple[float, str, str, str]:
        return -(mean(row) or 0.0), row.label.model, str(row.label), row.run.folder

    return told, place


def _legend(
    suite: str | None,
    members: Sequence[str],
    tasks: Sequence[str],
    common: Sequence[str],
    rows: Sequence[Row],
) -> list[str]:
    """What the scores are, and what the columns of means are over."""
    metrics = dict.fromkeys(f"{task.metric} ({task.kind})" for task in map(get_task, tasks))
    found = [f"scores on test: {', '.join(metrics)}"]
    if suite is not None:
        lacking = [name for name in members if name not in tasks]
        beside = [name for name in tasks if name not in members]
        line = f"average: over the {len(members)} tasks of suite {suite}"
        line += f"; {', '.join(beside)} not among them" if beside else ""
        found.append(line + (f"; no run has {', '.join(lacking)}" if lacking else ""))
    if common:
        found.append(
            f"common: over {', '.join(common)}, which all {len(rows)} runs have on equal rows"
        )
    elif suite and len(rows) > 1 and any(row.means["all"] is None for row in rows):
        found.append("no two tasks that all runs have: choose runs or tasks to compare means")
    return found
