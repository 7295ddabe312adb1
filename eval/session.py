"""One `jfinteb run` as a person sees it: what is to be done, progress, the table at the end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.cache import cache_folder, give_stores
from jfinteb.eval.precision import check_precision
from jfinteb.eval.presets import Preset
from jfinteb.eval.result import Failed
from jfinteb.eval.runner import Plan, Runner
from jfinteb.eval.scoring import Scorer
from jfinteb.eval.settled import recall, remember
from jfinteb.eval.shown import (
    Heartbeat,
    Run,
    introduce,
    of_preset,
    progress_bar,
    setting_of,
    show_cost,
    show_plan,
    show_scores,
)
from jfinteb.eval.variants import open_variants
from jfinteb.loaders.data import SAMPLE, Origin, open_origin
from jfinteb.loaders.errors import JfintebError, UsageError
from jfinteb.loaders.processes import cores
from jfinteb.loaders.task import Task, get_suite, get_task

__all__ = ["Session", "scoring_processes"]

_WORTH_A_PROCESS = 10_000  # rows; fewer are scored sooner than a process starts


@dataclass(slots=True, kw_only=True)
class Session:
    """The request, settled: which tasks, from where, with which encoders, to where.

    Attributes:
        options: of the model; `poolings`, `dims` and `precisions` vary them, each with each.
        preset: that `options` come from, if any; `preset_file` where it is the user's own.
        cache: folder of kept vectors; None: nothing is kept.
    """

    options: EncoderOptions
    preset: Preset | None
    preset_file: str | None
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
    carried: list[str] = field(default_factory=list)
    opened: list[tuple[EncoderOptions, TextEncoder]] = field(default_factory=list)
    planned: tuple[list[Plan], list[Failed]] | None = None  # rows are read once

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
        several = args.truncate_dim is not None and len(args.truncate_dim) > 1
        kept = None if args.no_cache else args.cache or cache_folder()
        return cls(
            options=options,
            preset=preset,
            preset_file=args.preset if (args.preset or "").lower().endswith(".toml") else None,
            poolings=args.compare_poolings or (options.pooling,),
            dims=args.truncate_dim if several else (options.truncate_dim,),
            precisions=args.precision or ("float32",),
            tasks=tasks,
            whole=not args.tasks,
            origin=open_origin(data),
            output=args.output.absolute(),  # a user's own code may change the directory
            seed=args.seed,
            cache=None if kept is None else kept.absolute(),
            dry_run=args.dry_run,
            debug=args.debug,
            console=Console(stderr=True, soft_wrap=True, highlight=False),
        )

    def run(self) -> int:
        """Do it; returns the exit code."""
        if self.cache is not None:
            known = self._recalled(self.cache)
            code = None if known is None else self._attempt(known, kept_only=not self.dry_run)
            if code is not None:
                return code
        encoders = open_variants(
            self.options, self.poolings, self.dims, self.precisions, self._opened
        )
        code = self._attempt(encoders)
        assert code is not None
        return code

    def _recalled(self, cache: Path) -> list[TextEncoder] | None:
        """The encoders as they were settled before, if all of them were."""

        def known(options: EncoderOptions) -> TextEncoder:
            found = recall(cache, options)
            if found is None:
                raise LookupError(options.model)
            return found

        try:
            return open_variants(self.options, self.poolings, self.dims, self.precisions, known)
        except LookupError:
            return None

    def _opened(self, options: EncoderOptions) -> TextEncoder:
        encoder = open_encoder(options)
        encoder.keep_in(self.cache)
        try:
            encoder.identify()
        except JfintebError as error:
            if not self.dry_run:
                raise
            encoder.notes.append(
                f"the server was not asked ({error}); what is done or kept is not known"
            )
        if self.cache is not None:
            remember(self.cache, options, encoder)
            self.opened.append((options, encoder))
        return encoder

    def _attempt(self, encoders: Sequence[TextEncoder], *, kept_only: bool = False) -> int | None:
        """Plan and run; None, with nothing said or written, where `kept_only` does not do."""
        runs = [Run(Runner(e, self.origin, self.output, seed=self.seed)) for e in encoders]
        if self.planned is None:
            self.planned = runs[0].runner.plan(self.tasks)
        plans, failures = self.planned
        for run in runs:
            run.plans = run.runner.again(plans)
            run.failed = {failure.task: failure for failure in failures}
        stores, scorer = give_stores(encoders, self.cache), Scorer()
        try:
            todo = [(run, plan) for run in runs for plan in run.plans if plan.done is None]
            # a dry run counts all of it below
            new = not self.dry_run and any(run.runner.to_encode(plan) for run, plan in todo)
            if new and kept_only:
                self.carried += [note for store in stores for note in store.notes]
                return None
            for encoder in encoders:
                encoder.notes += [note for note in self.carried if note not in encoder.notes]
            introduce(
                self.console,
                runs,
                self.origin,
                of_preset(self.preset, self.options, self.preset_file),
            )
            for failure in failures:
                self.console.print(
                    f"{failure.task}: failed: {failure.reason}", style="red", markup=False
                )
            show_cost(self.console, runs)
            if self.dry_run:
                show_plan(runs)
            else:
                rows = [sum(t.num_rows for t in plan.tables.values()) for _, plan in todo]
                scorer = Scorer(scoring_processes(encoders[0], rows, encode=new))
                for run in runs:
                    run.runner.scorer = scorer
                self._do(runs, load=new)
        finally:
            scorer.close()
            for store in stores:
                store.close()
            for encoder in encoders:
                encoder.close()
        return 1 if any(run.failed for run in runs) else 0

    def _do(self, runs: Sequence[Run], *, load: bool) -> None:
        todo = [plan for run in runs for plan in run.plans if plan.done is None]
        for run in runs:
            if any(plan.done is None for plan in run.plans):
                run.runner.prepare_output()
        if load:
            runs[0].encoder.load()
            for options, encoder in self.opened:  # loading may have found more to say
                if self.cache is not None:
                    remember(self.cache, options, encoder, self.carried)
        try:
            with progress_bar(self.console) as progress:
                total = sum(plan.characters for plan in todo)
                bar = progress.add_task("", total=total, visible=total > 0)
                for run in runs:
                    self._score(run, setting_of(run, runs), progress, bar)
        finally:
            show_scores(self.console, runs, self.tasks, whole=self.whole)

    def _score(self, run: Run, setting: str, progress: Progress, bar: TaskID) -> None:
        finished = progress.tasks[0].completed
        names = iter([plan.task.name for plan in run.plans if plan.done is None])
        progress.update(bar, description=next(names, ""))

        def on_encoded(plan: Plan) -> None:
            nonlocal finished
            finished += plan.characters  # repeated texts were encoded once; step over the rest
            progress.update(bar, completed=finished, description=next(names, "scoring"))

        heartbeat = Heartbeat(progress)

        def on_progress(characters: int) -> None:
            progress.advance(bar, characters)
            heartbeat()

        run.encoder.on_progress = on_progress
        run.runner.on_encoded = on_encoded
        scored = run.runner.run(run.plans, debug=self.debug)
        for plan, result in scored:
            name = plan.task.name
            if isinstance(result, Failed):
                run.failed[name] = result
                line = f"{name}{setting}: failed: {result.reason}"
            else:
                run.results[name] = result
                line = f"{name}{setting}: {result.metric} {result.score:.4f}"
                line += " (kept)" if plan.done else f" ({sum(result.seconds.values()):.1f} s)"
            progress.console.print(line, markup=False)


def scoring_processes(encoder: TextEncoder, rows: Sequence[int], *, encode: bool) -> int:
    """In how many processes tasks are scored; 0: in this one, between one encoding and the next.

    Args:
        encoder: what encodes.
        rows: of each task to score.
        encode: whether anything is left to encode.
    """
    if len(rows) < 2 or sum(rows) < _WORTH_A_PROCESS:
        return 0
    if not encode:
        return min(len(rows), cores(), 4) if cores() > 1 else 0
    return int(cores() >= (2 if encoder.leaves_cores else 4))
