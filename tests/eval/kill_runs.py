"""Kill a run at random moments, until it ends; compare what is left with an undisturbed run.

    python tests/eval/kill_runs.py MODEL WORK --kills 200

Every child is forked from a process that has imported everything but run nothing, runs `jfinteb
run` on a few sample tasks with one cache, and is sent SIGKILL after a random time. When a child
ends by itself, results, predictions and cached vectors must be those of an undisturbed run, to the
last bit; then it begins again from nothing. With `--at-once 2`, two children share the cache.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import jfinteb.eval.backends.transformers
import jfinteb.eval.protocols.classification
import jfinteb.eval.protocols.clustering
import jfinteb.eval.protocols.retrieval  # noqa: F401  (imported before the forks)
from jfinteb.eval.cli import main

TASKS = "chabsa,industry17,industry33,pfmt"
_TIMES = ("seconds", "finished", "counts", "notes")


def child(model: str, work: Path, output: str) -> int:
    """Start a run in a fork; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            places = ["--cache", str(work / "cache"), "--output", str(work / output)]
            what = ["--suite", "sample", "--tasks", TASKS, "--batch-tokens", "512"]
            code = main(["run", "--model", model, *what, *places])
    finally:
        os._exit(code)


def ended(pid: int) -> int | None:
    """The exit code of a child that has ended by itself."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def left(work: Path, output: str) -> dict[str, Any]:
    """What a run leaves, without what is allowed to differ: times, and what came from the cache."""
    found: dict[str, Any] = {}
    for path in sorted((work / output).rglob("[!.]*.json*")):  # a killed write leaves .name
        if path.name.endswith(".jsonl"):
            found[path.name] = path.read_text(encoding="utf-8")
        elif path.name != "summary.json":
            values = json.loads(path.read_text(encoding="utf-8"))
            found[path.name] = {k: v for k, v in values.items() if k not in _TIMES}
    (file,) = (work / "cache").glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        found["vectors"] = connection.execute(
            "SELECT key, tokens, truncated, vector FROM vectors ORDER BY key"
        ).fetchall()
    return found


def whole(model: str, work: Path) -> tuple[dict[str, Any], float]:
    """An undisturbed run and its seconds."""
    start = time.perf_counter()
    _, status = os.waitpid(child(model, work, "out"), 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the undisturbed run failed"
    return left(work, "out"), time.perf_counter() - start


def disturbed(model: str, work: Path, seconds: float, at_once: int, chance: random.Random) -> int:
    """Kill children until each of `at_once` runs has ended by itself; returns the kills."""
    kills = 0
    open_runs = [f"out{n}" for n in range(at_once)]
    while open_runs:
        pids = {name: child(model, work, name) for name in open_runs}
        deadline = time.monotonic() + chance.uniform(0.0, 0.8 * seconds)
        while pids and time.monotonic() < deadline:
            for name, pid in list(pids.items()):
                code = ended(pid)
                if code is not None:
                    assert code == 0, f"a run after {kills} kills ended with {code}"
                    open_runs.remove(name)
                    del pids[name]
            time.sleep(0.005)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            kills += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    return kills


def run(model: str, work: Path, kills: int, at_once: int, seed: int) -> int:
    """Rounds until so many children were killed; returns the number of rounds."""
    expected, seconds = whole(model, work / "undisturbed")
    chance = random.Random(seed)
    killed = rounds = 0
    while killed < kills:
        place = work / f"round{rounds}"
        killed += disturbed(model, place, seconds, at_once, chance)
        for n in range(at_once):
            found = left(place, f"out{n}")
            different = [name for name in expected if found.get(name) != expected[name]]
            assert not different and found.keys() == expected.keys(), (
                f"round {rounds}: {', '.join(different) or 'files'} differ from the undisturbed run"
            )
        shutil.rmtree(place)
        rounds += 1
    print(f"{killed} kills in {rounds} rounds, {at_once} at once, {seconds:.1f} s undisturbed")
    return rounds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sys.exit(0 if run(args.model, args.work, args.kills, args.at_once, args.seed) else 1)
