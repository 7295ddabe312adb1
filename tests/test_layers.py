"""build -> loaders <- eval, read from the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("build", "eval", "loaders", "dataset_cards")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
FORBIDDEN = {"build": {"eval"}, "eval": {"build"}, "loaders": {"build", "eval"}}


def imported(path: Path) -> set[str]:
    """Dotted names of all imports of a file, also those inside functions."""
    names: set[str] = set()
    package = ["jfinteb", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def rooms(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("jfinteb.")}


def test_files_are_found() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(ROOMS)
    assert "jfinteb.loaders.task.Task" in imported(ROOT / "build" / "hub.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_layers(path: Path) -> None:
    room, *rest = path.relative_to(ROOT).parts
    names = imported(path)
    assert not rooms(names) & FORBIDDEN.get(room, set(ROOMS))
    assert not {name for name in names if name.split(".")[0] in (*ROOMS[:1], *ROOMS[2:], "tests")}
    if room == "eval" and rest[0] == "metrics" and len(rest) == 3 and rest[2] != "__init__.py":
        assert not {name for name in names if name.startswith("jfinteb")}  # loads from anywhere
