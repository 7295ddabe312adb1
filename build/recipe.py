"""Rows of a task or of a variant of one, from whichever of its sources is at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jfinteb.build.clean import clean
from jfinteb.build.sources import PARSERS
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.schema import make_table
from jfinteb.loaders.task import Task, get_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["rows_of", "tables_of", "unknown_digests"]

Rows = Mapping[str, list[dict[str, Any]]]


def tables_of(task: Task, folder: SourceFolder) -> tuple[dict[str, pa.Table], Counter[str]]:
    """As `rows_of`, with the rows as Arrow tables, labels by id."""
    rows, changes = rows_of(task, folder)
    return {split: make_table(task, split, rows[split]) for split in task.splits}, changes


def rows_of(task: Task, folder: SourceFolder) -> tuple[Rows, Counter[str]]:
    """The rows of every split, labels by name, and what a `clean` recipe changed.

    Raises:
        UnavailableError: no source of the task has all its files in the folder.
        DataError: the files are not what the parser expects.
    """
    if task.recipe is not None and task.recipe.name == "clean":
        base = get_task(task.recipe.base)
        made = base.clean
        assert made is not None
        rows, _ = rows_of(base, folder)
        return clean(
            task, rows, group=made.keep, mask_queries=made.mask_queries, markup=not made.plain
        )
    chosen = folder.choose(task)
    if chosen is None:
        raise UnavailableError(
            f"{task.name}: no {folder.missing(task)[0]} in {folder.path}; get it from "
            f"{task.source.url}"
        )
    return _parse(chosen, folder), Counter()


def unknown_digests(task: Task, folder: SourceFolder) -> dict[str, str]:
    """SHA-256 of a task's raw files where the card does not settle what they are; else nothing.

    The card does where each file has a checksum and each split a digest.
    """
    clean = task.recipe is not None and task.recipe.name == "clean"
    chosen = folder.choose(get_task(task.recipe.base) if task.recipe and clean else task)
    if chosen is None:
        return {}
    files, splits = chosen.source.files.values(), task.splits.values()
    if all(file.sha256 for file in files) and all(split.digest for split in splits):
        return {}
    return folder.digests(chosen)


def _parse(task: Task, folder: SourceFolder) -> Rows:
    parser = task.source.parser
    try:
        return PARSERS[parser](task, folder)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{task.name}: the raw files are not what the parser {parser} expects "
            f"({type(error).__name__}: {error}); get revision {task.source.revision} from "
            f"{task.source.url}"
        ) from error
    except OSError as error:
        raise UnavailableError(f"{task.name}: cannot read {error.filename}: {error}") from error
