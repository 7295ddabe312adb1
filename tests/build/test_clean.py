"""The clean recipe and the fresh variants, on rows by hand and on the real sets."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jfinteb.build.clean import MASK, clean, mask_name
from jfinteb.build.plain import plain
from jfinteb.build.recipe import rows_of
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import get_suite, get_task
from jfinteb.loaders.variants import variant

Rows = list[dict[str, Any]]
DOMAINS = get_task("ews_domain").labels


def labelled(split: str, *rows: tuple[str, int]) -> Rows:
    return [
        {"id": f"{split}-{n}", "text": text, "label": DOMAINS[label]}
        for n, (text, label) in enumerate(rows)
    ]


def test_duplicates_contradictions_and_empty_texts_leave() -> None:
    rows = {
        "train": labelled(
            "train", *((f"文{n}", n % 3) for n in range(30)), ("ＡＢＣ", 0), ("　", 1)
        ),
        "validation": labelled("validation", ("ABC ", 0), ("異論", 1)),
        "test": labelled("test", ("異論", 2), ("文0", 0)),
    }
    splits, changes = clean(get_task("ews_domain"), rows)
    assert changes == {
        "duplicate text": 2,  # "ABC " is ＡＢＣ, 文0 stands twice
        "same text under several labels": 2,
        "empty text": 1,
    }
    texts = [row["text"] for split in splits.values() for row in split]
    assert sorted(texts) == sorted([*(f"文{n}" for n in range(30)), "ＡＢＣ"])
    # 11 rows of label 0: int(7.7), int(1.1), the rest; 10 of the others
    assert {s: len(r) for s, r in splits.items()} == {"train": 21, "validation": 3, "test": 7}
    for split in splits.values():
        assert {row["label"] for row in split} == set(DOMAINS)


def test_ids_that_start_anew_in_each_split() -> None:
    rows = {
        split: [
            {"id": str(n), "text": f"{split}の文{n}", "label": DOMAINS[n % 3]} for n in range(30)
        ]
        for split in ("train", "validation", "test")
    }
    splits, _ = clean(get_task("ews_domain"), rows)
    assert {s: len(r) for s, r in splits.items()} == {"train": 63, "validation": 9, "test": 18}
    found = {row["id"]: row["text"] for split in splits.values() for row in split}
    assert found == {f"{s}-{n}": f"{s}の文{n}" for s in rows for n in range(30)}


def test_a_label_of_three_rows_stands_in_every_split_and_one_of_two_does_not() -> None:
    rows = {
        "train": labelled("train", *((f"多い{n}", 0) for n in range(20)), ("三1", 1), ("二1", 2)),
        "validation": labelled("validation", ("三2", 1)),
        "test": labelled("test", ("三3", 1), ("二2", 2)),
    }
    splits, _ = clean(get_task("ews_domain"), rows)
    for split in splits.values():
        assert sum(row["label"] == DOMAINS[1] for row in split) == 1
    counts = Counter(row["label"] for split in splits.values() for row in split)
    assert counts == {DOMAINS[0]: 20, DOMAINS[1]: 3, DOMAINS[2]: 2}


def test_retrieval_merges_documents_with_all_their_gold() -> None:
    rows = {
        "validation": [
            {"id": "v0", "query": "甲", "relevant_docs": ["1"], "category": "x"},
            {"id": "v1", "query": "空", "relevant_docs": ["4"], "category": "x"},
        ],
        "test": [
            {"id": "t0", "query": "乙", "relevant_docs": ["2"], "category": "x"},
            {"id": "t1", "query": "甲 ", "relevant_docs": ["3"], "category": "x"},
        ],
        "corpus": [
            {"docid": "1", "text": "同じ"},
            {"docid": "2", "text": "同じ\n"},
            {"docid": "3", "text": "別"},
            {"docid": "4", "text": ""},
        ],
    }
    splits, changes = clean(get_task("pfmt"), rows)
    assert splits["corpus"] == [{"docid": "1", "text": "同じ"}, {"docid": "3", "text": "別"}]
    queries = {q["query"]: q["relevant_docs"] for q in splits["validation"] + splits["test"]}
    assert queries == {"甲": ["1", "3"], "乙": ["1"]}
    assert changes == {
        "duplicate document": 1,
        "empty document": 1,
        "duplicate query": 1,
        "query whose document is empty": 1,
    }


ARCHIVED = (
    "この記事は保存されています。直すには、話し合いの場に{{editprotected}}を置くと管理者が気づきます"
    "なお、書式の修正だけを受け付けています。"
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("&quot;A&amp;B&quot;と&lt;br /&gt;C", '"A&B"とC'),
        ("&amp;nbsp;で120&nbsp;km", "\u00a0で120\u00a0km"),
        ("a&lt;!-- 内緒 --&gt;b&lt;!--", "ab"),
        ("[[画像:A.jpg|thumb|店（左）]]本文[[Image:B.png]]", "本文"),
        ("面積3m<SUP>2</SUP>、<span style='x'>色</span>", "面積3m2、色"),
        (f"知事は述べた。{ARCHIVED}", "知事は述べた。"),
        (f"{ARCHIVED}知事は述べた。", f"{ARCHIVED}知事は述べた。"),  # not at the end: not the note
        ("3 < 5 で a<b>c", "3 < 5 で ac"),
        ("R&Dと<生>と[[リンク]]と{{雛形}}}}", "R&Dと<生>と[[リンク]]と{{雛形}}}}"),
        ("", ""),
    ],
)
def test_leftovers_of_markup(text: str, left: str) -> None:
    assert plain(text) == left


def test_leftovers_go_before_texts_are_compared() -> None:
    rows = {
        "validation": [{"id": "v0", "query": "甲&amp;", "relevant_docs": ["1"], "category": "x"}],
        "test": [{"id": "t0", "query": "乙", "relevant_docs": ["2"], "category": "x"}],
        "corpus": [{"docid": "1", "text": "A&amp;B"}, {"docid": "2", "text": "A<b>&</b>B"}],
    }
    splits, changes = clean(get_task("pfmt"), rows, markup=False)
    assert splits["corpus"] == [{"docid": "1", "text": "A&B"}]
    assert {q["query"] for q in splits["validation"] + splits["test"]} == {"甲&amp;", "乙"}
    assert changes == {"text with markup or a note taken out": 2, "duplicate document": 1}
    kept, _ = clean(get_task("pfmt"), rows)
    assert [row["text"] for row in kept["corpus"]] == ["A&amp;B", "A<b>&</b>B"]


def test_clean_wikimedia_sets_keep_what_cannot_be_told(data_folder: Path) -> None:
    """As counted by hand in the published texts; see the cards."""
    rows, changes = rows_of(get_task("wikipedia_retrieval_clean"), SourceFolder(data_folder))
    texts = [row["text"] for row in rows["corpus"]]
    assert changes["text with markup or a note taken out"] == 70
    assert not any("&lt;" in text or "&quot;" in text or "&nbsp;" in text for text in texts)
    assert sum(any(mark in t for mark in ("[[", "]]", "{{", "}}")) for t in texts) == 8
    rows, changes = rows_of(get_task("wikinews_retrieval_clean"), SourceFolder(data_folder))
    assert not any("editprotected" in row["text"] for row in rows["corpus"])


@pytest.mark.parametrize(
    ("text", "name", "masked"),
    [
        ("ABC商事は", "ＡＢＣ商事", f"{MASK}は"),
        ("㈱エイ・ﾋﾞｰ（エイ・ビー）", "エイ・ビー", f"㈱{MASK}（{MASK}）"),
        ("a+bはaabではない", "A+B", f"{MASK}はaabではない"),
        ("名なし", "", "名なし"),
        ("ほかの社", "当社", "ほかの社"),
    ],
)
def test_a_name_is_masked_up_to_width_and_case(text: str, name: str, masked: str) -> None:
    assert mask_name(text, name) == masked


@pytest.mark.parametrize(
    "name",
    ["chabsa_since_202406", "ews_domain_since", "ews_domain_since_202413", "pfmt_dump", "x_clean",
     "ews_domain_clean_202406", "ews_domain_clean_clean"],
)  # fmt: skip
def test_variants_that_do_not_exist(name: str) -> None:
    tasks = {task.name: task for task in get_suite("all")}
    assert variant(name, tasks) is None
    with pytest.raises(UsageError, match="no task"):
        get_task(name)


def test_variants_never_enter_the_papers_suites() -> None:
    for name in ("ews_domain_clean", "ews_domain_since_202406", "ews_domain_since_202406_n50"):
        task = get_task(name)
        assert "jfinteb" not in task.suites
        assert task.recipe is not None and task.recipe.base == "ews_domain"
        assert task.title != get_task("ews_domain").title


def test_published_rows_never_stand_in_for_a_variants(tmp_path: Path) -> None:
    task = get_task("ews_reason")
    for file in task.other_sources["published"].files.values():
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_text("{}", encoding="utf-8")
    assert SourceFolder(tmp_path).choose(task) is not None
    assert SourceFolder(tmp_path).choose(get_task("ews_reason_since_202407_n10")) is None


def test_clean_real_sets_have_no_text_twice(data_folder: Path) -> None:
    for name in ("wikinews_clean", "industry33_clean", "wikinews_retrieval_clean"):
        rows, _ = rows_of(get_task(name), SourceFolder(data_folder))
        texts = [
            unicodedata.normalize("NFKC", row.get("text", row.get("query"))).strip()
            for split in rows.values()
            for row in split
        ]
        assert all(texts)
        if name != "wikinews_retrieval_clean":
            assert len(set(texts)) == len(texts)
