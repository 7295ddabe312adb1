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

__all__ = ["rows_of", "tables_of"]

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
