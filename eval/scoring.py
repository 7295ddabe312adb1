"""Scoring of tasks whose vectors are there, beside the encoding of the next."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.outcome import Outcome
from jfinteb.eval.protocols import load_protocols, score
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.processes import process_pool
from jfinteb.loaders.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Pending", "Scored", "Scorer"]

_LARGE = 1 << 28  # bytes of vectors from which handing them over costs more than it saves


@dataclass(frozen=True, slots=True)
class Scored:
    """What a protocol returned, and how long it took."""

    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Pending:
    """A task that is being scored."""

    job: Callable[[], Scored]
    future: Future[Scored]


class Scorer:
    """Scores in other processes, or at once in this one; equal results either way.

    Args:
        processes: how many; 0: score in this process.
    """

    def __init__(self, processes: int = 0) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def submit(
        self,
        task: Task,
        tables: Mapping[str, pa.Table],
        vectors: Mapping[str, Vectors],
        seed: int,
    ) -> Pending:
        """Have a task scored, see `jfinteb.eval.protocols.score`."""
        job = functools.partial(_score, task, dict(tables), dict(vectors), seed)
        large = sum(found.nbytes for found in vectors.values()) >= _LARGE
        if self.processes and not large:
            return Pending(job, self._submitted(job))
        done: Future[Scored] = Future()
        try:
            done.set_result(job())
        except Exception as error:
            done.set_exception(error)
        return Pending(job, done)

    def result(self, pending: Pending) -> Scored:
        """Wait for the outcome.

        When a process dies, all that waited for it fails; each task is tried once more.

        Raises:
            JfintebError: the process that scored it ended by itself twice.
        """
        try:
            return pending.future.result()
        except BrokenProcessPool:
            self.close()
        try:
            return self._submitted(pending.job).result()
        except BrokenProcessPool as error:
            self.close()
            raise JfintebError(
                "the scoring process ended by itself, perhaps for lack of memory; run again"
            ) from error

    def close(self) -> None:
        """End the processes, also one that is scoring still, for nobody any more."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)

    def _submitted(self, job: Callable[[], Scored]) -> Future[Scored]:
        for _ in range(2):
            if self._pool is None:
                self._pool = process_pool(self.processes, _begin)
            try:
                return self._pool.submit(job)
            except BrokenProcessPool:  # died since, with nothing to do
                self.close()
        raise JfintebError("no process can be started to score in; free memory, then run again")


def _begin() -> None:
    """Import what scoring needs, before a time is taken.

    `evaluate`, under the metrics, would import transformers, and that torch: seconds, for pipelines
    that are not used here.
    """
    sys.modules.setdefault("transformers", None)  # type: ignore[arg-type]
    load_protocols()


def _score(
    task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors], seed: int
) -> Scored:
    start = time.perf_counter()
    # one thread: the same sums in the same order on every machine
    with threadpool_limits(limits=1):
        outcome = score(task, tables, vectors, seed)
    return Scored(outcome, time.perf_counter() - start)
