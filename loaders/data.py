"""Load the data of a task, verified against its card, from any of its origins."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.manifest import MANIFEST, splits_in
from jfinteb.loaders.origins import (
    HUB_REPOSITORY,
    HUB_REVISION,
    SAMPLE,
    Folder,
    Hub,
    Origin,
    Sample,
    open_origin,
    parquet_path,
)
from jfinteb.loaders.schema import check_relevance, features, verify
from jfinteb.loaders.task import CORPUS, Kind, Split, Task, get_task

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset, DatasetDict

__all__ = [
    "HUB_REPOSITORY",
    "HUB_REVISION",
    "MANIFEST",
    "SAMPLE",
    "Folder",
    "Hub",
    "Origin",
    "Sample",
    "is_verified",
    "load",
    "load_tables",
    "open_origin",
    "parquet_path",
]


@overload
def load(task: str | Task, split: str, data: str | Path | None = None) -> Dataset: ...
@overload
def load(task: str | Task, split: None = None, data: str | Path | None = None) -> DatasetDict: ...
def load(
    task: str | Task, split: str | None = None, data: str | Path | None = None
) -> Dataset | DatasetDict:
    """Load a task, verified: features, row counts, label range, relevance ids and content digest.

    Args:
        task: name or alias, e.g. `"chabsa"`.
        split: `"train"`, `"validation"`, `"test"`; retrieval has `"corpus"`. None: all of them.
        data: see `open_origin`.

    Returns:
        The split, or all splits by name.

    Raises:
        UsageError: no such task, split or folder; the message names what exists.
        UnavailableError: the data cannot be had.
        DataError: the data is not what the card declares.
    """
    from datasets import Dataset, DatasetDict

    task = get_task(task) if isinstance(task, str) else task
    if split is not None and split not in task.splits:
        raise UsageError(f"{task.name} has no split {split!r}; splits: {', '.join(task.splits)}")
    origin = open_origin(data)
    wanted = tuple(task.splits) if split is None else (split,)
    promised = _with_promises(task, origin)
    tables, _ = _read(promised, origin, wanted)
    unknown = [name for name in wanted if promised.splits[name].digest is None]
    if origin.declared and unknown:
        warnings.warn(
            f"{task.name} ({', '.join(unknown)}): rows not verified, neither the card nor a "
            f"manifest in {origin.name} has their digest",
            stacklevel=2,
        )
    loaded = {
        name: Dataset.from_dict(
            table.select(task.columns_of(name)).to_pydict(), features=features(task, name)
        )
        for name, table in tables.items()
    }
    return DatasetDict(loaded) if split is None else loaded[split]


def load_tables(
    task: Task, origin: Origin, splits: tuple[str, ...] | None = None
) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """Verified Arrow tables of a task and their content digests, by split.

    Raises:
        UnavailableError, DataError: as `load`.
    """
    wanted = tuple(task.splits) if splits is None else splits
    return _read(_with_promises(task, origin), origin, wanted)


def _read(
    task: Task, origin: Origin, wanted: tuple[str, ...]
) -> tuple[dict[str, pa.Table], dict[str, str]]:
    tables = {split: origin.table(task, split) for split in wanted}
    digests = {s: verify(task, s, t, declared=origin.declared) for s, t in tables.items()}
    if task.kind is Kind.RETRIEVAL and wanted != (CORPUS,):
        corpus = tables.get(CORPUS)
        if corpus is None:
            corpus = origin.table(task, CORPUS)
            verify(task, CORPUS, corpus, declared=origin.declared)
        for split, table in tables.items():
            check_relevance(task, split, table, corpus)
    return tables, digests


def is_verified(task: Task, origin: Origin) -> bool:
    """Whether card or manifest tell the digest of every split, so that changed rows are refused."""
    splits = _with_promises(task, origin).splits.values()
    return not origin.declared or all(split.digest for split in splits)


def _with_promises(task: Task, origin: Origin) -> Task:
    """The task, with the digests of the package's manifest where its card declares none."""
    if not origin.declared or all(split.digest for split in task.splits.values()):
        return task
    path = origin.manifest()
    if path is None:
        return task
    built = splits_in(path, task.name)
    splits = {s: _promise(split, built.get(s)) for s, split in task.splits.items()}
    return replace(task, splits=splits)


def _promise(card: Split, built: Split | None) -> Split:
    """What the card says of a split, and what the manifest says where the card is silent."""
    if built is None or card.digest is not None:
        return card
    return Split(rows=built.rows if card.rows is None else card.rows, digest=built.digest)
