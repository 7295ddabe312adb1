"""The Wikipedia tasks from a dump of our own; their splits against the authors' published rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jfinteb.build.sources.jpx import stocks
from jfinteb.build.sources.wikipedia import (
    Company,
    classification,
    companies,
    overview_of,
    retrieval,
)
from jfinteb.loaders.errors import DataError, UnavailableError

Make = Callable[..., Path]
TEXTS = {
    "130Z": "みほんバイオは、医薬品の会社。",
    "9901": (
        "株式会社みほん精機（みほんせいき、Mihon Mihon Seiki Co., Ltd.）は、長野県諏訪に本社を置く"
        "工作機械メーカー。東証プライムに上場している。CO2を103 kg<毎年>減らす。研削盤が主力で、"
        "M&Aも行う 。"
        "みほん商事（名古屋市）北米みほん"
    ),
    "9902": "みほん商事は、商社。",
    "9903": "みほん自動車は、自動車メーカー。",
    "9905": "みほん茶園は、茶の会社。",
    "9906": "みほん銀行は、銀行。",
    "9907": "みほん短文は、食品の会社。",
    "9908": "みほん順番は、化学の会社。概要は載せる。事業も載せる。",
    "9909": "みほん壊は、機械の会社二行目の本文リンク。最後の本文。",
    "9910": "みほん入れ子（見本（みほん）、旧：ミホン）は、小売業。既定",
    "9911": "みほん改訂は、建設の会社。",
    "9912": "みほん枠外は、情報の会社。",
    "9913": "みほん投信は、投資の会社。",
    "9914": "みほん下段は、菓子とその会社。",
}
DROPPED = {
    "delisted from the Prime section": ("みほん旧社", "みほん廃止", "みほん期間"),
    "no listing on the Prime section": ("みほん移行", "みほん標準"),
    "no wikitext": ("みほん削除", "みほん設定"),
    "redirect": ("三本精機", "見本精機"),
    "code not in data_j.xls": ("みほん新規 (9927)",),
    "code of an earlier page": ("みほん精機 (ブランド) (9901)",),
    "no code in the listing template": ("みほん無番",),
    "no listing template (上場情報)": ("みほん不明",),
    "not an article": ("利用者:例/下書き",),
}


@pytest.fixture
def listing(workbook: Make, stock: Callable[..., list[str | int]]) -> Path:
    rows = [
        stock(code if code == "130Z" else int(code), f"社{code}", "化学", "食品") for code in TEXTS
    ]
    rows[-2] = stock(9913, "社9913", "-", "-")
    extra = [stock(code, "?", "化学", "食品") for code in (99055, 9920, 9921, 9922, 9998, 9999)]
    return workbook(rows + extra)


@pytest.mark.parametrize("step", [None, 0, 1000])
def test_companies(
    dump: Callable[[str], Path], packed: Make, listing: Path, step: int | None
) -> None:
    path = dump("jawiki")
    found, report = companies(path if step == 0 else packed(path, step), listing)
    assert {company.code: company.text for company in found} == TEXTS
    assert [company.code for company in found] == sorted(TEXTS)
    assert [company.name for company in found] == [f"社{code}" for code in sorted(TEXTS)]
    assert {company.sector33 for company in found if company.code != "9913"} == {"化学"}
    assert {company.sector17 for company in found if company.code != "9913"} == {"食品"}
    assert report.titles == DROPPED
    assert report.counts == {reason: len(titles) for reason, titles in DROPPED.items()}
    assert list(report.counts) == list(DROPPED)
    assert report.pages == path.read_text(encoding="utf-8").count("<page>")


def test_no_page_of_the_category(dump: Callable[[str], Path], listing: Path) -> None:
    with pytest.raises(
        DataError, match="has no page of the category 東証プライム上場企業 among 14"
    ):
        companies(dump("jawikinews"), listing)


def test_without_the_library(
    monkeypatch: pytest.MonkeyPatch, dump: Callable[[str], Path], listing: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(UnavailableError, match=r"pip install 'jfinteb\[build\]'"):
        companies(dump("jawiki"), listing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("導入\n== 概要 ==\n概要\n== 沿革 ==\n沿革\n", "導入概要"),
        ("導入\n==概要==\n概要", "導入概要"),
        ("導入\n== 企業概要・特色 ==\n概要\n", "導入概要"),
        ("導入\n== 概要 ==\n概要\n=== 特色 ===\n特色\n", "導入概要"),
        ("導入\n== 概要 ==\n=== 事業概要 ===\n事業\n=== 他 ===\n他\n", "導入事業"),
        ("導入\n== 沿革 ==\n沿革\n== 概要 ==\n概要\n== 脚注 ==\n", "導入概要"),
        ("導入\n== 沿革 ==\n沿革\n", "導入"),
        ("導入", "導入"),
        ("== 概要 ==\n概要だけ\n", "概要だけ"),
        ("導入<!--\n== 概要 ==\n無\n-->\n== 沿革 ==\n", "導入"),
    ],
)
def test_overview(text: str, expected: str) -> None:
    assert overview_of(text) == expected


def company(n: int, sector: str = "食品") -> Company:
    return Company(code=str(n), name=f"名{n}", text=f"文{n}", sector17=sector, sector33=sector)


def test_rows() -> None:
    found = [company(n) for n in range(10)] + [company(10, "-")]
    rows = classification(found, "sector17")
    assert [len(rows[split]) for split in ("train", "validation", "test")] == [7, 1, 2]
    assert sorted(row["text"] for part in rows.values() for row in part) == [
        f"文{n}" for n in range(10)
    ]
    asked = retrieval(found)
    assert [len(asked[split]) for split in ("validation", "test", "corpus")] == [2, 9, 11]
    assert asked["validation"][0] == {"id": "validation-0", "query": "名0", "relevant_docs": ["1"]}
    assert asked["test"][0] == {"id": "test-0", "query": "名2", "relevant_docs": ["3"]}
    assert {row["docid"]: row["text"] for row in asked["corpus"]} == {
        str(n + 1): f"文{n}" for n in range(11)
    }


def published(folder: Path, *names: str) -> list[dict[str, Any]]:
    lines = (folder / "published" / "wikipedia" / Path(*names)).read_text(encoding="utf-8")
    return [json.loads(line) for line in lines.splitlines()]


def test_rows_are_the_authors_rows(data_folder: Path) -> None:
    """From their companies in the order of codes come their splits, row for row."""
    queries = [
        row
        for split in ("validation", "test")
        for row in published(data_folder, "retrieval", f"query-{split}.jsonl")
    ]
    texts = {row["docid"]: row["text"] for row in published(data_folder, "retrieval", "docs.jsonl")}
    named = {stock.name: stock for stock in stocks(data_folder / "jpx" / "data_j.xls").values()}
    found = [
        Company(
            code=named[row["query"]].code,
            name=row["query"],
            text=texts[row["relevant_docs"][0]],
            sector17=named[row["query"]].sector17,
            sector33=named[row["query"]].sector33,
        )
        for row in queries
    ]
    assert [c.code for c in found] == sorted(c.code for c in found)
    for industry, sector in (("industry17", "sector17"), ("industry33", "sector33")):
        rows = classification(found, sector)  # type: ignore[arg-type]
        for split, part in rows.items():
            bare = [{"text": row["text"], "label": row["label"]} for row in part]
            assert bare == published(data_folder, industry, f"{split}.jsonl")
    asked = retrieval(found)
    assert [(int(row["docid"]), row["text"]) for row in asked["corpus"]] == [
        (row["docid"], row["text"]) for row in published(data_folder, "retrieval", "docs.jsonl")
    ]
    for split in ("validation", "test"):
        bare = [
            {"query": row["query"], "relevant_docs": [int(d) for d in row["relevant_docs"]]}
            for row in asked[split]
        ]
        assert bare == published(data_folder, "retrieval", f"query-{split}.jsonl")
