"""What CONTRIBUTING.md shows of adding a task is done here to the letter, in a copy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
GOOD = ("増収となった", "客数が伸びた", "受注が増えた", "利益が出た", "求人が増えた")
BAD = ("減収となった", "客数が落ちた", "受注が減った", "損失が出た", "求人が減った")
MODULE = """
import runpy, sys
sys.path.insert(0, "eval")
import run
run.bootstrap()
name, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""


def block(language: str, start: str) -> str:
    """The code block of a language that begins with `start`."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    (found,) = [each for each in blocks if each.startswith(start)]
    return found


def run(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, capture_output=True, text=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_adding_a_task(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for room in ("build", "dataset_cards", "eval", "loaders"):
        shutil.copytree(ROOT / room, tree / room)
    (tree / "dataset_cards" / "branch_notes.md").write_text(
        block("markdown", "---\npretty_name"), encoding="utf-8"
    )
    (tree / "build" / "sources" / "branch_notes.py").write_text(
        block("python", '"""Branch notes'), encoding="utf-8"
    )
    parsers = tree / "build" / "sources" / "__init__.py"
    line = block("python", '    "branch_notes"')
    text = parsers.read_text(encoding="utf-8")
    text = text.replace("sources import ", "sources import branch_notes, ", 1)
    text, count = re.subn(r"(PARSERS: .*= \{\n)", rf"\1{line}", text)
    assert count == 1
    parsers.write_text(text, encoding="utf-8")

    rows = ["split,id,text,label"]
    for n, texts in enumerate(zip(GOOD, BAD, strict=True)):
        split = ("train", "train", "train", "validation", "test")[n]
        rows += [f"{split},{split}-{n}-{label},{text},{label}"
                 for label, text in zip(("good", "bad"), texts, strict=True)]  # fmt: skip
    (tree / "raw" / "branch").mkdir(parents=True)
    (tree / "raw" / "branch" / "notes.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    commands = re.findall(r"^    python (.*branch_notes.*|.*audit hub)$", TEXT, re.MULTILINE)
    build, audit, score = (command.split() for command in commands)
    run(tree, "-c", MODULE, *build[1:])
    run(tree, "-c", MODULE, *audit[1:])
    run(tree, *score)

    manifest = json.loads((tree / "hub" / "manifest.json").read_text(encoding="utf-8"))
    entries = dict(manifest["branch_notes"])
    assert entries.pop("raw").keys() == {"branch/notes.csv"}
    assert {split: entry["rows"] for split, entry in entries.items()} == {
        "train": 6,
        "validation": 2,
        "test": 2,
    }
    (result,) = (tree / "results").rglob("branch_notes.json")
    assert json.loads(result.read_text(encoding="utf-8"))["kind"] == "classification"
