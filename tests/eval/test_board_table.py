"""Tables of many runs in a terminal: what stands in them, and that nothing is cut off."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from jfinteb.eval.board_table import print_boards
from jfinteb.eval.leaderboard import boards
from jfinteb.eval.runs import ScoredRun
from jfinteb.eval.table import runs_table
from jfinteb.loaders.task import get_task, suites

from .results import SPEC, result, run

SUITE = suites()["jfinteb"]


def printed(*runs: ScoredRun, width: int = 200, intervals: bool | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_boards(console, boards(runs, suite=None, chosen=False), intervals)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(lines: list[str], number: int) -> list[str]:
    (found,) = (line.split() for line in lines if line.split()[:1] == [str(number)])
    return found


def test_a_row_a_run_with_means_and_dashes() -> None:
    one = run(*(result(t, 0.5, model="org/a") for t in SUITE))
    two = run(result("chabsa", 0.25, model="b"), result("pfmt", 0.5, model="b"))
    lines = printed(one, two)
    heads = next(line.split() for line in lines if line.startswith("#"))
    assert heads[:3] == ["#", "run", "average"]
    assert row(lines, 1) == ["1", "org/a", *["0.5000"] * (4 + len(SUITE))]
    cells = row(lines, 2)
    assert cells[:6] == ["2", "b", "–", "0.3750", "–", "–"]  # common: (0.25 + 0.5) / 2
    assert sorted(cells[6:]) == ["0.2500", "0.5000", *["–"] * (len(SUITE) - 2)]
    assert "common: over chabsa, pfmt, which all 2 runs have on equal rows" in lines


def test_intervals_stand_where_there_is_room_or_where_asked() -> None:
    one = run(result("chabsa", 0.5, half=0.125), result("ews_reason", 0.5, seeds=5))
    wide, narrow = printed(one), printed(one, width=40)
    for lines in (wide, printed(one, width=40, intervals=True)):
        text = " ".join(lines)
        assert "0.3750–0.6250" in text and "0.4900–0.5100 *" in text
        assert "*: lowest and highest score over seeds" in lines
    for lines in (narrow, printed(one, intervals=False)):
        assert not any("0.3750" in line or line.startswith("*") for line in lines)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("intervals", [None, True])
def test_no_width_cuts_a_score_or_a_name(width: int, intervals: bool | None) -> None:
    model = "an-organisation/a-model-with-a-long-name-v3-日本語"
    scores = {task: 0.1 + i / 1000 for i, task in enumerate(SUITE)}
    specs = [{**SPEC, "pooling": name} for name in ("mean", "cls")]
    runs = [
        run(*(result(t, s, model=model, spec=spec, digest=d * 64) for t, s in scores.items()))
        for spec, d in zip(specs, "12", strict=True)
    ]
    lines = printed(*runs, width=width, intervals=intervals)
    text = "\n".join(lines)
    assert all(f"{score:.4f}" in text for score in scores.values())
    assert "…" not in text and "cls" in text and "222222222222" in text
    assert "v3-日本語" in text.replace("\n", "").replace(" ", "")


def test_markup_and_control_characters_in_names_are_text() -> None:
    lines = printed(run(result("chabsa", 0.5, model="[red]x[/]\x1b[31m")))
    assert row(lines, 1)[1] == "[red]x[/]\ufffd[31m"


def test_several_ways_to_use_one_model_keep_the_order_asked_for() -> None:
    tasks = [get_task("chabsa"), get_task("pfmt")]
    results = [
        result(task.name, score, digest=digest * 64, spec={**SPEC, "pooling": pooling})
        for pooling, digest, score in [("cls", "2", 0.25), ("mean", "1", 0.75)]
        for task in tasks
    ]
    console = Console(file=io.StringIO(), width=100)
    for table in runs_table(results, tasks, whole=True, width=100):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.index("pooling cls") < text.index("pooling mean")
    assert "average" in text
    (table,) = runs_table(results, tasks, whole=False, width=100)
    assert [column.header for column in table.columns] == ["#", "run", "chabsa", "pfmt"]
