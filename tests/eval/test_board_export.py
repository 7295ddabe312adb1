"""Boards for machines: every value is there, per row, and reads back as it was."""

from __future__ import annotations

import csv
import io
import json

from jfinteb.eval.board_export import to_csv, to_json
from jfinteb.eval.leaderboard import boards

from .results import SPEC, result, run

PROMPTS = {**SPEC["prompts"], "query": '検索, "クエリ":\n'}
RUNS = [
    run(
        result("chabsa", 0.5, half=0.25, environment={"torch": "2.12.0"}),
        result("ews_reason", 0.25, seeds=1, environment={"torch": "2.12.0"}),
    ),
    run(
        result("chabsa", 0.75, half=0.125, model="日本/モデル", spec={**SPEC, "prompts": PROMPTS}),
        result("ews_reason", 0.5, half=0.125, seeds=5, model="日本/モデル", seed=7),
        folder="g",
    ),
]
BOARDS = boards(RUNS, suite=None, chosen=False)


def test_json_has_the_rows_in_order_with_all_of_every_score() -> None:
    (board,) = json.loads(to_json(BOARDS))["boards"]
    assert board["suite"] == "jfinteb" and board["common_tasks"] == ["chabsa", "ews_reason"]
    two, one = board["runs"]  # best first
    assert (one["model"], one["common"], one["averages"]["all"]) == ("org/a", 0.375, None)
    assert (two["model"], two["common"], two["folder"]) == ("日本/モデル", 0.625, "g")
    assert two["spec"]["prompts"] == PROMPTS
    assert one["scores"]["chabsa"]["environment"] == {"torch": "2.12.0"}
    found = [
        [s[key] for key in ("score", "low", "high", "bounds", "seed")]
        for r in (one, two)
        for s in r["scores"].values()
    ]
    assert found == [
        [0.5, 0.25, 0.75, "interval", 0],
        [0.25, None, None, None, 0],
        [0.75, 0.625, 0.875, "interval", 0],
        [0.5, 0.375, 0.625, "seeds", 7],
    ]


def test_csv_has_a_line_a_score_with_versions_and_spec() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(BOARDS), newline="")))
    assert [(x["model"], x["task"], float(x["score"])) for x in lines] == [
        ("日本/モデル", "chabsa", 0.75),
        ("日本/モデル", "ews_reason", 0.5),
        ("org/a", "chabsa", 0.5),
        ("org/a", "ews_reason", 0.25),
    ]
    assert [x["environment.torch"] for x in lines] == ["2.13.0"] * 2 + ["2.12.0"] * 2
    assert [x["low"] for x in lines] == ["0.625", "0.375", "0.25", ""]
    assert lines[0]["spec.prompts.query"] == PROMPTS["query"]
    assert lines[0]["data.splits.test.digest"] == "rows"
    assert {x["averages.all"] for x in lines} == {""}
