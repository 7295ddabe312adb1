"""The `dump` variants: Wikipedia and Wikinews tasks from dumps of your own.

A dump is read once, however many tasks are built from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jfinteb.build.sources import wikinews, wikipedia
from jfinteb.build.sources.drops import DropReport
from jfinteb.build.sources.dump import Progress
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.task import Task

__all__ = ["dropped", "from_wikinews", "from_wikipedia"]

Rows = dict[str, list[dict[str, Any]]]
Watch = Callable[[str], Progress] | None


def from_wikipedia(task: Task, source: SourceFolder) -> Rows:
    """Industry 17, Industry 33 or company retrieval, from jawiki and the exchange's list."""
    found, _ = _companies(source.file(task, "dump"), source.file(task, "listing"), source.watch)
    if task.labels:
        return wikipedia.classification(found, "sector17" if len(task.labels) == 17 else "sector33")
    return wikipedia.retrieval(found)


def from_wikinews(task: Task, source: SourceFolder) -> Rows:
    """Politics or economy, or headline retrieval, from jawikinews."""
    found, _ = _articles(source.file(task, "dump"), source.watch)
    return wikinews.classification(found) if task.labels else wikinews.retrieval(found)


def dropped(task: Task, source: SourceFolder) -> DropReport | None:
    """What was left out of a dump, by reason; None for a task that is made from none."""
    if task.source.parser == "wikipedia_dump":
        dump, listing = source.file(task, "dump"), source.file(task, "listing")
        return _companies(dump, listing, source.watch)[1]
    if task.source.parser == "wikinews_dump":
        return _articles(source.file(task, "dump"), source.watch)[1]
    return None


@lru_cache(maxsize=1)
def _companies(
    dump: Path, listing: Path, watch: Watch
) -> tuple[list[wikipedia.Company], DropReport]:
    return wikipedia.companies(dump, listing, watch and watch(dump.name))


@lru_cache(maxsize=1)
def _articles(dump: Path, watch: Watch) -> tuple[list[wikinews.Article], DropReport]:
    return wikinews.articles(dump, watch and watch(dump.name))
