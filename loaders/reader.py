"""Read a card: front matter to `Task`, strictly.

An unknown key, a wrong type or an unquoted label is an error that names the file, the key, what was
found and what was expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jfinteb.loaders.card import CardReader, read_front_matter
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Clean, Kind, Source, SourceFile, Split, Task

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["HUB_KEYS", "METRICS", "read_task"]

HUB_KEYS = (
    "pretty_name",
    "license",
    "license_name",
    "license_link",
    "language",
    "task_categories",
    "task_ids",
    "size_categories",
    "annotations_creators",
    "source_datasets",
    "tags",
)
_SPLITS = {
    Kind.CLASSIFICATION: ("train", "validation", "test"),
    Kind.RETRIEVAL: ("validation", "test", "corpus"),
    Kind.CLUSTERING: ("validation", "test"),
}
METRICS = {
    Kind.CLASSIFICATION: "macro_f1",
    Kind.RETRIEVAL: "ndcg_at_10",
    Kind.CLUSTERING: "v_measure",
}


def read_task(path: Traversable) -> Task:
    """Read one card.

    Raises:
        DataError: the front matter is not what the format asks; one line names file and key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: not UTF-8 ({error}); save it as UTF-8") from error
    front, body = read_front_matter(path.name, text)
    top = CardReader(path.name, front)
    top.expect_known((*HUB_KEYS, "jfinteb"))
    card = top.section("jfinteb")
    name = card.text("name")
    card.expect("name", name == path.name.removesuffix(".md"), "the name of the card's file")
    kind = Kind(card.choice("kind", tuple(Kind)))
    labels = card.texts("labels") if kind is not Kind.RETRIEVAL else ()
    if kind is not Kind.RETRIEVAL:
        card.expect("labels", len(set(labels)) == len(labels) > 1, "two or more different names")
    splits = card.section("splits")
    splits.expect_keys(_SPLITS[kind])
    others = card.optional_section("other_sources")
    task = Task(
        name=name,
        title=card.text("title"),
        pretty_name=top.text("pretty_name"),
        kind=kind,
        suites=card.texts("suites"),
        aliases=card.texts("aliases"),
        labels=labels,
        metric=card.choice("metric", (METRICS[kind],)),
        splits={split: _split(splits.section(split)) for split in _SPLITS[kind]},
        columns=_columns(card.section("columns")),
        source=_source(card.section("source")),
        other_sources={key: _source(others.section(key)) for key in others.values},
        clean=_clean(card.optional_section("clean"), kind),
        known_flaws=_known_flaws(card.optional_section("known_flaws"), _SPLITS[kind]),
        license=top.text("license"),
        redistributable=card.flag("redistributable"),
        attribution=card.text("attribution"),
        citation=card.text("citation"),
        body=body,
        hub={key: value for key, value in front.items() if key != "jfinteb"},
    )
    card.finish()
    return task


def _source(card: CardReader) -> Source:
    files = card.section("files")
    source = Source(
        parser=card.text("parser"),
        url=card.text("url"),
        revision=card.optional_text("revision"),
        files={key: _source_file(files.section(key)) for key in files.values},
    )
    card.finish()
    return source


def _clean(card: CardReader, kind: Kind) -> Clean | None:
    if not card.values:
        return None
    splits = card.section("splits")
    splits.expect_keys(_SPLITS[kind])
    clean = Clean(
        splits={split: _split(splits.section(split)) for split in _SPLITS[kind]},
        keep=card.optional_text("keep"),
        mask_queries=card.optional_flag("mask_queries"),
        plain=card.optional_flag("plain"),
        known_flaws=_known_flaws(card.optional_section("known_flaws"), _SPLITS[kind]),
    )
    card.finish()
    return clean


def _known_flaws(card: CardReader, splits: tuple[str, ...]) -> dict[str, dict[str, int]]:
    found = {}
    for check in card.values:
        counts = card.section(check)
        counts.expect_known(splits)
        found[check] = {split: counts.count(split) for split in counts.values}
    return found


def _columns(card: CardReader) -> tuple[str, ...]:
    for column in card.values:
        card.choice(column, ("string",))
    return tuple(card.values)


def _split(card: CardReader) -> Split:
    split = Split(rows=card.optional_count("rows"), digest=card.optional_text("digest"))
    card.finish()
    return split


def _source_file(card: CardReader) -> SourceFile:
    found = SourceFile(
        path=card.text("path"),
        sha256=card.optional_text("sha256"),
        url=card.optional_text("url"),
    )
    card.finish()
    return found
