"""Nothing that was answered is asked again: after a kill, an interrupt, a fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jfinteb.eval.backends.api.fingerprint import PROBE
from jfinteb.eval.cache import DiskStore
from jfinteb.eval.store import keys_of
from jfinteb.loaders.task import Role

from .proxy import Server, late, no_keys, opened, own_server, vectors_of  # noqa: F401

TEXTS = [f"第{n:03}期の売上高" for n in range(120)]
INPUTS, CONCURRENCY = 4, 3
PROGRAM = """
import json, sys
from pathlib import Path
from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.cache import DiskStore

url, folder, texts, settings = json.loads(sys.argv[1])
options = EncoderOptions(model="hash-8", backend="api", settings={"base_url": url, **settings})
encoder = open_encoder(options)
encoder.load()
encoder.store = DiskStore(Path(folder), encoder.spec, encoder.environment)
try:
    encoder.encode(texts, "query")
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(server: Server, folder: Path, **settings: object) -> subprocess.Popen[bytes]:
    common = {"inputs": INPUTS, "concurrency": CONCURRENCY}
    arguments = json.dumps([server.url, str(folder), TEXTS, {**common, **settings}])
    return subprocess.Popen([sys.executable, "-c", PROGRAM, arguments], env=dict(os.environ))


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert process.poll() is None, "the run ended before it was stopped"
        assert time.monotonic() < until, "the run did not get that far"
        time.sleep(0.01)


def rerun(server: Server, folder: Path) -> set[str]:
    """Go on in this process, look at the vectors; texts that had been kept before."""
    encoder = opened(server, inputs=INPUTS, concurrency=CONCURRENCY)
    encoder.identify()
    encoder.store = store = DiskStore(folder, encoder.spec, encoder.environment)
    missing = store.missing(keys_of(encoder.spec, Role.QUERY, TEXTS))
    np.testing.assert_array_equal(encoder.encode(TEXTS, "query"), vectors_of(TEXTS))
    store.close()
    return {text for text, absent in zip(TEXTS, missing, strict=True) if not absent}


def test_killed_midway(server: Server, tmp_path: Path) -> None:
    server.delay = 0.1
    process = start(server, tmp_path)
    wait_for(lambda: len(server.answered) > 40, process)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    time.sleep(0.5)  # what the server has begun it ends
    before = server.asked
    server.delay = 0
    kept = rerun(server, tmp_path)
    again = server.asked - before
    assert len(kept) > 20
    assert not kept & set(again)  # what was kept is not asked again
    lost = {text for text in TEXTS if server.asked[text] > 1}
    assert len(lost) <= INPUTS * CONCURRENCY  # at most what was under way
    assert set(again) == {*TEXTS, PROBE} - kept


def test_interrupted_midway(server: Server, tmp_path: Path) -> None:
    """What is under way is waited for: not one text is paid twice."""
    server.delay = 0.3
    process = start(server, tmp_path)
    wait_for(lambda: len(server.answered) > 20, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert len(server.answered) < len(TEXTS)
    assert server.most == CONCURRENCY
    server.delay = 0
    rerun(server, tmp_path)
    assert server.answered == {**dict.fromkeys(TEXTS, 1), PROBE: 2}
    assert server.asked == server.answered


def test_interrupted_twice_does_not_wait(server: Server, tmp_path: Path) -> None:
    process = start(server, tmp_path)
    wait_for(lambda: len(server.answered) > 1, process)
    server.faults = [late(60)] * 10
    wait_for(lambda: len(server.faults) <= 10 - CONCURRENCY, process)
    process.send_signal(signal.SIGINT)
    time.sleep(1.5)
    assert process.poll() is None  # it waits for what is under way
    process.send_signal(signal.SIGINT)
    start_of_wait = time.monotonic()
    assert process.wait(10) == 130
    assert time.monotonic() - start_of_wait < 6


def test_an_interrupt_ends_a_back_off(server: Server, tmp_path: Path) -> None:
    """`Retry-After: 100` holds nobody who wants to leave for longer than the 10 seconds."""
    from .proxy import status

    process = start(server, tmp_path)
    wait_for(lambda: len(server.answered) > 1, process)
    server.faults = [status(429, Retry_After="100")] * 50
    wait_for(lambda: len(server.faults) <= 50 - CONCURRENCY, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_second_run_sends_the_probe_alone(
    server: Server, tmp_path: Path, concurrency: int
) -> None:
    for _ in range(2):
        encoder = opened(server, concurrency=concurrency, inputs=7)
        encoder.identify()
        encoder.store = store = DiskStore(tmp_path, encoder.spec, encoder.environment)
        np.testing.assert_array_equal(encoder.encode(TEXTS, "query"), vectors_of(TEXTS))
        store.close()
    assert server.asked == {**dict.fromkeys(TEXTS, 1), PROBE: 2}
