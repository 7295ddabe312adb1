"""What a run says of itself where nobody watches a bar."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from jfinteb.eval.shown import Heartbeat, progress_bar


@pytest.mark.parametrize("terminal", [False, True])
def test_a_line_a_minute_in_a_log(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("jfinteb.eval.shown.time.monotonic", lambda: now)
    out = io.StringIO()
    progress = progress_bar(Console(file=out, force_terminal=terminal))
    bar = progress.add_task("ews_reason", total=200)
    heartbeat = Heartbeat(progress)
    for second in range(0, 150, 10):
        now = 1000.0 + second
        progress.advance(bar, 10)
        heartbeat()
    lines = out.getvalue().splitlines()
    if terminal:
        assert lines == []
    else:  # after 60 and 120 seconds, with 70 and 130 of 200 done
        assert [line.split(",")[0] for line in lines] == [
            "ews_reason: 35 % of all texts",
            "ews_reason: 65 % of all texts",
        ]
