"""The README keeps its word: its table of tasks is that of the cards, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jfinteb.eval.cli import main
from jfinteb.loaders.task import get_suite

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_table_of_tasks_is_that_of_the_cards() -> None:
    rows = re.findall(
        r"^\| \[`(\w+)`\]\((.*?)\) \| (\w+) \| .*? \| (.*?) \| (.*?) \| (.*?) \|$", README, re.M
    )
    expected = [
        (
            task.name,
            f"dataset_cards/{task.name}.md",
            task.kind.value,
            str(len(task.labels) or "–"),
            " / ".join("–" if s.rows is None else f"{s.rows:,}" for s in task.splits.values()),
            task.license,
        )
        for task in get_suite("all")
    ]
    assert rows == expected


def test_every_option_it_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["run", "--help"], ["show", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    known |= {"--source", "--out", "--fetch", "--since", "--rows-per-label"}  # of the build command
    known |= {"--local-dir", "--strict"}  # of hf, of the audit
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert named
    assert named <= known
