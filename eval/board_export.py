"""Boards for machines: JSON with every row whole, CSV with a line a score."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jfinteb.eval.leaderboard import Board, Row, bounds
from jfinteb.eval.result import Result

__all__ = ["to_csv", "to_json"]

SCHEMA = 1


def to_json(boards: Sequence[Board]) -> str:
    """The boards in order, their rows in order."""
    shown = [
        {
            "title": board.title,
            "sample": board.sample,
            "suite": board.suite,
            "members": board.members,
            "tasks": board.tasks,
            "common_tasks": board.common,
            "remarks": board.remarks,
            "runs": [_run(row) for row in board.rows],
        }
        for board in boards
    ]
    return json.dumps({"schema": SCHEMA, "boards": shown}, ensure_ascii=False, indent=2) + "\n"


def _run(row: Row) -> dict[str, Any]:
    first = row.run.first
    return {
        "model": first.model,
        "settings": row.label.settings,
        "folder": row.run.folder,
        "spec_digest": first.spec_digest,
        "spec": first.spec,
        "averages": row.means,
        "common": row.common,
        "scores": {name: _score(result) for name, result in row.run.results.items()},
    }


def _score(result: Result) -> dict[str, Any]:
    """What one score is and what it was made with; `bounds` says what low and high are."""
    found = bounds(result)
    return {
        "kind": result.kind,
        "metric": result.metric,
        "score": result.score,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "bounds": None if found is None else "seeds" if found.seeds else "interval",
        "chosen": result.outcome["chosen"],
        "seed": result.seed,
        "protocol": result.protocol,
        "data": result.data,
        "environment": result.environment,
        "finished": result.finished,
        "notes": result.notes,
    }


def to_csv(boards: Sequence[Board]) -> str:
    """A line a score. Columns of nested values are named by path, such as `environment.torch`."""
    lines = [
        _flat(
            {
                "board": number,
                "sample": board.sample,
                "row": place,
                "task": name,
                **{key: v for key, v in _run(row).items() if key not in ("scores", "settings")},
                **_score(result),
            }
        )
        for number, board in enumerate(boards, 1)
        for place, row in enumerate(board.rows, 1)
        for name, result in row.run.results.items()
    ]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one; lists joined by lines."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = "\n".join(map(str, value)) if _many(value) else value
    return found


def _many(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
