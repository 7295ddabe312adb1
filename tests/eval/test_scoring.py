"""Scoring beside encoding: the same results in the same order, written as soon as there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.backends.base import Flags, Rows
from jfinteb.eval.outcome import Outcome
from jfinteb.eval.result import Failed, run_digest
from jfinteb.eval.runner import Runner
from jfinteb.eval.scoring import Pending, Scored, Scorer
from jfinteb.eval.session import scoring_processes
from jfinteb.eval.store import Embedded
from jfinteb.loaders.data import open_origin
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.processes import cores
from jfinteb.loaders.task import Role, get_task

from .test_runner import CountingEncoder, folder_of, run

SMALL = ("chabsa", "ews_horizon", "ews_reason", "pfmt")
_VARY = ("finished", "seconds")


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    """Two processes."""
    found = Scorer(2)
    yield found
    found.close()


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "it did not happen within a minute"
        time.sleep(0.02)


def files(output: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder_of(output).iterdir()):
        text = path.read_text(encoding="utf-8")
        found[path.name] = text
        if path.suffix == ".json":
            found[path.name] = {k: v for k, v in json.loads(text).items() if k not in _VARY}
    return found


def test_where_a_task_is_scored_changes_nothing(tmp_path: Path, scorer: Scorer) -> None:
    here = run(tmp_path / "here", SMALL)
    there = run(tmp_path / "there", SMALL, scorer=scorer)
    assert list(here) == list(there) == sorted(SMALL)
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert not any(isinstance(result, Failed) for result in there.values())


class Waiting(CountingEncoder):
    """In the middle of a task, waits until the task before it has been scored and written."""

    def __init__(self, result: Path, after: int) -> None:
        super().__init__()
        self.result, self.left = result, after

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        yield from super().stream(strings, missing, role)
        self.left -= 1
        if self.left == 0:

            def written() -> bool:
                self.on_progress(0)
                return self.result.exists()

            until(written)


def test_a_result_is_written_while_the_next_task_is_encoded(tmp_path: Path, scorer: Scorer) -> None:
    lexical = CountingEncoder()
    run_name = run_digest(lexical.spec, lexical.environment)[:12]
    result = tmp_path / "sample" / "jfinteb__lexical" / run_name / "chabsa.json"
    encoder = Waiting(result, after=2)
    assert list(run(tmp_path, ["chabsa", "ews_horizon"], encoder, scorer=scorer)) == [
        "chabsa",
        "ews_horizon",
    ]
    assert encoder.left == 0


def test_a_task_that_cannot_be_scored_stops_no_other(tmp_path: Path, scorer: Scorer) -> None:
    runner = Runner(CountingEncoder(), open_origin("sample"), tmp_path, scorer=scorer)
    plans, _ = runner.plan([get_task(name) for name in SMALL])
    reason = plans[2]
    assert reason.task.name == "ews_reason"
    for split, table in reason.tables.items():  # a single label: V-measure would say nothing
        at = table.schema.get_field_index("label")
        one = table.column("label").to_pylist()[:1] * table.num_rows
        reason.tables[split] = table.set_column(at, table.schema.field(at), [one])
    found = {plan.task.name: result for plan, result in runner.run(plans)}
    assert [name for name, result in found.items() if isinstance(result, Failed)] == ["ews_reason"]
    failed = found["ews_reason"]
    assert isinstance(failed, Failed) and "expected two labels" in failed.reason


def _die() -> Scored:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _live() -> Scored:
    return Scored(Outcome(score=1, scores={}, chosen="", validation={}, predictions=()), 0.0)


def test_a_killed_process_fails_its_task_and_no_other() -> None:
    scorer = Scorer(1)
    try:
        pending = [Pending(job, scorer._submitted(job)) for job in (_live, _die, _live, _live)]
        assert scorer.result(pending[0]) == _live()
        with pytest.raises(JfintebError, match="the scoring process ended by itself"):
            scorer.result(pending[1])
        assert [scorer.result(each) for each in pending[2:]] == [_live()] * 2
        with pytest.raises(JfintebError, match="the scoring process ended by itself"):
            scorer.result(Pending(_die, scorer._submitted(_die)))
        assert scorer.result(Pending(_live, scorer._submitted(_live))) == _live()
    finally:
        scorer.close()


def _sleep() -> Scored:
    time.sleep(60)
    return _live()


def test_a_scorer_that_is_closed_waits_for_nobody() -> None:
    scorer = Scorer(1)
    pending = Pending(_sleep, scorer._submitted(_sleep))
    until(pending.future.running)
    start = time.monotonic()
    scorer.close()
    assert time.monotonic() - start < 20


class Interrupted(CountingEncoder):
    """A second task that is interrupted once the first has been scored."""

    futures: ClassVar[list[Future[Scored]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.tasks = 0

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        self.tasks += 1
        if self.tasks == 2:
            assert self.futures
            until(self.futures[0].done)
            raise KeyboardInterrupt
        yield from super().stream(strings, missing, role)


def test_an_interrupt_loses_no_score_that_is_there(tmp_path: Path) -> None:
    class Spied(Scorer):
        def submit(self, *arguments: Any) -> Pending:
            pending = super().submit(*arguments)
            Interrupted.futures.append(pending.future)
            return pending

    scorer = Spied(1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, ["chabsa", "ews_horizon"], Interrupted(), scorer=scorer)
    finally:
        scorer.close()
    assert "chabsa.json" in {path.name for path in folder_of(tmp_path).iterdir()}


_PARENT = """
import sys, time
from jfinteb.loaders.processes import process_pool
import os
if __name__ == "__main__":
    pool = process_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert Path(f"/proc/{worker}").exists() or sys.platform != "linux"
    parent.kill()
    parent.wait()
    parent.stdout.close()

    def ended() -> bool:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return True
        return _is_zombie(worker)

    until(ended)


def _is_zombie(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("here", "idle", "encode", "rows", "expected"),
    [
        (1, True, False, [9000, 9000], 0),
        (2, False, True, [9000, 9000], 0),
        (2, True, True, [9000, 9000], 1),
        (4, False, True, [9000, 9000], 1),
        (2, False, False, [9000, 9000, 9000], 2),
        (64, False, False, [9000, 9000, 9000], 3),
        (64, True, True, [90_000], 0),
        (64, True, True, [90, 90], 0),
    ],
)
def test_processes_where_cores_allow(
    here: int,
    idle: bool,
    encode: bool,
    rows: list[int],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jfinteb.eval.session.cores", lambda: here)
    encoder = open_encoder(EncoderOptions(model="lexical", backend="lexical"))
    encoder.leaves_cores = idle
    assert scoring_processes(encoder, rows, encode=encode) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux tells affinities")
def test_cores_are_those_that_may_be_used() -> None:
    program = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "from jfinteb.loaders.processes import cores; print(cores())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "1"
    assert cores() >= 1
