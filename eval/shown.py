"""What a run shows: beforehand, meanwhile and at the end."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from jfinteb.eval.backends import EncoderOptions, TextEncoder
from jfinteb.eval.presets import Preset, looks_like, missing_packages
from jfinteb.eval.result import Failed, Result
from jfinteb.eval.runner import Plan, Runner
from jfinteb.eval.runs import differences
from jfinteb.eval.table import output_console, run_table, runs_table
from jfinteb.loaders.data import SAMPLE, Origin
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Task

__all__ = [
    "Heartbeat",
    "Run",
    "introduce",
    "notes_of",
    "of_preset",
    "progress_bar",
    "setting_of",
    "show_plan",
    "show_scores",
]


@dataclass(slots=True)
class Run:
    """One encoder on all tasks."""

    runner: Runner
    plans: list[Plan] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)

    @property
    def encoder(self) -> TextEncoder:
        """Whose vectors are scored."""
        return self.runner.encoder


def introduce(console: Console, runs: Sequence[Run], origin: Origin, preset: Sequence[str]) -> None:
    """Say which model is run how, on what, to where."""
    for number, run in enumerate(runs):
        spec = run.encoder.spec
        shown = {
            "model": f"{spec.model} ({spec.revision})",
            "vectors": f"backend {spec.backend}, pooling {spec.pooling}, layer {spec.layer}, max "
            f"length {spec.max_length}, truncate dim {spec.truncate_dim or 'all'}, "
            f"normalize {spec.normalize}, {spec.dtype}, precision {spec.precision}",
            "prompts": ", ".join(f"{k} {v!r}" for k, v in spec.to_json()["prompts"].items()),
            "data": origin.name,
            "results": str(run.runner.folder),
        }
        for name, text in shown.items():
            if number == 0 or name in ("vectors", "results"):
                console.print(f"{name:8} {text}", markup=False)
    for line in preset:
        console.print(f"{'preset':8} {line}", markup=False)
    for note in dict.fromkeys(note for run in runs for note in run.encoder.notes):
        style = "yellow" if note.startswith("warning") else ""
        console.print(f"{'note':8} {note}", style=style, markup=False)
    if origin.name == SAMPLE:
        console.print(f"{'note':8} {NOTICE}", style="yellow", markup=False)


def setting_of(run: Run, runs: Sequence[Run]) -> str:
    """What tells a run from the others, as ` [pooling cls]`; empty where it is the only one."""
    told = differences(run.encoder.spec.to_json(), [r.encoder.spec.to_json() for r in runs])
    return f" [{', '.join(told)}]" if told else ""


def of_preset(preset: Preset | None, options: EncoderOptions, named: str | None) -> list[str]:
    """Which preset is used, or might be."""
    if preset is not None and named is not None:
        return [f"{preset.id}, from {named}"]
    if preset is not None:
        missing = missing_packages(preset)
        wants = f"; not installed: pip install {' '.join(missing)}" if missing else ""
        return [f"{preset.id}; see `jfinteb models {preset.id}`{wants}"]
    near = looks_like(options.model)
    if near is not None and not any(options.prompts.values()):
        return [f"none; this may be {near.id}: --preset {near.id} uses it as its makers do"]
    return []


def show_cost(console: Console, runs: Sequence[Run]) -> None:
    """What encoding will cost, where it costs money; texts that tasks share are counted in each."""
    run = runs[0]  # the others use what it pays for
    costs = [run.runner.estimate(plan) for plan in run.plans if plan.done is None]
    known = [cost for cost in costs if cost is not None]
    if known:
        total = functools.reduce(operator.add, known)
        console.print(f"{'cost':8} {total}", markup=False)


def show_plan(runs: Sequence[Run]) -> None:
    """What would be run, and what of it would be encoded."""
    for run in runs:
        if len(runs) > 1:
            print(run.runner.folder.name)
        characters = left = 0
        for plan in run.plans:
            rows = {split: table.num_rows for split, table in plan.tables.items()}
            state = "done" if plan.done else "to run"
            sizes = ", ".join(f"{split} {n:,}" for split, n in rows.items())
            new = 0 if plan.done else run.runner.to_encode(plan)
            characters, left = characters + plan.characters, left + new
            print(
                f"{plan.task.name:20} {state:7} {plan.characters:>10,} characters, "
                f"{new:>10,} to encode ({sizes})"
            )
        if len(run.plans) > 1:  # texts that several tasks share are encoded once, counted in each
            print(f"{'all':20} {'':7} {characters:>10,} characters, {left:>10,} to encode")


def progress_bar(console: Console) -> Progress:
    """Share done, time gone, time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class Heartbeat:
    """Says once a minute how far a run is, where there is no terminal to show a bar on.

    Args:
        progress: with one task.
        seconds: between two lines.
    """

    def __init__(self, progress: Progress, seconds: float = 60.0) -> None:
        self._progress = progress
        self._seconds = seconds
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Say it if a minute has gone by."""
        now = time.monotonic()
        if self._progress.console.is_terminal or now - self._last < self._seconds:
            return
        self._last = now
        task = self._progress.tasks[0]
        line = f"{task.description}: {task.percentage:.0f} % of all texts"
        if task.time_remaining is not None:
            line += f", about {task.time_remaining / 60:.0f} min left"
        self._progress.console.print(line, markup=False)


def show_scores(
    console: Console, runs: Sequence[Run], tasks: Sequence[Task], *, whole: bool
) -> None:
    """The table, on standard output; notes; where the results are."""
    if not any(run.results or run.failed for run in runs):
        return
    out = output_console()
    if len(runs) == 1:
        out.print(run_table(tasks, runs[0].results, runs[0].failed, whole=whole))
    else:
        results = [result for run in runs for result in run.results.values()]
        for table in runs_table(results, tasks, whole=whole, width=out.width):
            out.print(table)
    found = {name: result for run in runs for name, result in run.results.items()}
    spreads = (r.outcome.get("spread", {}) for run in runs for r in run.results.values())
    if len(runs) == 1 and any(len(spread.get("seeds", ())) > 1 for spread in spreads):
        out.print("* lowest and highest score over seeds")
    for note in notes_of(found):
        out.print(f"note: {note}", markup=False, soft_wrap=True)
    for line in runs[0].encoder.totals():
        console.print(line, markup=False)
    for run in runs:
        console.print(f"results in {run.runner.folder}", markup=False)


def notes_of(results: Mapping[str, Result]) -> list[str]:
    """Each note once, with the tasks it speaks of unless it speaks of all."""
    tasks: dict[str, list[str]] = {}
    for name, result in results.items():
        for note in result.notes:
            tasks.setdefault(note, []).append(name)
    return [
        note if len(names) == len(results) else f"{', '.join(names)}: {note}"
        for note, names in tasks.items()
    ]
