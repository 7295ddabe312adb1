"""The `dump` variants: Wikipedia and Wikinews tasks from dumps of your own.

A dump is read once, however many tasks are built from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from jfinteb.build.sources import wikinews, wikipedia
from jfinteb.build.sources.drops import DropReport
from jfinteb.build.sources.dump import Progress
from jfinteb.build.sources.files import SourceFolder, Stamp, stamp
from jfinteb.loaders.task import Task

__all__ = ["dropped", "from_wikinews", "from_wikipedia"]

Rows = dict[str, list[dict[str, Any]]]
Companies: TypeAlias = tuple[list[wikipedia.Company], DropReport]
Articles: TypeAlias = tuple[list[wikinews.Article], DropReport]
Watch = Callable[[str], Progress] | None


def from_wikipedia(task: Task, source: SourceFolder) -> Rows:
    """Industry 17, Industry 33 or company retrieval, from jawiki and the exchange's list."""
    found, _ = _companies_of(task, source)
    if task.labels:
        return wikipedia.classification(found, _sector(task))
    return wikipedia.retrieval(found)


def from_wikinews(task: Task, source: SourceFolder) -> Rows:
    """Politics or economy, or headline retrieval, from jawikinews."""
    found, _ = _articles_of(task, source)
    return wikinews.classification(found) if task.labels else wikinews.retrieval(found)


def dropped(task: Task, source: SourceFolder) -> DropReport | None:
    """What was left out of a dump, by reason; None for a task that is made from none."""
    if task.source.parser == "wikipedia_dump":
        companies, report = _companies_of(task, source)
        return (
            report.plus(wikipedia.without_sector(companies, _sector(task)))
            if task.labels
            else report
        )
    if task.source.parser == "wikinews_dump":
        articles, report = _articles_of(task, source)
        return report.plus(wikinews.in_both(articles) if task.labels else [])
    return None


def _sector(task: Task) -> Literal["sector17", "sector33"]:
    return "sector17" if len(task.labels) == 17 else "sector33"


def _companies_of(task: Task, source: SourceFolder) -> Companies:
    dump, listing = source.file(task, "dump"), source.file(task, "listing")
    return _companies(dump, listing, source.watch, stamp(dump), stamp(listing))


def _articles_of(task: Task, source: SourceFolder) -> Articles:
    dump = source.file(task, "dump")
    return _articles(dump, source.watch, stamp(dump))


@lru_cache(maxsize=1)
def _companies(dump: Path, listing: Path, watch: Watch, *_stamps: Stamp) -> Companies:
    return wikipedia.companies(dump, listing, watch and watch(dump.name))


@lru_cache(maxsize=1)
def _articles(dump: Path, watch: Watch, *_stamps: Stamp) -> Articles:
    return wikinews.articles(dump, watch and watch(dump.name))
