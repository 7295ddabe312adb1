"""The paper's protocols: validation chooses a setting, test is scored once with it.

A protocol sees vectors, never a model. Settings are tried in a fixed order and a later one wins
only with a higher validation score.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jfinteb.eval.outcome import Outcome
from jfinteb.loaders.task import CORPUS, Kind, Role, Task

if TYPE_CHECKING:
    import pyarrow as pa

    from jfinteb.eval.encoder import Vectors

__all__ = ["VERSION", "inputs", "load_protocols", "score"]

# Raised when the same vectors start to give other scores: older results are then computed again.
VERSION = 2


def score(
    task: Task, tables: Mapping[str, pa.Table], vectors: Mapping[str, Vectors], seed: int
) -> Outcome:
    """Score vectors by the protocol of the task's kind, `jfinteb.eval.protocols.<kind>`.

    Args:
        task: the task.
        tables: rows of every split.
        vectors: one float32 vector a row, by split.
        seed: first seed of what draws random numbers.
    """
    outcome: Outcome = _protocol(task.kind).run(task, tables, vectors, seed)
    return outcome


def load_protocols() -> None:
    """Import what scoring needs, which takes seconds, before a time is taken."""
    for kind in Kind:
        _protocol(kind)


def _protocol(kind: Kind) -> Any:
    # imported when used: `evaluate`, under the metrics, takes seconds that a dry run need not pay
    return importlib.import_module(f"{__name__}.{kind}")


def inputs(task: Task, tables: Mapping[str, pa.Table]) -> dict[str, tuple[Role, list[str]]]:
    """What must be encoded: split -> the role of its texts, and the texts."""
    found: dict[str, tuple[Role, list[str]]] = {}
    for split, table in tables.items():
        if task.kind is not Kind.RETRIEVAL:
            found[split] = (Role(task.kind.value), table.column("text").to_pylist())
        elif split == CORPUS:
            found[split] = (Role.DOCUMENT, table.column("text").to_pylist())
        else:
            found[split] = (Role.QUERY, table.column("query").to_pylist())
    return found
