"""The Wikinews tasks from a dump of our own; their splits against the authors' published rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jfinteb.build.sources.drops import Dropped
from jfinteb.build.sources.pages import Page
from jfinteb.build.sources.wikinews import Article, _article, articles, classification, retrieval
from jfinteb.loaders.errors import DataError

FOUND = [
    Article(
        title="みほん国会、予算を可決",
        text='国会は24日、予算を可決した。例党は反対した。例大臣は「"前進"」と述べた。',
        lead="",
        categories=("政治",),
    ),
    Article(
        title="みほん銀行、利上げ",
        text="中央銀行は利上げを決めた。総裁が会見した[1]。市場は冷静だった。",
        lead="【2007年2月21日】",
        categories=("経済",),
    ),
    Article(
        title="みほん市長選、現職が当選",
        text="投票率は50%だった。",
        lead="現職が当選した。導入の段落である。",
        categories=("政治",),
    ),
    Article(
        title="みほん電力、値上げ",
        text="みほん電力は値上げを発表した。",
        lead="【1日】",
        categories=("経済",),
    ),
    Article(
        title="みほん税、引き上げへ",
        text="政府は引き上げを決めた。",
        lead="【2日】",
        categories=("政治", "経済"),
    ),
    Article(
        title="みほん改訂正式決定",
        text="改訂が正式に決まった。",
        lead="【3日】",
        categories=("政治",),
    ),
    Article(
        title="みほん統計、発表",
        text="第一段落。第二段落。",
        lead="【5日】",
        categories=("経済",),
    ),
]
DROPPED = {
    "correction": ("【訂正】みほん市長選", "訂正：みほん電力の値上げ", "みほん商店街の記事"),
    "not an article": ("ノート:みほん国会、予算を可決", "Category:日本の政治"),
    "redirect": ("みほん税引き上げ",),
}


@pytest.mark.parametrize("step", [None, 0, 500])
def test_articles(
    dump: Callable[[str], Path], packed: Callable[..., Path], step: int | None
) -> None:
    path = dump("jawikinews")
    found, report = articles(path if step == 0 else packed(path, step))
    assert found == FOUND
    assert report.titles == DROPPED
    assert report.counts == {"correction": 3, "not an article": 2, "redirect": 1}
    assert report.pages == 14


@pytest.mark.parametrize(
    ("heading", "text"),
    [
        ("参考人招致", True),
        ("関連法案", True),
        ("リンク先の企業", True),
        ("出典不明の報道", True),
        ("ソースコードの公開", True),
        ("参考", False),
        ("参考文献", False),
        ("関連記事", False),
        ("関連ニュース", False),
        ("関連項目", False),
        ("外部リンク", False),
        ("リンク", False),
        ("情報源", False),
        ("出典・参考資料", False),
        ("'''情報源'''", False),
        ("脚注", False),
    ],
)
def test_sections_that_are_no_text(heading: str, text: bool) -> None:
    page = f"【1日】\n\n本文。\n\n== {heading} ==\nそれから。\n[[Category:政治]]\n"
    found = _article(Page(title="題", namespace=0, redirect=False, text=page))
    assert isinstance(found, Article)
    assert found.text == ("本文。それから。" if text else "本文。")


@pytest.mark.parametrize(
    ("title", "correction"),
    [
        ("訂正", True),
        ("【訂正】みほん市長選", True),
        ("みほん市長選（訂正）", True),
        ("訂正：みほん電力", True),
        ("訂正 みほん電力", True),
        ("訂正申告が過去最多に", False),
        ("訂正を拒否、みほん社長", False),
        ("みほん社、決算を訂正", False),
    ],
)
def test_corrections(title: str, correction: bool) -> None:
    page = "【1日】\n\n本文。\n[[Category:政治]]\n"
    found = _article(Page(title=title, namespace=0, redirect=False, text=page))
    assert isinstance(found, Dropped) == correction


def test_rows() -> None:
    rows = classification(FOUND)  # 6 of them: 4, 0 and 2
    assert [row["text"] for row in rows["train"]] == [FOUND[n].text for n in (0, 1, 2, 3)]
    assert rows["validation"] == []
    assert rows["test"] == [
        {"id": "test-0", "text": "改訂が正式に決まった。", "label": "政治"},
        {"id": "test-1", "text": "第一段落。第二段落。", "label": "経済"},
    ]
    asked = retrieval(FOUND)
    assert asked["validation"] == [
        {"id": "validation-0", "query": "みほん国会、予算を可決", "relevant_docs": ["1"]}
    ]
    assert [row["relevant_docs"] for row in asked["test"]] == [[str(n)] for n in range(2, 8)]
    assert {row["docid"]: row["text"] for row in asked["corpus"]} == {
        str(n): article.text for n, article in enumerate(FOUND, start=1)
    }


def test_no_page_of_the_categories(tmp_path: Path) -> None:
    path = tmp_path / "jawikinews.xml"
    path.write_text("<mediawiki>\n<page><title>題</title></page></mediawiki>", encoding="utf-8")
    with pytest.raises(DataError, match="no page of the categories 政治 and 経済 among 1;"):
        articles(path)


def published(folder: Path, *names: str) -> list[dict[str, Any]]:
    lines = (folder / "published" / "wikinews" / Path(*names)).read_text(encoding="utf-8")
    return [json.loads(line) for line in lines.splitlines()]


def test_rows_are_the_authors_rows(data_folder: Path) -> None:
    """From their articles in order come their splits, row for row."""
    queries = [
        row
        for split in ("validation", "test")
        for row in published(data_folder, "retrieval", f"query-{split}.jsonl")
    ]
    documents = published(data_folder, "retrieval", "docs.jsonl")
    texts = {row["docid"]: row["text"] for row in documents}
    labelled = [
        row
        for split in ("train", "validation", "test")
        for row in published(data_folder, "classification", f"{split}.jsonl")
    ]
    rest = iter([*labelled, {}])
    following = next(rest)
    found = []
    for row in queries:
        text = texts[row["relevant_docs"][0]]
        both: tuple[str, ...] = ("政治", "経済")
        if text == following.get("text"):
            both = (following["label"],)
            following = next(rest)
        found.append(Article(title=row["query"], text=text, lead="", categories=both))
    assert following == {}
    assert sum(len(article.categories) == 2 for article in found) == 21
    for split, part in classification(found).items():
        bare = [{"text": row["text"], "label": row["label"]} for row in part]
        assert bare == published(data_folder, "classification", f"{split}.jsonl")
    asked = retrieval(found)
    assert [(int(row["docid"]), row["text"]) for row in asked["corpus"]] == [
        (row["docid"], row["text"]) for row in documents
    ]
    assert [len(asked["validation"]), len(asked["test"])] == [199, 798]
