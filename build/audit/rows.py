"""Rows of a package as an audit reads them: as they stand, whether or not they satisfy the card."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.schema import arrow_schema
from jfinteb.loaders.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Rows", "fold", "is_empty", "read_rows"]

_INVISIBLE = ("Zs", "Zl", "Zp", "Cc", "Cf")  # Unicode categories


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A split.

    Attributes:
        ids: row ids; of the corpus, document ids. A null is called by its place, `row 7`.
        texts: texts, queries or documents; "" for a null.
        forms: the texts after `fold`: rows of equal form have the same text.
        labels: label names, None for an id that the card lacks; empty in retrieval.
        relevant: relevant document ids of each query; empty in other splits.
        nulls: whether a row has an empty cell.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    forms: Sequence[str]
    labels: Sequence[str | None]
    relevant: Sequence[Sequence[str]]
    nulls: Sequence[bool]


def fold(text: str) -> str:
    """The text after NFKC and strip: full-width and half-width spellings become one.

    >>> fold(" ＡＢＣ１２　")
    'ABC12'
    """
    return unicodedata.normalize("NFKC", text).strip()


def is_empty(text: str) -> bool:
    r"""Whether the text holds only white space, control and invisible format characters.

    >>> [is_empty(text) for text in ("", "　\n", "\u200b", "。")]
    [True, True, True, False]
    """
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


def read_rows(task: Task, split: str, table: pa.Table) -> Rows:
    """The rows of a table, with whatever values.

    Raises:
        DataError: other columns or types than the card's.
    """
    expected = arrow_schema(task, split)
    if sorted(map(_column, table.schema)) != sorted(map(_column, expected)):
        shown = (", ".join(map(_column, schema)) for schema in (table.schema, expected))
        raise DataError("{}/{}: found columns {}, expected {}".format(task.name, split, *shown))
    rows = table.select(expected.names).cast(expected).to_pylist()
    key, text = task.columns_of(split)[:2]
    texts = [row[text] or "" for row in rows]
    labels = dict(enumerate(task.labels))
    asked = rows if "relevant_docs" in expected.names else []
    return Rows(
        ids=[f"row {n}" if row[key] is None else row[key] for n, row in enumerate(rows)],
        texts=texts,
        forms=[fold(value) for value in texts],
        labels=[labels.get(row["label"]) for row in rows] if labels else [],
        relevant=[[doc for doc in row["relevant_docs"] or [] if doc is not None] for row in asked],
        nulls=[any(map(_has_null, row.values())) for row in rows],
    )


def _column(field: pa.Field) -> str:
    """Name and type; spellings of one type (large strings, other item names) are one."""
    return f"{field.name} ({field.type})".replace("large_", "").replace("element: ", "item: ")


def _has_null(value: Any) -> bool:
    return value is None or (isinstance(value, list) and None in value)
