"""One `jfinteb run` as a person sees it: what is to be done, progress, the table at the end."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.result import Failed, Result
from jfinteb.eval.runner import Plan, Runner
from jfinteb.eval.table import output_console, run_table
from jfinteb.loaders.data import SAMPLE, Origin, open_origin
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Task, get_suite, get_task

__all__ = ["Session"]


@dataclass(slots=True)
class Session:
    """The request, settled: which tasks, from where, with which encoder, to where."""

    options: EncoderOptions
    tasks: tuple[Task, ...]
    whole: bool
    origin: Origin
    output: Path
    seed: int
    dry_run: bool
    debug: bool
    console: Console

    @classmethod
    def from_args(cls, args: argparse.Namespace, prompts: dict[str, str]) -> Session:
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
        options = EncoderOptions(
            model=args.model,
            backend=args.backend or ("lexical" if args.model == "lexical" else "transformers"),
            revision=args.revision,
            pooling=args.pooling,
            layer=args.layer,
            special_tokens=args.special_tokens,
            pool_prompt=args.pool_prompt,
            prompts=prompts,
            max_length=args.max_length,
            truncate_dim=args.truncate_dim,
            normalize=args.normalize,
            dtype=args.dtype,
            device=args.device,
            batch_tokens=args.batch_tokens,
            trust_remote_code=args.trust_remote_code,
        )
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        return cls(
            options,
            tasks,
            not args.tasks,
            open_origin(data),
            args.output,
            args.seed,
            args.dry_run,
            args.debug,
            console,
        )

    def run(self) -> int:
        """Do it; returns the exit code."""
        encoder = open_encoder(self.options)
        runner = Runner(encoder, self.origin, self.output, seed=self.seed)
        self._introduce(encoder, runner.folder)
        plans, failures = runner.plan(self.tasks)
        failed = {failure.task: failure for failure in failures}
        for failure in failures:
            self.console.print(
                f"{failure.task}: failed: {failure.reason}", style="red", markup=False
            )
        todo = [plan for plan in plans if plan.done is None]
        if self.dry_run:
            self._show_plan(plans)
            return 1 if failed else 0
        if todo:
            runner.prepare_output()
            encoder.load()
        results: dict[str, Result] = {}
        try:
            self._score(runner, encoder, plans, results, failed)
        finally:
            self._finish(results, failed, runner.folder)
        return 1 if failed else 0

    def _introduce(self, encoder: TextEncoder, folder: Path) -> None:
        spec = encoder.spec
        shown = {
            "model": f"{spec.model} ({spec.revision})",
            "vectors": f"pooling {spec.pooling}, layer {spec.layer}, max length {spec.max_length}, "
            f"truncate dim {spec.truncate_dim}, normalize {spec.normalize}, {spec.dtype}",
            "prompts": ", ".join(f"{k} {v!r}" for k, v in spec.to_json()["prompts"].items()),
            "data": self.origin.name,
            "results": str(folder),
        }
        for name, text in shown.items():
            self.console.print(f"{name:8} {text}", markup=False)
        for note in encoder.notes:
            style = "yellow" if note.startswith("warning") else ""
            self.console.print(f"{'note':8} {note}", style=style, markup=False)
        if self.origin.name == SAMPLE:
            self.console.print(f"{'note':8} {NOTICE}", style="yellow", markup=False)

    def _show_plan(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            rows = {split: table.num_rows for split, table in plan.tables.items()}
            state = "done" if plan.done else "to run"
            sizes = ", ".join(f"{split} {n:,}" for split, n in rows.items())
            print(f"{plan.task.name:20} {state:7} {plan.characters:>10,} characters ({sizes})")

    def _score(
        self,
        runner: Runner,
        encoder: TextEncoder,
        plans: Sequence[Plan],
        results: dict[str, Result],
        failed: dict[str, Failed],
    ) -> None:
        total = sum(plan.characters for plan in plans if plan.done is None)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
        )
        with Progress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        ) as progress:
            bar = progress.add_task("", total=total, visible=total > 0)
            encoder.on_progress = lambda characters: progress.advance(bar, characters)
            finished = 0
            self._describe(progress, bar, plans, 0)
            for number, (plan, result) in enumerate(runner.run(plans, debug=self.debug), start=1):
                name = plan.task.name
                if isinstance(result, Failed):
                    failed[name] = result
                    line = f"{name}: failed: {result.reason}"
                else:
                    results[name] = result
                    line = f"{name}: {result.metric} {result.score:.4f}"
                    line += " (kept)" if plan.done else f" ({sum(result.seconds.values()):.1f} s)"
                progress.console.print(line, markup=False)
                if plan.done is None:  # repeated texts were encoded once; step over the rest
                    finished += plan.characters
                    progress.update(bar, completed=finished)
                self._describe(progress, bar, plans, number)

    def _describe(self, progress: Progress, bar: object, plans: Sequence[Plan], n: int) -> None:
        if n < len(plans):
            progress.update(bar, description=plans[n].task.name)  # type: ignore[arg-type]

    def _finish(
        self, results: Mapping[str, Result], failed: Mapping[str, Failed], folder: Path
    ) -> None:
        if not results and not failed:
            return
        out = output_console()
        out.print(run_table(self.tasks, results, failed, whole=self.whole))
        if any(len(r.outcome.get("spread", {}).get("seeds", ())) > 1 for r in results.values()):
            out.print("* lowest and highest score over seeds")
        for note in notes_of(results):
            out.print(f"note: {note}", markup=False, soft_wrap=True)
        self.console.print(f"results in {folder}", markup=False)


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
