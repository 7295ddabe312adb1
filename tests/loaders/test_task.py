"""The thirteen cards, and what derives from them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

import jfinteb.dataset_cards
from jfinteb.build.sources import PARSERS
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Kind, get_suite, get_task, suites, task_names

CARDS = Path(jfinteb.dataset_cards.__file__).parent
NAMES = (
    *("chabsa", "ews_domain", "ews_horizon", "ews_sentiment", "industry17", "industry33"),
    *("multifin_ja", "wikinews"),
    *("jafin", "pfmt", "wikinews_retrieval", "wikipedia_retrieval"),
    "ews_reason",
)
PUBLISHED_ROWS = {
    "ews_domain": (4200, 600, 1200),
    "ews_horizon": (7000, 1000, 2000),
    "ews_sentiment": (7000, 1000, 2000),
    "ews_reason": (6500, 6500),
    "pfmt": (72, 288, 360),
    "jafin": (298, 1192, 1490),
    "chabsa": (1555, 289, 486),
}


def test_every_card_is_a_task() -> None:
    assert task_names() == NAMES
    assert {path.stem for path in CARDS.glob("*.md")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_card_agrees_with_a_plain_reading(name: str) -> None:
    text = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    card = yaml.safe_load(text.split("\n---\n")[0])["jfinteb"]
    task = get_task(name)
    assert list(task.labels) == card.get("labels", [])
    assert list(task.splits) == list(card["splits"])
    assert {s: v.rows for s, v in task.splits.items()} == {
        s: v.get("rows") for s, v in card["splits"].items()
    }
    assert list(task.columns) == list(card["columns"])
    assert (task.title, task.metric, task.kind.value) == (
        card["title"],
        card["metric"],
        card["kind"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_card_is_sound(name: str) -> None:
    task = get_task(name)
    assert list(task.labels) == sorted(task.labels)  # code point order decides kNN ties
    assert task.source.parser in PARSERS
    assert task.source.url.startswith("https://")
    assert task.body.startswith(f"# {task.pretty_name}\n")
    for file in task.source.files.values():
        assert not Path(file.path).is_absolute()
        assert ".." not in Path(file.path).parts
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
    for split in task.splits.values():
        assert split.digest is None or re.fullmatch("[0-9a-f]{64}", split.digest)
    assert not set(task.columns) & {"id", "text", "label", "query", "relevant_docs", "docid"}


@pytest.mark.parametrize(("name", "rows"), PUBLISHED_ROWS.items())
def test_row_counts(name: str, rows: tuple[int, ...]) -> None:
    assert tuple(split.rows for split in get_task(name).splits.values()) == rows


def test_names_and_aliases_mean_one_task_each() -> None:
    known = Counter(n for name in NAMES for n in (name, *get_task(name).aliases))
    assert [n for n, times in known.items() if times > 1] == []
    for name in NAMES:
        for alias in get_task(name).aliases:
            assert get_task(alias).name == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("economy_watchers_survey_domain", "ews_domain"),
        ("economy_watchers_survey_reason", "ews_reason"),
        ("chabsa_classification", "chabsa"),
        ("pfmt_bench_fin_ja", "pfmt"),
        ("multifin", "multifin_ja"),
    ],
)
def test_alias(alias: str, name: str) -> None:
    assert get_task(alias) is get_task(name)


def test_suites() -> None:
    assert {name: len(tasks) for name, tasks in suites().items()} == {
        "jfinteb": 11,
        "all": 13,
        "sample": 13,
        "jfinteb-clean": 11,
    }
    left_out = set(NAMES) - {task.name for task in get_suite("jfinteb")}
    assert left_out == {"industry33", "multifin_ja"}


def test_unknown_names_say_what_exists() -> None:
    with pytest.raises(UsageError) as task:
        get_task("chabsaa")
    assert str(task.value) == f"no task 'chabsaa'; tasks: {', '.join(NAMES)}"
    with pytest.raises(UsageError) as suite:
        get_suite("big")
    assert str(suite.value) == "no suite 'big'; suites: jfinteb, all, sample, jfinteb-clean"


def test_configs() -> None:
    assert get_task("pfmt").configs == {
        "pfmt": ("validation", "test"),
        "pfmt-corpus": ("corpus",),
    }
    assert get_task("chabsa").configs == {"chabsa": ("train", "validation", "test")}
    assert get_task("pfmt").columns_of("test") == ("id", "query", "relevant_docs", "category")
    assert get_task("pfmt").columns_of("corpus") == ("docid", "text")


def test_kinds() -> None:
    assert Counter(get_task(name).kind for name in NAMES) == {
        Kind.CLASSIFICATION: 8,
        Kind.RETRIEVAL: 4,
        Kind.CLUSTERING: 1,
    }
