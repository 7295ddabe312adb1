"""Wikinews classification and retrieval, from a dump of Japanese Wikinews.

The authors' rules (JFinTEB, `src/data/wikinews.py`): articles of the categories 政治 and 経済, the
paragraphs after the first joined in one line. They read the rendered pages in the order of titles;
here the order is the dump's, and notes that templates add are no part of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfinteb.build.sources import wikitext
from jfinteb.build.sources.drops import Dropped, DropReport
from jfinteb.build.sources.dump import Progress, read_dump
from jfinteb.build.sources.pages import Page
from jfinteb.build.sources.templates import name_of
from jfinteb.build.sources.wikipedia import title_to_text
from jfinteb.loaders.errors import DataError

__all__ = ["CATEGORIES", "Article", "articles", "classification", "in_both", "retrieval"]

CATEGORIES = ("政治", "経済")
_CORRECTION = re.compile(
    r"訂正(?:記事|版)?(?:\s*\Z|\s*[：:、，,・\-–—/／]|\s+)"  # alone, or before a separator
    r"|.*[【(（\[［〔]\s*訂正(?:記事|版)?\s*[】)）\]］〕]"
)
_DATELINE = re.compile(r"【[^】]*】[\s　]*")
_DATE_TEMPLATES = frozenset(("日付", "date", "dateline", "公開日"))
_ONE = (
    r"(?:情報源|情報元|出典|出所|典拠|脚注|注釈?|註釈?|ソース|参考(?:文献|資料|記事|サイト|リンク|URL)?"
    r"|(?:内部|外部)?リンク(?:集)?|関連(?:記事|項目|ニュース|情報|サイト|ページ|資料|リンク)?)"
)
_NOT_TEXT = re.compile(rf"{_ONE}(?:\s*(?:[・、，,/／&＆]|と|及び|および)\s*{_ONE})*", re.IGNORECASE)
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """A news article.

    Attributes:
        text: the paragraphs after the first, joined; of a single paragraph, what follows the date.
        lead: the first paragraph, "" where that is a template of the date.
        categories: one or both of `CATEGORIES`.
    """

    title: str
    text: str
    lead: str
    categories: tuple[str, ...]


def articles(
    dump: Path, progress: Progress | None = None, workers: int | None = None
) -> tuple[list[Article], DropReport]:
    """Articles on politics and the economy in dump order, and the pages left out.

    Args:
        dump: jawikinews `pages-articles[-multistream].xml.bz2`, or that unpacked.
        progress: called with bytes read and bytes in all.
        workers: processes; default: one a core.

    Raises:
        DataError: the dump is not what it should be, or has no page of the categories.
        UnavailableError: the extra `build` is not installed.
    """
    wikitext.parse("")  # a missing library shows before the dump is read
    found, report = read_dump(dump, CATEGORIES, _article, progress, workers)
    if not found and not report.counts:
        raise DataError(
            f"{dump.name} has no page of the categories {' and '.join(CATEGORIES)} among "
            f"{report.pages:,}; expected a dump of Japanese Wikinews"
        )
    return found, report


def classification(found: list[Article]) -> Rows:
    """Rows of politics or economy: the order given, cut 70/10/20; no row for articles in both."""
    single = [article for article in found if len(article.categories) == 1]
    train, validation = int(len(single) * 0.7), int(len(single) * 0.1)
    parts = {
        "train": single[:train],
        "validation": single[train : train + validation],
        "test": single[train + validation :],
    }
    return {
        split: [
            {"id": f"{split}-{n}", "text": article.text, "label": article.categories[0]}
            for n, article in enumerate(part)
        ]
        for split, part in parts.items()
    }


def in_both(found: list[Article]) -> list[Dropped]:
    """Articles of both categories, which are no row of the classification."""
    reason = " and ".join(CATEGORIES)
    return [Dropped(a.title, f"in both {reason}") for a in found if len(a.categories) > 1]


def retrieval(found: list[Article]) -> Rows:
    """Rows of headline to article: see `title_to_text`."""
    return title_to_text([(article.title, article.text) for article in found])


def _article(page: Page) -> Article | Dropped | None:
    try:
        return _read(page)
    except wikitext.UnreadableError:
        return Dropped(page.title, "wikitext too broken to read")


def _read(page: Page) -> Article | Dropped | None:
    names = wikitext.categories(page.text) if page.text is not None else list(CATEGORIES)
    inside = tuple(name for name in CATEGORIES if name in names)
    if not inside:
        return None
    if page.namespace != 0:
        return Dropped(page.title, "not an article")
    if page.redirect:
        return Dropped(page.title, "redirect")
    if page.text is None:
        return Dropped(page.title, "no wikitext")
    if _CORRECTION.match(page.title) or any("訂正" in name for name in names):
        return Dropped(page.title, "correction")
    lead, text = _body(page.text, page.title)
    return Article(title=page.title, text=text, lead=lead, categories=inside)


def _body(text: str, title: str) -> tuple[str, str]:
    """First paragraph and the others. A date that stands alone, or by template, is the first."""
    parts = wikitext.sections(text)
    paragraphs = [
        paragraph
        for part in parts
        if not _NOT_TEXT.fullmatch("".join(wikitext.lines(part.title)))
        for paragraph in wikitext.paragraphs(part.body, title)
    ]
    top = wikitext.parse(parts[0].body).filter_templates(recursive=False)
    if any(name_of(template) in _DATE_TEMPLATES for template in top):
        return "", "".join(paragraphs)
    if len(paragraphs) > 1:
        return paragraphs[0], "".join(paragraphs[1:])
    only = "".join(paragraphs)
    date = _DATELINE.match(only)
    return (date[0].strip(), only[date.end() :]) if date else ("", only)
