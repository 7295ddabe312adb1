"""One `jfinteb run` as a person sees it: what is to be done, progress, the table at the end."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from jfinteb.eval.backends import EncoderOptions, TextEncoder
from jfinteb.eval.cache import cache_folder, give_stores
from jfinteb.eval.precision import check_precision
from jfinteb.eval.presets import Preset, looks_like, missing_packages
from jfinteb.eval.result import Failed, Result
from jfinteb.eval.runner import Plan, Runner
from jfinteb.eval.table import output_console, run_table, runs_table
from jfinteb.eval.variants import open_variants
from jfinteb.loaders.data import SAMPLE, Origin, open_origin
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Task, get_suite, get_task

__all__ = ["Run", "Session"]


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


@dataclass(slots=True, kw_only=True)
class Session:
    """The request, settled: which tasks, from where, with which encoders, to where.

    Attributes:
        options: of the model; `poolings`, `dims` and `precisions` vary them, each with each.
        preset: that `options` come from, if any.
        cache: folder of kept vectors; None: nothing is kept.
    """

    options: EncoderOptions
    preset: Preset | None
    poolings: tuple[str, ...]
    dims: tuple[int | None, ...]
    precisions: tuple[str, ...]
    tasks: tuple[Task, ...]
    whole: bool
    origin: Origin
    output: Path
    seed: int
    cache: Path | None
    dry_run: bool
    debug: bool
    console: Console

    @classmethod
    def from_args(
        cls, args: argparse.Namespace, options: EncoderOptions, preset: Preset | None
    ) -> Session:
        """Check a command line before anything is loaded.

        Raises:
            UsageError: options that do not exist or do not fit together.
        """
        data = SAMPLE if args.suite == SAMPLE and args.data is None else args.data
        suite = args.suite or (SAMPLE if data == SAMPLE else "jfinteb")
        if (suite == SAMPLE) != (data == SAMPLE):
            raise UsageError(
                f"--suite {suite} with --data {data}; the sample suite has its own data, leave "
                "one out"
            )
        tasks = get_suite(suite)
        if args.tasks:
            chosen = [get_task(name) for part in args.tasks for name in part]
            tasks = tuple({task.name: task for task in chosen}.values())
        if args.compare_poolings and args.pooling is not None:
            raise UsageError("--compare-poolings with --pooling; leave one out")
        for precision in args.precision or ():
            check_precision(precision)
        return cls(
            options=options,
            preset=preset,
            poolings=args.compare_poolings or (options.pooling,),
            dims=args.truncate_dim or (options.truncate_dim,),
            precisions=args.precision or ("float32",),
            tasks=tasks,
            whole=not args.tasks,
            origin=open_origin(data),
            output=args.output,
            seed=args.seed,
            cache=None if args.no_cache else args.cache or cache_folder(),
            dry_run=args.dry_run,
            debug=args.debug,
            console=Console(stderr=True, soft_wrap=True, highlight=False),
        )

    def run(self) -> int:
        """Do it; returns the exit code."""
        encoders = open_variants(self.options, self.poolings, self.dims, self.precisions)
        runs = [Run(Runner(e, self.origin, self.output, seed=self.seed)) for e in encoders]
        self._introduce(runs)
        plans, failures = runs[0].runner.plan(self.tasks)
        for failure in failures:
            self.console.print(
                f"{failure.task}: failed: {failure.reason}", style="red", markup=False
            )
        for run in runs:
            run.plans = plans if run is runs[0] else run.runner.again(plans)
            run.failed = {failure.task: failure for failure in failures}
        stores = give_stores(encoders, self.cache)
        try:
            if self.dry_run:
                self._show_plan(runs)
            else:
                self._do(runs)
        finally:
            for store in stores:
                store.close()
        return 1 if any(run.failed for run in runs) else 0

    def _do(self, runs: Sequence[Run]) -> None:
        todo = [(run, plan) for run in runs for plan in run.plans if plan.done is None]
        for run in runs:
            if any(plan.done is None for plan in run.plans):
                run.runner.prepare_output()
        if any(run.runner.to_encode(plan) for run, plan in todo):
            runs[0].encoder.load()
        try:
            with self._progress() as progress:
                total = sum(plan.characters for _, plan in todo)
                bar = progress.add_task("", total=total, visible=total > 0)
                for run in runs:
                    self._score(run, progress, bar)
        finally:
            self._finish(runs)

    def _introduce(self, runs: Sequence[Run]) -> None:
        for number, run in enumerate(runs):
            spec = run.encoder.spec
            shown = {
                "model": f"{spec.model} ({spec.revision})",
                "vectors": f"pooling {spec.pooling}, layer {spec.layer}, max length "
                f"{spec.max_length}, truncate dim {spec.truncate_dim}, normalize {spec.normalize}, "
                f"{spec.dtype}, precision {spec.precision}",
                "prompts": ", ".join(f"{k} {v!r}" for k, v in spec.to_json()["prompts"].items()),
                "data": self.origin.name,
                "results": str(run.runner.folder),
            }
            for name, text in shown.items():
                if number == 0 or name in ("vectors", "results"):
                    self.console.print(f"{name:8} {text}", markup=False)
        for line in self._of_preset():
            self.console.print(f"{'preset':8} {line}", markup=False)
        for note in dict.fromkeys(note for run in runs for note in run.encoder.notes):
            style = "yellow" if note.startswith("warning") else ""
            self.console.print(f"{'note':8} {note}", style=style, markup=False)
        if self.origin.name == SAMPLE:
            self.console.print(f"{'note':8} {NOTICE}", style="yellow", markup=False)

    def _of_preset(self) -> list[str]:
        """Which preset is used, or might be."""
        if self.preset is not None:
            missing = missing_packages(self.preset)
            wants = f"; not installed: pip install {' '.join(missing)}" if missing else ""
            return [f"{self.preset.id}; see `jfinteb models {self.preset.id}`{wants}"]
        near = looks_like(self.options.model)
        if near is not None and not any(self.options.prompts.values()):
            return [f"none; this may be {near.id}: --preset {near.id} uses it as its makers do"]
        return []

    def _show_plan(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if len(runs) > 1:
                print(run.runner.folder.name)
            for plan in run.plans:
                rows = {split: table.num_rows for split, table in plan.tables.items()}
                state = "done" if plan.done else "to run"
                sizes = ", ".join(f"{split} {n:,}" for split, n in rows.items())
                new = 0 if plan.done else run.runner.to_encode(plan)
                print(
                    f"{plan.task.name:20} {state:7} {plan.characters:>10,} characters, "
                    f"{new:>10,} to encode ({sizes})"
                )

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )

    def _score(self, run: Run, progress: Progress, bar: TaskID) -> None:
        run.encoder.on_progress = lambda characters: progress.advance(bar, characters)
        finished = progress.tasks[0].completed
        names = [plan.task.name for plan in run.plans]
        progress.update(bar, description=names[0] if names else "")
        scored = run.runner.run(run.plans, debug=self.debug)
        for number, (plan, result) in enumerate(scored, start=1):
            name = plan.task.name
            if isinstance(result, Failed):
                run.failed[name] = result
                line = f"{name}: failed: {result.reason}"
            else:
                run.results[name] = result
                line = f"{name}: {result.metric} {result.score:.4f}"
                line += " (kept)" if plan.done else f" ({sum(result.seconds.values()):.1f} s)"
            progress.console.print(line, markup=False)
            if plan.done is None:  # repeated texts were encoded once; step over the rest
                finished += plan.characters
                progress.update(bar, completed=finished)
            progress.update(bar, description=names[number] if number < len(names) else "")

    def _finish(self, runs: Sequence[Run]) -> None:
        if not any(run.results or run.failed for run in runs):
            return
        out = output_console()
        if len(runs) == 1:
            out.print(run_table(self.tasks, runs[0].results, runs[0].failed, whole=self.whole))
        else:
            results = [result for run in runs for result in run.results.values()]
            for table in runs_table(results, self.tasks, whole=self.whole, width=out.width):
                out.print(table)
        found = {name: result for run in runs for name, result in run.results.items()}
        spreads = (r.outcome.get("spread", {}) for run in runs for r in run.results.values())
        if len(runs) == 1 and any(len(spread.get("seeds", ())) > 1 for spread in spreads):
            out.print("* lowest and highest score over seeds")
        for note in notes_of(found):
            out.print(f"note: {note}", markup=False, soft_wrap=True)
        for run in runs:
            self.console.print(f"results in {run.runner.folder}", markup=False)


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
