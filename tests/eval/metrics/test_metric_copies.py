"""Helpers repeated in the self-contained metric folders stay identical; the folders stay alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jfinteb.eval.metrics

METRICS = Path(jfinteb.eval.metrics.__file__).parent
RANK = ["ndcg_at_k", "mrr_at_k", "hit_rate_at_k", "recall_at_k", "map_at_k"]
LABEL = ["accuracy", "macro_f1", "v_measure"]
SHARED = {
    "check_queries": RANK,
    "relevant_ranks": RANK,
    "mean_score": RANK,
    "plain_labels": LABEL,
    "paired": LABEL,
    "check_format": LABEL,
    "comparable": ["accuracy", "macro_f1"],
    "add": RANK + LABEL,
}


def source(name: str) -> str:
    return (METRICS / name / f"{name}.py").read_text(encoding="utf-8")


def functions(name: str) -> Iterator[tuple[str, str]]:
    text = source(name)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_source_segment(text, node) or ""


def test_every_folder_is_known_here() -> None:
    assert sorted(path.parent.name for path in METRICS.glob("*/README.md")) == sorted(RANK + LABEL)


@pytest.mark.parametrize("function", [name for name in SHARED if name != "add"])
def test_the_copies_of_a_helper_are_identical(function: str) -> None:
    copies = {name: dict(functions(name))[function] for name in SHARED[function]}
    assert len(set(copies.values())) == 1, f"{function} differs between {sorted(copies)}"


@pytest.mark.parametrize("method", ["add", "add_batch"])
@pytest.mark.parametrize("group", [RANK, ["accuracy", "macro_f1"]], ids=["rank", "label"])
def test_the_copies_of_a_guard_are_identical(group: list[str], method: str) -> None:
    assert len({dict(functions(name))[method] for name in group}) == 1


@pytest.mark.parametrize("name", RANK + LABEL)
def test_imports_are_what_evaluate_can_read_and_no_sibling(name: str) -> None:
    allowed = {"__future__", "collections", "datasets", "evaluate", "math", "numbers", "numpy"}
    allowed |= {"sklearn", "typing"}
    lines = [line for line in source(name).splitlines() if re.match(r"\s*(import|from)\s", line)]
    for line in lines:
        # evaluate.load parses lines, not syntax: no comment, no indentation, one module each
        match = re.fullmatch(r"(?:import (\w+)|from (\w+)[\w.]* import \w+(?:, \w+)*)", line)
        assert match, line
        assert (match[1] or match[2]) in allowed, line
    nodes = list(ast.walk(ast.parse(source(name))))
    assert len(lines) == sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)


@pytest.mark.parametrize("name", RANK + LABEL)
def test_the_only_metric_class_is_what_evaluate_finds(name: str) -> None:
    classes = [node for node in ast.parse(source(name)).body if isinstance(node, ast.ClassDef)]
    assert [[ast.unparse(base) for base in node.bases] for node in classes] == [["evaluate.Metric"]]
