"""Run tasks: load, encode, score, write; one task's fault does not stop the others."""

from __future__ import annotations

import datetime
import platform
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jfinteb.eval.backends.base import TextEncoder
from jfinteb.eval.encoder import ModelError, NotFiniteError, Vectors
from jfinteb.eval.precision import quantized
from jfinteb.eval.protocols import VERSION, inputs
from jfinteb.eval.result import (
    Failed,
    Result,
    identity,
    outcome_fields,
    read_result,
    run_digest,
    run_folder,
    write_result,
    write_summary,
)
from jfinteb.eval.scoring import Pending, Scored, Scorer
from jfinteb.eval.stats import RESAMPLES
from jfinteb.loaders.data import SAMPLE, Origin, is_verified, load_tables
from jfinteb.loaders.errors import JfintebError, UsageError
from jfinteb.loaders.sample import NOTICE
from jfinteb.loaders.task import Kind, Role, Task, suites

if TYPE_CHECKING:
    import pyarrow as pa

    from jfinteb.eval.backends.api.usage import Estimate

__all__ = ["Plan", "Runner"]

_PACKAGES = ("jfinteb", "numpy", "scikit-learn", "scipy", "datasets", "tokenizers")


@dataclass(frozen=True, slots=True)
class Plan:
    """A task with its verified rows.

    Attributes:
        characters: to encode: the measure of progress.
        done: its result, if that still holds.
    """

    task: Task
    tables: dict[str, pa.Table]
    digests: dict[str, str]
    identity: str
    seconds: float
    characters: int
    done: Result | None


@dataclass(slots=True)
class _Begun:
    """A task whose vectors are there; `ended` once its score is written or known to fail."""

    plan: Plan
    pending: Pending
    counts: dict[str, int]
    dimensions: int
    seconds: float  # of encoding
    ended: Result | Failed | None = None


class Runner:
    """Scores one encoder on tasks of one origin.

    Args:
        encoder: the encoder.
        origin: where the rows come from.
        output: folder of all results.
        seed: of clustering; the paper's other protocols draw nothing.
        scorer: where tasks are scored; default: in this process.

    Attributes:
        on_encoded: called when the vectors of a task are there, or cannot be had.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        origin: Origin,
        output: Path,
        *,
        seed: int = 0,
        scorer: Scorer | None = None,
    ) -> None:
        self.encoder = encoder
        self.origin = origin
        self.seed = seed
        self.scorer = scorer or Scorer()
        self.on_encoded: Callable[[Plan], object] = lambda plan: None
        self._run = run_digest(encoder.spec, encoder.environment)
        self.folder = run_folder(output, encoder.spec, self._run, sample=origin.name == SAMPLE)

    def prepare_output(self) -> None:
        """Find out before the first task whether results can be written.

        Raises:
            UsageError: they cannot.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder) as probe:
                probe.write(b"\0" * 4096)
        except OSError as error:
            raise UsageError(
                f"cannot write {self.folder}: {error.strerror or error}; give --output another "
                "folder"
            ) from error

    def plan(self, tasks: Sequence[Task]) -> tuple[list[Plan], list[Failed]]:
        """Load and verify the rows of every task; what cannot be had is a `Failed`."""
        plans, failed = [], []
        # one order whatever was asked for: texts that tasks share go through in the same batches
        for task in sorted(tasks, key=lambda task: task.name):
            start = time.perf_counter()
            try:
                tables, digests = load_tables(task, self.origin)
                key = self._identity(task, digests)
                seconds = time.perf_counter() - start
                characters = sum(len(t) for _, ts in inputs(task, tables).values() for t in ts)
                done = self._done(task, key)
                plans.append(Plan(task, tables, digests, key, seconds, characters, done))
            except JfintebError as error:
                failed.append(Failed(task.name, str(error)))
        return plans, failed

    def again(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans of another encoder's runner, for this one: the same rows, loaded once."""
        return [
            replace(plan, identity=key, done=self._done(plan.task, key))
            for plan in plans
            for key in [self._identity(plan.task, plan.digests)]
        ]

    def _identity(self, task: Task, digests: Mapping[str, str]) -> str:
        seed = self.seed if task.kind is Kind.CLUSTERING else 0  # the others draw nothing
        return identity(task.name, digests, self._run, VERSION, seed)

    def _done(self, task: Task, key: str) -> Result | None:
        path = self.folder / f"{task.name}.json"
        if not path.exists() or not path.with_suffix(".predictions.jsonl").exists():
            return None
        result = read_result(path)
        return result if result.identity == key else None

    def run(
        self, plans: Sequence[Plan], *, debug: bool = False
    ) -> Iterator[tuple[Plan, Result | Failed]]:
        """Score every plan that is not done, writing each result as it is there.

        A task is scored while the next is encoded where the scorer has processes of its own; plans
        are yielded in their order all the same.

        Args:
            plans: from `plan`.
            debug: let unexpected errors through instead of reporting a failed task.
        """
        waiting: deque[tuple[Plan, Result | Failed | _Begun]] = deque()

        def write_what_is_scored() -> None:
            for _, each in waiting:
                if isinstance(each, _Begun) and each.pending.future.done():
                    self._end(each, debug)

        said = self.encoder.on_progress

        def on_progress(characters: int) -> None:
            said(characters)
            write_what_is_scored()

        self.encoder.on_progress = on_progress
        try:
            for plan in plans:
                begun = [each for _, each in waiting if isinstance(each, _Begun)]
                if len(begun) > self.scorer.processes:  # no more vectors in memory than need be
                    self._end(begun[0], debug)
                waiting.append((plan, plan.done or self._begin(plan, debug)))
                write_what_is_scored()
                while waiting and _is_ended(waiting[0][1]):
                    yield _ended(*waiting.popleft())
            while waiting:
                plan, each = waiting.popleft()
                if isinstance(each, _Begun):
                    self._end(each, debug)
                yield _ended(plan, each)
        except BaseException:
            write_what_is_scored()  # what is there is not lost
            raise
        finally:
            self.encoder.on_progress = said
        write_summary(self.folder, _suites(self.origin))

    def _begin(self, plan: Plan, debug: bool) -> Failed | _Begun:
        """Encode, and have it scored."""
        before = asdict(self.encoder.counts)
        start = time.perf_counter()
        try:
            vectors = self._encode(plan)
        except Exception as error:
            return _failed(plan, error, debug)
        finally:
            self.on_encoded(plan)
        seconds = time.perf_counter() - start
        after = asdict(self.encoder.counts)
        return _Begun(
            plan,
            self.scorer.submit(plan.task, plan.tables, vectors, self.seed),
            {name: after[name] - value for name, value in before.items()},
            next(iter(vectors.values())).shape[1],
            seconds,
        )

    def _end(self, begun: _Begun, debug: bool) -> None:
        """Wait for the score and write it, once."""
        if begun.ended is not None:
            return
        try:
            begun.ended = self._write(begun, self.scorer.result(begun.pending))
        except Exception as error:
            begun.ended = _failed(begun.plan, error, debug)

    def _write(self, begun: _Begun, scored: Scored) -> Result:
        plan, task, outcome = begun.plan, begun.plan.task, scored.outcome
        spec = self.encoder.spec
        result = Result(
            task=task.name,
            kind=task.kind.value,
            metric=task.metric,
            score=outcome.score,
            model=spec.model,
            identity=plan.identity,
            seed=self.seed,
            data={
                "origin": self.origin.name,
                "splits": {
                    split: {"rows": table.num_rows, "digest": plan.digests[split]}
                    for split, table in plan.tables.items()
                },
            },
            spec=spec.to_json(),
            spec_digest=spec.digest,
            outcome=outcome_fields(outcome),
            counts=begun.counts,
            protocol={
                "version": VERSION,
                "dimensions": begun.dimensions,
                "interval": f"percentile bootstrap over test rows, {RESAMPLES} resamples, seed 0",
            },
            seconds={
                "load": round(plan.seconds, 3),
                "encode": round(begun.seconds, 3),
                "score": round(scored.seconds, 3),
            },
            environment={**_versions(), **self.encoder.environment},
            finished=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            notes=[*self.encoder.notes, *outcome.notes, *self._notes(task, begun.counts)],
        )
        write_result(self.folder, result, outcome)
        write_summary(self.folder, _suites(self.origin))
        return result

    def to_encode(self, plan: Plan) -> int:
        """Characters whose vectors are not kept yet."""
        return sum(
            len(text)
            for role, splits in _by_role(plan).items()
            for text in self.encoder.to_encode(_joined(splits), role)
        )

    def estimate(self, plan: Plan) -> Estimate | None:
        """What encoding a task would cost, where it costs money."""
        total: Estimate | None = None
        for role, splits in _by_role(plan).items():
            cost = self.encoder.estimate(_joined(splits), role)
            if cost is not None:
                total = cost if total is None else total + cost
        return total

    def _encode(self, plan: Plan) -> dict[str, Vectors]:
        """Vectors by split; the texts of a role go through the model together."""
        vectors: dict[str, Vectors] = {}
        for role, splits in _by_role(plan).items():
            texts = _joined(splits)
            try:
                whole = checked(self.encoder.encode(texts, role), len(texts))
            except NotFiniteError as error:
                split, row = _place(splits, error.row)
                raise NotFiniteError(error.model, row, dtype=error.dtype, split=split) from error
            start = 0
            for split, part in splits.items():
                vectors[split] = whole[start : start + len(part)]
                start += len(part)
        widths = {split: found.shape[1] for split, found in vectors.items()}
        if len(set(widths.values())) > 1:
            raise ModelError(f"vectors differ in length between splits: {widths}")
        return quantized(vectors, plan.task.kind, self.encoder.spec.precision)

    def _notes(self, task: Task, counts: dict[str, int]) -> list[str]:
        notes = [NOTICE] if self.origin.name == SAMPLE else []
        if not is_verified(task, self.origin):
            notes.append("warning: rows not verified, neither card nor manifest has their digest")
        if counts["truncated"]:
            limit = self.encoder.spec.max_length
            notes.append(f"{counts['truncated']} texts cut at {limit} tokens")
        if counts["blank"]:
            notes.append(f"{counts['blank']} blank texts have the zero vector")
        if counts["not_nfc"]:
            notes.append(f"warning: {counts['not_nfc']} texts are not in Unicode NFC")
        if self.encoder.store is not None:
            notes += self.encoder.store.notes
        return notes


def checked(vectors: object, rows: int) -> Vectors:
    """Vectors as every protocol needs them: float32, one row a text, finite.

    Raises:
        ModelError: they are not; the message names the first bad row.
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or len(array) != rows or not array.shape[1] or array.dtype.kind not in "fiu":
        raise ModelError(
            f"the encoder gave an array of shape {array.shape} and type {array.dtype}, expected "
            f"({rows}, dimensions) of real numbers"
        )
    with np.errstate(over="ignore"):  # what is too large for float32 is infinite, and told below
        narrow = array.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(narrow).all(axis=1))
    if len(bad):
        raise NotFiniteError("the encoder", int(bad[0]), dtype="float32")
    return narrow


def _by_role(plan: Plan) -> dict[Role, dict[str, list[str]]]:
    """The texts of a task: role -> split -> texts."""
    roles: dict[Role, dict[str, list[str]]] = {}
    for split, (role, texts) in inputs(plan.task, plan.tables).items():
        roles.setdefault(role, {})[split] = texts
    return roles


def _joined(splits: Mapping[str, Sequence[str]]) -> list[str]:
    return [text for texts in splits.values() for text in texts]


def _place(splits: Mapping[str, Sequence[str]], row: int) -> tuple[str, int]:
    """The split of a row of all splits, and its row there."""
    for split, texts in splits.items():
        if row < len(texts):
            return split, row
        row -= len(texts)
    raise IndexError(row)


def _suites(origin: Origin) -> dict[str, tuple[str, ...]]:
    known = suites()
    if origin.name == SAMPLE:
        return {SAMPLE: known[SAMPLE]}
    return {name: tasks for name, tasks in known.items() if name != SAMPLE}


def _is_ended(each: Result | Failed | _Begun) -> bool:
    return not isinstance(each, _Begun) or each.ended is not None


def _ended(plan: Plan, each: Result | Failed | _Begun) -> tuple[Plan, Result | Failed]:
    result = each.ended if isinstance(each, _Begun) else each
    assert result is not None
    return plan, result


def _failed(plan: Plan, error: Exception, debug: bool) -> Failed:
    """The task as failed; a fault of the request, which all tasks share, goes on."""
    if debug or isinstance(error, UsageError):
        raise error
    return Failed(plan.task.name, _reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, JfintebError):
        return str(error)
    first = next((line for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {first.strip()} (--debug shows where)"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
