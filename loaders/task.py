"""A task is its card: `dataset_cards/<task>.md` declares it, this module gives it types."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any

from jfinteb.loaders.errors import UsageError

__all__ = [
    "Clean",
    "Kind",
    "Recipe",
    "Role",
    "Source",
    "SourceFile",
    "Split",
    "Task",
    "declared_tasks",
    "find_task",
    "get_suite",
    "get_task",
    "suites",
    "task_names",
]


class Kind(str, Enum):
    """What is asked of the vectors."""

    CLASSIFICATION = "classification"
    RETRIEVAL = "retrieval"
    CLUSTERING = "clustering"

    def __str__(self) -> str:
        return self.value


class Role(str, Enum):
    """What a text is to its task: it decides the prompt that stands before the text."""

    QUERY = "query"
    DOCUMENT = "document"
    CLASSIFICATION = "classification"
    CLUSTERING = "clustering"

    def __str__(self) -> str:
        return self.value


CORPUS = "corpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Row count and content digest of a split; None where the source is not known to us."""

    rows: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A raw file: where it stands in the folder given as `--source`, and where to fetch it.

    `url` is http(s), or `hf://datasets/<owner>/<name>@<revision>/<path>`.
    """

    path: str
    sha256: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the rows come from and which parser of `build/sources` reads them."""

    parser: str
    url: str
    revision: str | None
    files: Mapping[str, SourceFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """How a task's `clean` variant is made, and what it then holds.

    Attributes:
        splits: declared rows and digests of the variant.
        keep: column whose rows stay in the split they are in.
        mask_queries: whether the documents' own queries are masked in them.
        plain: whether leftovers of wiki markup are taken out of texts.
        known_flaws: what an audit still finds in the variant; see `Task`.
    """

    splits: Mapping[str, Split]
    keep: str | None = None
    mask_queries: bool = False
    plain: bool = False
    known_flaws: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a variant's rows follow from the sources of the task it varies.

    Attributes:
        base: name of that task.
        name: `"clean"`, `"since"` (only months from `month` on) or `"dump"` (from another dump).
        month: first month, `"YYYYMM"`.
        rows: rows drawn a label, where that is not the paper's number.
        revision: release of the source, where that is not the one which the card pins. No checksum
            of it is known beforehand.
    """

    base: str
    name: str
    month: str | None = None
    rows: int | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of the benchmark, as its card declares it.

    Attributes:
        name: config name, e.g. `"ews_domain"`; the name of the card's file.
        title: short name for tables.
        pretty_name: long name.
        kind: classification, retrieval or clustering.
        labels: label names; a label's id is its index here. Empty for retrieval.
        metric: the reported metric, e.g. `"ndcg_at_10"`.
        splits: split name -> declared rows and digest.
        columns: extra text columns of the rows (of the queries, in retrieval).
        source: where its rows come from.
        other_sources: more ways to get them, by name; tried where the first is not at hand.
        clean: how its clean variant is made.
        known_flaws: what an audit finds and the card admits: check -> split -> number of rows.
        recipe: how it was made from another task, for a variant; see `jfinteb.loaders.variants`.
        license: Hub licence identifier of the rows.
        redistributable: whether a public package may hold the rows.
        body: the card's prose (Markdown).
        hub: the Hub's own keys of the front matter, as they stand in the card.
    """

    name: str
    title: str
    pretty_name: str
    kind: Kind
    suites: tuple[str, ...]
    aliases: tuple[str, ...]
    labels: tuple[str, ...]
    metric: str
    splits: Mapping[str, Split]
    columns: tuple[str, ...]
    source: Source
    other_sources: Mapping[str, Source]
    clean: Clean | None
    known_flaws: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    recipe: Recipe | None = None
    license: str
    redistributable: bool
    attribution: str
    citation: str
    body: str = field(repr=False)
    hub: Mapping[str, Any] = field(repr=False)

    def columns_of(self, split: str) -> tuple[str, ...]:
        """Column names of a split, in order."""
        if split == CORPUS:
            return ("docid", "text")
        if self.kind is Kind.RETRIEVAL:
            return ("id", "query", "relevant_docs", *self.columns)
        return ("id", "text", "label", *self.columns)

    def config_of(self, split: str) -> str:
        """Name of the `datasets` config that holds a split: a corpus has its own."""
        return f"{self.name}-{CORPUS}" if split == CORPUS else self.name

    @property
    def configs(self) -> dict[str, tuple[str, ...]]:
        """Config name -> its splits, in order."""
        found: dict[str, tuple[str, ...]] = {}
        for split in self.splits:
            config = self.config_of(split)
            found[config] = (*found.get(config, ()), split)
        return found


def task_names() -> tuple[str, ...]:
    """Names of all tasks: classification, retrieval, clustering; by name within a kind.

    >>> len(task_names())
    13
    """
    return tuple(_tasks())


def get_task(name: str) -> Task:
    """The task of that name or alias (the authors' config names are aliases), or a variant.

    Raises:
        UsageError: no such task; the message lists what exists.

    >>> get_task("economy_watchers_survey_domain").name
    'ews_domain'
    """
    task = find_task(name)
    if task is None:
        raise UsageError(f"no task {str(name)!r}; tasks: {', '.join(_tasks())}")
    return task


def declared_tasks() -> tuple[Task, ...]:
    """All tasks of the cards, then the clean variant of each that declares one."""
    tasks = tuple(_tasks().values())
    return (*tasks, *(get_task(f"{task.name}_clean") for task in tasks if task.clean))


def find_task(name: str) -> Task | None:
    """As `get_task`; None where there is no such task."""
    from jfinteb.loaders.variants import variant

    for task in _tasks().values():
        if name == task.name or name in task.aliases:
            return task
    return variant(name, _tasks())


def suites() -> dict[str, tuple[str, ...]]:
    """Suite name -> task names.

    `jfinteb` is the paper's; `jfinteb-clean` has the clean variants of its tasks; `sample` is the
    embedded synthetic data.

    >>> {name: len(tasks) for name, tasks in suites().items()}
    {'jfinteb': 11, 'all': 13, 'sample': 13, 'jfinteb-clean': 11}
    """
    tasks = _tasks()
    named: dict[str, tuple[str, ...]] = {}
    for task in tasks.values():
        for suite in task.suites:
            named[suite] = (*named.get(suite, ()), task.name)
    clean = tuple(f"{name}_clean" for name in named["jfinteb"])
    return {**named, "all": tuple(tasks), "sample": tuple(tasks), "jfinteb-clean": clean}


def get_suite(name: str) -> tuple[Task, ...]:
    """The tasks of a suite, in order.

    Raises:
        UsageError: no such suite; the message lists what exists.
    """
    known = suites()
    if name not in known:
        raise UsageError(f"no suite {name!r}; suites: {', '.join(known)}")
    return tuple(get_task(task) for task in known[name])


@functools.cache
def _tasks() -> dict[str, Task]:
    from jfinteb.loaders.reader import read_task

    folder = resources.files("jfinteb.dataset_cards")
    cards = sorted((f for f in folder.iterdir() if f.name.endswith(".md")), key=lambda f: f.name)
    kinds = list(Kind)
    tasks = sorted((read_task(card) for card in cards), key=lambda t: (kinds.index(t.kind), t.name))
    return {task.name: task for task in tasks}
