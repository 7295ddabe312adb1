"""Industry 17, Industry 33 and company retrieval, from a dump of Japanese Wikipedia.

The authors' rules (JFinTEB, `src/data/wikipedia.py`): articles of the category of companies on the
Prime section, matched by code with the exchange's list; the text is the lead and the overview.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jfinteb.build.sources import wikitext
from jfinteb.build.sources.drops import Dropped, DropReport
from jfinteb.build.sources.dump import Progress, read_dump
from jfinteb.build.sources.jpx import NO_SECTOR, stocks
from jfinteb.build.sources.listing import prime_codes
from jfinteb.build.sources.pages import Page
from jfinteb.build.split import SEED, shuffled_parts
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import CORPUS

__all__ = [
    "CATEGORY",
    "Company",
    "classification",
    "companies",
    "overview_of",
    "retrieval",
    "without_sector",
]

CATEGORY = "東証プライム上場企業"
_OVERVIEW = "概要"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A listed company with its article.

    Attributes:
        code: securities code.
        name: as the exchange writes it, full-width letters kept.
        text: lead and overview without markup, line breaks removed; may be empty.
        sector17, sector33: "-" where the exchange gives none.
    """

    code: str
    name: str
    text: str
    sector17: str
    sector33: str


@dataclass(frozen=True, slots=True)
class _Article:
    title: str
    codes: tuple[str, ...]
    text: str


def companies(
    dump: Path, listing: Path, progress: Progress | None = None, workers: int | None = None
) -> tuple[list[Company], DropReport]:
    """Companies of the category, by code, and the pages of the category that are left out.

    Args:
        dump: jawiki `pages-articles[-multistream].xml.bz2`, or that unpacked.
        listing: the exchange's `data_j.xls`.
        progress: called with bytes read and bytes in all.
        workers: processes; default: one a core.

    Raises:
        DataError: a file is not what it should be, or the dump has no page of the category.
        UnavailableError: the extra `build` is not installed.
    """
    known = stocks(listing)
    wikitext.parse("")  # a missing library shows before an hour of reading
    articles, report = read_dump(dump, [CATEGORY], _article, progress, workers)
    if not articles and not report.counts:
        raise DataError(
            f"{dump.name} has no page of the category {CATEGORY} among {report.pages:,}; "
            "expected a dump of Japanese Wikipedia of 2022-04 or later"
        )
    found: dict[str, Company] = {}
    for article in articles:
        code = next((c for c in article.codes if c in known), None)
        if code is None:
            what = f"code not in {listing.name}"
            report.add([Dropped(f"{article.title} ({article.codes[0]})", what)])
        elif code in found:
            report.add([Dropped(f"{article.title} ({code})", "code of an earlier page")])
        else:
            stock = known[code]
            found[code] = Company(
                code=code,
                name=stock.name,
                text=article.text,
                sector17=stock.sector17,
                sector33=stock.sector33,
            )
    return [found[code] for code in sorted(found)], report


def classification(found: list[Company], sector: Literal["sector17", "sector33"]) -> Rows:
    """Rows of Industry 17 or 33: shuffled with seed 42, cut 70/10/20; no sector, no row."""
    pairs = [(c.text, getattr(c, sector)) for c in found if getattr(c, sector) != NO_SECTOR]
    parts = shuffled_parts(pairs, 0.7, 0.1)
    return {
        split: [
            {"id": f"{split}-{n}", "text": text, "label": label}
            for n, (text, label) in enumerate(part)
        ]
        for split, part in zip(("train", "validation", "test"), parts, strict=True)
    }


def without_sector(found: list[Company], sector: Literal["sector17", "sector33"]) -> list[Dropped]:
    """Companies that are no row of a classification."""
    return [
        Dropped(f"{c.name} ({c.code})", "no sector in the list")
        for c in found
        if getattr(c, sector) == NO_SECTOR
    ]


def retrieval(found: list[Company]) -> Rows:
    """Rows of company name to article: see `title_to_text`."""
    return title_to_text([(company.name, company.text) for company in found])


def title_to_text(pairs: list[tuple[str, str]], validation: float = 0.2) -> Rows:
    """Queries in the order given, the first fifth for validation; documents shuffled with seed 42.

    A document's id is its place in the order given, from 1.
    """
    documents = [{"docid": str(n), "text": text} for n, (_, text) in enumerate(pairs, start=1)]
    (documents,) = shuffled_parts(documents, seed=SEED)
    cut = int(len(pairs) * validation)
    rows: Rows = {"validation": [], "test": [], CORPUS: documents}
    for n, (query, _) in enumerate(pairs):
        split = "validation" if n < cut else "test"
        row = {"id": f"{split}-{len(rows[split])}", "query": query, "relevant_docs": [str(n + 1)]}
        rows[split].append(row)
    return rows


def overview_of(text: str, page: str = "") -> str:
    """Lead and overview of an article in one line, without markup.

    The overview is the first section with 概要 in its heading, up to the next heading without.
    """
    lead, *others = wikitext.sections(text)
    parts = [lead.body]
    for section in others:
        if _OVERVIEW in section.title:
            parts.append(section.body)
        elif len(parts) > 1:
            break
    return "".join(line for part in parts for line in wikitext.lines(part, page))


def _article(page: Page) -> _Article | Dropped | None:
    try:
        return _read(page)
    except wikitext.UnreadableError:
        return Dropped(page.title, "wikitext too broken to read")


def _read(page: Page) -> _Article | Dropped | None:
    text = page.text
    if text is not None and CATEGORY not in wikitext.categories(text):
        return None
    if page.namespace != 0:
        return Dropped(page.title, "not an article")
    if page.redirect:
        return Dropped(page.title, "redirect")
    if text is None:
        return Dropped(page.title, "no wikitext")
    codes, reason = prime_codes(wikitext.sections(text)[0].body)
    if not codes:
        codes, reason = prime_codes(text)
    if not codes:
        return Dropped(page.title, reason)
    return _Article(page.title, tuple(codes), overview_of(text, page.title))
