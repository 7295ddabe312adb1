"""Cards against the Hub's vocabularies; the words themselves against the `datasets` package."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from jfinteb.build.vocabulary import (
    ANNOTATIONS_CREATORS,
    LICENSES,
    SIZE_CATEGORIES,
    TASK_CATEGORIES,
    languages,
    validate,
    validate_front,
)
from jfinteb.loaders.task import get_suite, get_task

GOOD = {"pretty_name": "X", "license": "cc-by-4.0", "language": ["ja"]}


def resource(name: str) -> Any:
    path = resources.files("datasets.utils.resources") / name
    return json.loads(path.read_text(encoding="utf-8"))


def test_words_are_those_of_the_datasets_package() -> None:
    assert set(resource("creators.json")["annotations"]) == ANNOTATIONS_CREATORS
    assert set(resource("size_categories.json")) == set(SIZE_CATEGORIES)
    assert {"ja", "en", "ain", "multilingual"} <= languages()
    assert not {"jp", "japanese", "Japanese", ""} & languages()


def test_words_as_the_documentation_has_them() -> None:
    assert len(LICENSES) == 73  # 69 in the documentation's table, and four of Llama
    spdx_that_is_no_hub_id = {"CC-BY-4.0", "cc-by-sa-2.5", "public-domain", "cc-by-nc", ""}
    assert not LICENSES & spdx_that_is_no_hub_id
    assert {"text-classification", "text-retrieval", "sentence-similarity"} <= TASK_CATEGORIES
    # hidden for data sets, not clustering at all, and a sub-task
    assert not TASK_CATEGORIES & {"any-to-any", "clustering", "sentiment-analysis"}


def test_all_cards() -> None:
    assert validate(get_suite("all")) == []


def test_a_card_with_faults() -> None:
    task = get_task("chabsa")
    bad = replace(task, hub={**task.hub, "license": "CC-BY-4.0", "language": ["ja", "jp"]})
    assert validate([task, bad]) == [
        f"chabsa.md: license: found 'CC-BY-4.0', expected one of the Hub's {len(LICENSES)} words "
        "(see jfinteb.build.vocabulary)",
        f"chabsa.md: language: found 'jp', expected one of the Hub's {len(languages()):,} words "
        "(see jfinteb.build.vocabulary)",
    ]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("license", ["mit", "nope"], "license: found 'nope'"),
        ("license", None, "license: found None"),
        ("license", {"mit": 1}, "license: found {'mit': 1}"),
        ("language", [False], "language: found False"),
        ("language", [["ja"]], "language: found ['ja']"),
        ("task_categories", ["clustering"], "task_categories: found 'clustering'"),
        ("size_categories", ["1K<n<5K"], "size_categories: found '1K<n<5K', expected n<1K or 1K"),
        (
            "annotations_creators",
            "experts",
            "found 'experts', expected crowd",
        ),
        ("source_datasets", ["chabsa"], "expected original or extended|<name>"),
        ("source_datasets", ["extended|"], "expected original or extended|<name>"),
        ("pretty_name", ["X"], "pretty_name: found ['X'], expected text that is not empty"),
        ("pretty_name", " ", "pretty_name: found ' '"),
        ("tags", ["finance", 1.0], "tags: found 1.0"),
        ("licence", "mit", "licence: unknown key"),
    ],
)
def test_each_key(key: str, value: Any, told: str) -> None:
    [fault] = validate_front("x.md", {**GOOD, key: value})
    assert fault.startswith("x.md: ")
    assert told in fault


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("license", ["mit", "cc-by-2.5"]),
        ("source_datasets", ["original", "extended", "extended|other-pfmt-bench-fin-ja"]),
        ("tags", "finance"),
        ("task_ids", ["sentiment-classification"]),
        ("configs", [{"config_name": "x"}]),
        ("dataset_info", []),
    ],
)
def test_what_may_stand(key: str, value: Any) -> None:
    assert validate_front("x.md", {**GOOD, key: value}) == []


@pytest.mark.parametrize("key", ["pretty_name", "license", "language"])
def test_what_must_stand(key: str) -> None:
    front = {k: v for k, v in GOOD.items() if k != key}
    [fault] = validate_front("x.md", front)
    assert fault.startswith(f"x.md: {key}: missing, expected ")


def test_other_licences_have_a_name_and_a_place() -> None:
    bare = {**GOOD, "license": "other"}
    assert [fault.split(",")[0] for fault in validate_front("x.md", bare)] == [
        "x.md: license_name: missing",
        "x.md: license_link: missing",
    ]
    named = {**bare, "license_name": "terms", "license_link": "https://example.org/terms"}
    assert validate_front("x.md", named) == []
