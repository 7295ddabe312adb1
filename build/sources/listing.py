"""Securities codes from the listing template 上場情報 of a company's page, in its many spellings.

The template takes an exchange, a code, the day of listing and the day of delisting, by position or
by name, once a listing, as a rule inside the template 基礎情報 会社:

    {{上場情報|東証プライム|9999|2022年4月4日}}
    {{上場情報 | 取引所 = [[東京証券取引所|東証プライム市場]] | コード = '''９９９９''' }}
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jfinteb.build.sources.templates import name_of
from jfinteb.build.sources.wikitext import lines, parse, without_comments, without_refs

__all__ = ["Listing", "listings", "prime_codes"]

_TEMPLATE = "上場情報"
_EXCHANGE = ("取引所", "市場", "exchange")
_CODE = ("コード", "code", "ticker", "銘柄")
_END = ("廃止", "終了", "delist")
# four characters, letters among them since 2024; a fifth for shares of another class; no year
_TICKER = re.compile(r"(?<![0-9A-Z.])[0-9][0-9A-Z][0-9][0-9A-Z][0-9]?(?![0-9A-Z年/]|[-.]\d)")
_PRIME = re.compile(r"プライム|prime", re.IGNORECASE)
_OTHER = re.compile(
    r"スタンダード|グロース|マザーズ|jasdaq|[12一二]部|プレミア|ネクスト|メイン", re.I
)
_MOVED = re.compile(r"→|⇒|➡|->|=>|から(?=[^()]{0,16}(?:プライム|スタンダード|グロース|証))")
_FORMER = re.compile(r"[(]\s*(?:旧|元|前)[^()]*[)]")
_DAY = re.compile(r"\d{4}\s*[年/.-]")
_UNTIL = re.compile(
    r"(?:[-–—―~〜～]|から)\s*\d{4}\s*[年/.-]|\d\s*[日月年]?\s*(?:まで|迄)(?=[\s)]|\Z)"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing.

    Attributes:
        prime: on the Prime section of the Tokyo Stock Exchange.
        codes: as the exchange writes them, such as 9999 or 130A.
        ended: delisted there.
    """

    prime: bool
    codes: tuple[str, ...]
    ended: bool


def prime_codes(text: str) -> tuple[list[str], str]:
    """Codes of the Prime listings of a page, best first, and why there is none.

    Args:
        text: wikitext of the whole page, or of a part.
    """
    found = list(listings(text))
    if not found:
        return [], f"no listing template ({_TEMPLATE})"
    prime = [listing for listing in found if listing.prime]
    if not prime:
        return [], "no listing on the Prime section"
    current = [listing for listing in prime if not listing.ended]
    if not current:
        return [], "delisted from the Prime section"
    codes = list(dict.fromkeys(code for listing in current for code in listing.codes))
    return sorted(codes, key=len), "" if codes else "no code in the listing template"


def listings(text: str) -> Iterator[Listing]:
    """Listings in the infobox; if it has none, all others of the text."""
    if _TEMPLATE not in text:
        return
    templates = parse(without_refs(without_comments(text))).filter_templates()
    inside = [
        template
        for box in templates
        if name_of(box).startswith(("基礎情報", "infobox"))
        for parameter in box.params
        for template in parameter.value.filter_templates()
    ]
    for chosen in (inside, templates):
        found = {id(t): t for t in chosen if name_of(t) == _TEMPLATE}
        if found:
            yield from map(_listing, found.values())
            return


def _listing(template: Any) -> Listing:
    values = _values(template)
    exchange = _named(values, _EXCHANGE) or values.get("1", "")
    code = _named(values, _CODE) or values.get("2", "")
    codes = _TICKER.findall(code.upper()) or _TICKER.findall(values.get("1", "").upper())
    end = _named(values, _END) or values.get("4", "")
    text = " ".join(value for name, value in values.items() if not _is(name, _END))
    text = _FORMER.sub("", text)
    ended = bool(_DAY.search(end) or "廃止" in text or "廃止" in end or _UNTIL.search(text))
    if _PRIME.search(values.get("2", "")) and not _PRIME.search(exchange):  # written code first
        exchange, codes = values["2"], _TICKER.findall(values.get("1", "").upper())
    return Listing(_is_prime(exchange), tuple(codes), ended)


def _values(template: Any) -> dict[str, str]:
    """Arguments by name or number: what they show, folded to half width."""
    values = {}
    for parameter in template.params:
        name = _fold(str(parameter.name)).lower()
        shown = " ".join(lines(str(parameter.value))) or " ".join(
            str(inner.value)  # such as {{TYO|9999}}, which shows nothing that we know of
            for nested in parameter.value.filter_templates()
            for inner in nested.params
        )
        targets = "".join(f"\n{link.title}" for link in parameter.value.filter_wikilinks())
        values[name] = _fold(shown + targets)
    return values


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()


def _is(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


def _named(values: dict[str, str], words: tuple[str, ...]) -> str:
    return next((v for name, v in values.items() if _is(name, words) and v), "")


def _is_prime(exchange: str) -> bool:
    """Whether the section now is Prime: what is shown decides, the links' targets help it out."""
    shown, _, targets = exchange.partition("\n")
    now = _MOVED.split(_FORMER.sub("", shown))[-1]
    if _PRIME.search(now):
        return not now.startswith(("旧", "元"))
    former = _PRIME.search(shown) is not None
    return not former and bool(_PRIME.search(targets)) and not _OTHER.search(now)
