"""Whether rows are those that their card and the package's manifest tell of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from jfinteb.build.audit.findings import Check, Finding, finding
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.manifest import splits_in
from jfinteb.loaders.origins import Folder
from jfinteb.loaders.schema import arrow_schema, content_digest
from jfinteb.loaders.task import Split, Task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["promises"]


def promises(task: Task, folder: Folder, tables: Mapping[str, pa.Table]) -> Iterator[Finding]:
    """Where row counts and content digests are not those of the card and of the manifest.

    Args:
        task: the task.
        folder: the package.
        tables: rows by split, of the columns and types that the card declares.
    """
    path = folder.manifest()
    built: dict[str, Split] = {}
    why = "no manifest.json" if path is None else f"manifest.json has no entry of {task.name}"
    if path is not None:
        try:
            built = splits_in(path, task.name)
        except DataError as error:
            why = str(error)
    for split, table in tables.items():
        if split not in built:
            yield finding(Check.NO_MANIFEST, split, note=why)
        told = {"the card": task.splits[split], "the manifest": built.get(split, Split())}
        rows = {who: s.rows for who, s in told.items() if s.rows not in (None, table.num_rows)}
        if rows:
            note = ", ".join(f"{who} says {n:,}" for who, n in rows.items())
            yield finding(Check.ROW_COUNT, split, note=f"{table.num_rows:,} rows, {note}")
        digest = _digest(task, split, table)
        digests = {who: s.digest for who, s in told.items() if s.digest not in (None, digest)}
        if digests:
            note = ", ".join(f"{who} says {d[:12]}…" for who, d in digests.items() if d)
            found = f"{digest[:12]}…" if digest else "none, as labels are not the card's"
            yield finding(Check.CHANGED_ROWS, split, note=f"content digest {found}, {note}")


def _digest(task: Task, split: str, table: pa.Table) -> str | None:
    """The content digest; None where a label is none of the card's."""
    schema = arrow_schema(task, split)
    table = table.select(schema.names).cast(schema)
    if task.labels:
        known = range(len(task.labels))
        if not all(label in known for label in table.column("label").to_pylist()):
            return None
    return content_digest(task, split, table)
