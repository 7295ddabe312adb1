"""A faulty card: the exact one-line message, with file, key, what was found and expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from jfinteb.loaders.card import read_front_matter
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.reader import read_task

CARD = """---
pretty_name: "A task"
license: cc-by-4.0
jfinteb:
  name: mine
  title: "Mine"
  kind: classification
  suites: ["jfinteb"]
  aliases: ["my_task"]
  labels: ["no", "yes"]
  metric: macro_f1
  columns: {sector: string}
  splits:
    train: {rows: 3}
    validation: {}
    test: {rows: 2, digest: "ab"}
  source:
    parser: mine
    url: "https://example.org/mine"
    revision: "1.0"
    files:
      rows: {path: "mine/rows.jsonl", sha256: "cd"}
  redistributable: true
  attribution: "by us"
  citation: "@misc{mine}"
---

# Mine

Prose.
"""


def fault(tmp_path: Path, text: str, name: str = "mine.md") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_task(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_right_card(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text(CARD, encoding="utf-8")
    task = read_task(path)
    assert (task.name, task.kind, task.labels) == ("mine", "classification", ("no", "yes"))
    assert [(s, d.rows, d.digest) for s, d in task.splits.items()] == [
        ("train", 3, None),
        ("validation", None, None),
        ("test", 2, "ab"),
    ]
    assert task.columns_of("test") == ("id", "text", "label", "sector")
    assert (task.source.revision, task.source.files["rows"].sha256) == ("1.0", "cd")
    assert task.body == "# Mine\n\nProse.\n"
    assert dict(task.hub) == {"pretty_name": "A task", "license": "cc-by-4.0"}


def test_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_bytes(CARD.replace("\n", "\r\n").encode())
    assert read_task(path).body == "# Mine\n\nProse.\n"


FAULTS = {
    "unknown hub key": ("license: cc", "licence: cc", "mine.md: unknown key licence; "),
    "unknown key": ("  title:", "  titel: x\n  title:", "mine.md: unknown key jfinteb.titel; "),
    "missing key": (
        '  title: "Mine"\n',
        "",
        "mine.md: jfinteb.title: missing, expected text (quote it)",
    ),
    "empty text": (
        'title: "Mine"',
        'title: " "',
        "mine.md: jfinteb.title: found ' ', expected text that is not empty",
    ),
    "unquoted label": (
        '["no", "yes"]',
        "[no, yes]",
        "mine.md: jfinteb.labels: found False, expected a list of text (quote each)",
    ),
    "number as label": (
        '["no", "yes"]',
        '["no", 1]',
        "mine.md: jfinteb.labels: found 1, expected a list of text (quote each)",
    ),
    "labels no list": (
        '["no", "yes"]',
        '"no"',
        "mine.md: jfinteb.labels: found 'no', expected a list of quoted text",
    ),
    "one label": (
        '["no", "yes"]',
        '["no"]',
        "mine.md: jfinteb.labels: found ['no'], expected two or more different names",
    ),
    "equal labels": (
        '["no", "yes"]',
        '["no", "no"]',
        "mine.md: jfinteb.labels: found ['no', 'no'], expected two or more different names",
    ),
    "wrong kind": (
        "kind: classification",
        "kind: regression",
        "mine.md: jfinteb.kind: found 'regression', "
        "expected classification or retrieval or clustering",
    ),
    "wrong metric": (
        "macro_f1",
        "accuracy",
        "mine.md: jfinteb.metric: found 'accuracy', expected macro_f1",
    ),
    "wrong name": (
        "name: mine",
        "name: yours",
        "mine.md: jfinteb.name: found 'yours', expected the name of the card's file",
    ),
    "missing split": (
        "    validation: {}\n",
        "",
        "mine.md: jfinteb.splits: found keys ['train', 'test'], "
        "expected ['train', 'validation', 'test']",
    ),
    "other split": (
        "validation: {}",
        "dev: {}",
        "mine.md: jfinteb.splits: found keys ['train', 'dev', 'test'], "
        "expected ['train', 'validation', 'test']",
    ),
    "no rows": (
        "{rows: 3}",
        "{rows: 0}",
        "mine.md: jfinteb.splits.train.rows: found 0, expected a whole number above 0",
    ),
    "rows true": (
        "{rows: 3}",
        "{rows: true}",
        "mine.md: jfinteb.splits.train.rows: found True, expected a whole number above 0",
    ),
    "rows text": (
        "{rows: 3}",
        '{rows: "3"}',
        "mine.md: jfinteb.splits.train.rows: found '3', expected a whole number",
    ),
    "unknown key of a split": (
        "{rows: 3}",
        "{rows: 3, sha: x}",
        "mine.md: unknown key jfinteb.splits.train.sha; known here: digest, rows",
    ),
    "unknown key of a file": (
        'sha256: "cd"',
        'md5: "cd"',
        "mine.md: unknown key jfinteb.source.files.rows.md5; known here: path, sha256, url",
    ),
    "number as revision": (
        'revision: "1.0"',
        "revision: 1.0",
        "mine.md: jfinteb.source.revision: found 1.0, expected text (quote it)",
    ),
    "section is text": (
        "columns: {sector: string}",
        "columns: sector",
        "mine.md: jfinteb.columns: found 'sector', expected a mapping",
    ),
    "column of another type": (
        "{sector: string}",
        "{sector: int64}",
        "mine.md: jfinteb.columns.sector: found 'int64', expected string",
    ),
    "flag is text": (
        "redistributable: true",
        'redistributable: "yes"',
        "mine.md: jfinteb.redistributable: found 'yes', expected true or false",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault(case: str, tmp_path: Path) -> None:
    old, new, expected = FAULTS[case]
    assert CARD.count(old) == 1
    message = fault(tmp_path, CARD.replace(old, new))
    assert message.startswith(expected) if expected.endswith("; ") else message == expected


@pytest.mark.parametrize(
    "text", ["", "# Mine\n", CARD.removeprefix("---\n"), CARD.replace("\n---\n", "\n"), "---\n"]
)
def test_no_fence(text: str, tmp_path: Path) -> None:
    assert fault(tmp_path, text) == (
        "mine.md: no front matter; expected YAML between two '---' lines at the top"
    )


@pytest.mark.parametrize(
    ("head", "within"),
    [
        ("a: [1", "front matter is not YAML: "),
        ("a: 1\na: 2", "key 'a' stands twice"),
        ("a: {b: 1, b: 1}", "key 'b' stands twice"),
        ("? [a]\n: 1", "unhashable key"),
        ("when: 2024-13-01", "month must be in 1..12"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("- a", "front matter is a list, expected a mapping"),
        ("", "front matter is a NoneType, expected a mapping"),
    ],
)
def test_not_a_yaml_mapping(head: str, within: str, tmp_path: Path) -> None:
    message = fault(tmp_path, f"---\n{head}\n---\n\nProse.\n")
    assert message.startswith("mine.md: ")
    assert within in message


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_bytes(CARD.replace("A task", "課題").encode("shift_jis"))
    with pytest.raises(DataError, match=r"^mine\.md: not UTF-8 \(.*\); save it as UTF-8$"):
        read_task(path)


def test_a_rule_in_the_body_is_not_a_fence() -> None:
    front, body = read_front_matter("x.md", "---\na: '1'\n---\nfirst\n\n---\n\nsecond\n")
    assert front == {"a": "1"}
    assert body == "first\n\n---\n\nsecond\n"
