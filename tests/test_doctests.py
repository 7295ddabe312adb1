"""Doctests of every module, by module name: by path there would be a second copy of each class."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    ".".join(("jfinteb", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for room in ("build", "dataset_cards", "eval", "loaders")
    for path in (ROOT / room).rglob("*.py")
    if path.name != "__main__.py"
)


def examples(module: str) -> int:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return sum(len(test.examples) for test in finder.find(importlib.import_module(module)))


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0
    assert result.attempted == examples(module)


def test_some_are_found() -> None:
    assert examples("jfinteb.loaders.task") >= 3
    assert examples("jfinteb.build.split") == 1
