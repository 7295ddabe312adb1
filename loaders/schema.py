"""The logical form of a split: its features, its content digest, and what its rows must satisfy."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import CORPUS, Kind, Task

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Features

__all__ = ["arrow_schema", "check_relevance", "content_digest", "features", "make_table", "verify"]


def features(task: Task, split: str) -> Features:
    """`datasets` features of a split; labels are `ClassLabel` in the order of the card."""
    from datasets import ClassLabel, Features, Sequence, Value

    kinds: dict[str, Any] = {
        "label": ClassLabel(names=list(task.labels)) if task.labels else None,
        "relevant_docs": Sequence(Value("string")),
    }
    return Features({c: kinds.get(c) or Value("string") for c in task.columns_of(split)})


def arrow_schema(task: Task, split: str) -> pa.Schema:
    """Arrow types of a split: int64 label ids, lists of strings for relevance, else strings."""
    import pyarrow as pa

    kinds = {"label": pa.int64(), "relevant_docs": pa.list_(pa.string())}
    return pa.schema([(c, kinds.get(c, pa.string())) for c in task.columns_of(split)])


def make_table(task: Task, split: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Raw rows (labels by name) as an Arrow table (labels by id).

    Raises:
        DataError: a label that the card does not declare, a missing column, or a value of another
            type than the column's.
    """
    import pyarrow as pa

    ids = {name: i for i, name in enumerate(task.labels)}
    columns: dict[str, list[Any]] = {column: [] for column in task.columns_of(split)}
    for number, row in enumerate(rows):
        for column, values in columns.items():
            if column not in row:
                raise DataError(f"{task.name}/{split}: row {number} has no column {column!r}")
            value = row[column]
            if column == "label":
                if not isinstance(value, str) or value not in ids:
                    raise DataError(
                        f"{task.name}/{split}: row {number} has label {value!r}, "
                        f"expected one of {', '.join(task.labels)}"
                    )
                value = ids[value]
            values.append(value)
    try:
        return pa.table(columns, schema=arrow_schema(task, split))
    except (TypeError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise DataError(
            f"{task.name}/{split}: a value is not of its column's type: {error}"
        ) from error


def content_digest(task: Task, split: str, table: pa.Table) -> str:
    """SHA-256 over the logical rows: one JSON array a row, labels by name, in order.

    It does not depend on how the rows are stored (parquet bytes differ between pyarrow versions).
    """
    digest = hashlib.sha256(json.dumps(task.columns_of(split)).encode())
    columns = [table.column(c).to_pylist() for c in task.columns_of(split)]
    if "label" in table.column_names:
        at = task.columns_of(split).index("label")
        columns[at] = [task.labels[i] for i in columns[at]]
    to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    for row in zip(*columns, strict=True):
        digest.update(to_json(row).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def verify(task: Task, split: str, table: pa.Table, *, declared: bool = True) -> str:
    """Check a split against its card and return its content digest.

    Args:
        task: the task.
        split: name of the split.
        table: its rows, label ids as integers.
        declared: also compare row count and digest with the card (off for sample data).

    Raises:
        DataError: columns, types, labels, ids, row count or digest differ from the card.
    """
    where = f"{task.name}/{split}"
    expected = arrow_schema(task, split)
    found = {f.name: str(f.type).replace("large_", "") for f in table.schema}
    wanted = {f.name: str(f.type) for f in expected}
    same = {k: _plain(v) for k, v in found.items()} == {k: _plain(v) for k, v in wanted.items()}
    if not same or table.num_columns != len(expected):
        raise DataError(
            f"{where}: found columns {_shown(table.schema)}, expected {_shown(expected)}; "
            "rebuild the package"
        )
    if not table.num_rows:
        raise DataError(f"{where}: found no rows, expected at least one")
    table = table.select(expected.names).cast(expected)
    for column in expected.names:
        if _nulls(table.column(column)):
            raise DataError(f"{where}: column {column!r} has empty cells, expected none")
    _check_unique(where, table, "docid" if split == CORPUS else "id")
    if task.labels:
        _check_labels(task, where, table.column("label").to_pylist())
    rows = task.splits[split].rows
    if declared and rows is not None and table.num_rows != rows:
        raise DataError(
            f"{where}: found {table.num_rows} rows, the card declares {rows}; rebuild the package"
        )
    digest = content_digest(task, split, table)
    promised = task.splits[split].digest
    if declared and promised is not None and digest != promised:
        raise DataError(
            f"{where}: rows have changed (content digest {digest[:12]}…, "
            f"the card declares {promised[:12]}…); rebuild the package with jfinteb.build"
        )
    return digest


def check_relevance(task: Task, split: str, queries: pa.Table, corpus: pa.Table) -> None:
    """Every relevant id must be a document of the corpus (ids are strings: "0" is not 0).

    Raises:
        DataError: names the first ids that are missing.
    """
    if task.kind is not Kind.RETRIEVAL or split == CORPUS:
        return
    known = set(corpus.column("docid").to_pylist())
    wanted = queries.column("relevant_docs").to_pylist()
    missing = sorted({doc for docs in wanted for doc in docs} - known)
    if missing:
        raise DataError(
            f"{task.name}/{split}: {len(missing)} relevant ids are not in the corpus: "
            f"{', '.join(map(repr, missing[:5]))}"
        )


def _nulls(cells: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    within = pc.list_flatten(cells).null_count if cells.type.num_fields else 0
    return int(cells.null_count + within)


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _plain(arrow_type: str) -> str:
    return arrow_type.replace("element: ", "item: ")


def _check_unique(where: str, table: pa.Table, column: str) -> None:
    twice = [v for v, n in Counter(table.column(column).to_pylist()).items() if n > 1]
    if twice:
        raise DataError(f"{where}: {column} {twice[0]!r} stands twice, expected different ids")


def _check_labels(task: Task, where: str, labels: Sequence[int]) -> None:
    for row, label in enumerate(labels):
        if not 0 <= label < len(task.labels):
            raise DataError(
                f"{where}: row {row} has label id {label}, expected 0 to {len(task.labels) - 1}"
            )
