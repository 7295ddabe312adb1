"""Wikitext to clean text: what a reader sees of the prose, and no markup.

The grammar is mwparserfromhell's; what it does not know (unclosed references, tables and comments,
quotation marks, magic words) is put right before or after it. `rendering` reads its trees.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from jfinteb.build.sources.nesting import fault
from jfinteb.build.sources.rendering import LIST, render
from jfinteb.loaders.errors import UnavailableError

__all__ = [
    "Section",
    "UnreadableError",
    "categories",
    "lines",
    "paragraphs",
    "parse",
    "sections",
    "without_comments",
    "without_refs",
]

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LITERAL = re.compile(r"<(nowiki|pre|syntaxhighlight|source)\b[^<>]*>", re.IGNORECASE)
_REF = re.compile(r"<ref\b[^<>]*?(/?)>|</ref\s*>", re.IGNORECASE)
_CATEGORY = re.compile(r"\[\[[ _]*(?:category|カテゴリ)[ _]*:([^\[\]|{}\n]+)(?:\||\]\])", re.I)
_LIST_MARK = re.compile(r"^[*#:;]+", re.MULTILINE)
_LEADING_EQUALS = re.compile("^=", re.MULTILINE)
_LAYERS = 8
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|br|center|cite|code|dd|del|div|dl|dt|em|font|gallery|h[1-6]|hr|i"
    r"|img|includeonly|ins|kbd|li|math|noinclude|nowiki|ol|onlyinclude|p|poem|pre|q|ref|references"
    r"|rp|rt|ruby|s|samp|small|source|span|strike|strong|sub|sup|syntaxhighlight|table|tbody|td"
    r"|templatestyles|th|thead|time|tr|tt|u|ul|var|wbr)\b[^<>\n]*>",
    re.IGNORECASE,
)
_LEFT_OVER = re.compile(
    r"\{\{[^{}\n]*\}\}|\{\{.*$"  # what no grammar could read, to the end of its line
    r"|\[\[[ _]*(?:file|image|category|ファイル|画像|カテゴリ)[ _]*:.*$"
    r"|\[\[[^\[\]|\n]*\||\[\[|\]\]|\}\}|\{\||\|\}|'{2,}|<!--|-->|__[A-Z]{3,}__|__[ぁ-ん一-鿿]{2,}__",
    re.IGNORECASE,
)
_UNCLOSED_TABLE = re.compile(r"[ \t]*(?:\{\||\|\}|\||!)")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffc]")
_EMPTY_BRACKETS = re.compile(r"[（(][ 　、，,;；:：・/]{0,16}[)）]")
_AFTER_BRACKET = re.compile(r"([（(])[ 　、，,;；]{1,8}|[ 　、，,;；]{1,8}([)）])")
_SPACES = re.compile(r"[ \t\u00a0\u2000-\u200a\u202f]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (level 0 and no title: the lead) and the wikitext up to the next heading."""

    level: int
    title: str
    body: str


class UnreadableError(ValueError):
    """Wikitext nested or broken beyond what a parser reads in reasonable time."""


def parse(text: str) -> Any:
    """The syntax tree of mwparserfromhell (a `Wikicode`).

    Raises:
        UnavailableError: mwparserfromhell is not installed.
        UnreadableError: too much is opened and not closed; the parser would go back to each.
    """
    if (broken := fault(text)) is not None:
        raise UnreadableError(broken)
    try:
        import mwparserfromhell
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "reading dumps needs mwparserfromhell; install it with: pip install 'jfinteb[build]'"
        ) from error
    # headings are cut before; many equals signs at the start of a line exhaust the parser's stack
    text = _LIST_MARK.sub(LIST, _LEADING_EQUALS.sub(" =", text))
    return mwparserfromhell.parse(text, skip_style_tags=True)


def without_comments(text: str) -> str:
    """Wikitext without comments; an unclosed one reaches to the end, as in MediaWiki."""
    return _COMMENT.sub("", text)


def categories(text: str) -> list[str]:
    """Names of the categories that a page puts itself into, without sort keys, in order."""
    text = without_comments(text)
    literal = _literal(text)
    return [
        match[1].replace("_", " ").strip()
        for match in _CATEGORY.finditer(text)
        if not _within(literal, match.start())
    ]


def sections(text: str) -> list[Section]:
    """A page without comments, cut at its headings; the lead first, be it empty."""
    text = without_comments(text)
    literal = _literal(text)
    found, start, level, title, at = [], 0, 0, "", 0
    for line in text.splitlines(keepends=True):
        heading = _heading(line)
        if heading is not None and not _within(literal, at):
            found.append(Section(level, title, text[start:at]))
            start, (level, title) = at + len(line), heading
        at += len(line)
    return [*found, Section(level, title, text[start:])]


def _heading(line: str) -> tuple[int, str] | None:
    if not line.startswith("="):
        return None
    line = line.rstrip()
    left = len(line) - len(line.lstrip("="))
    right = len(line) - len(line.rstrip("="))
    level = min(left, right, 6, (len(line) - 1) // 2)
    return (level, line[level:-level].strip()) if level > 0 else None


def _literal(text: str) -> list[tuple[int, int]]:
    """Where text stands that is not wikitext: nowiki and its like."""
    found, at, lower = [], 0, text.lower()
    unclosed: set[str] = set()
    while match := _LITERAL.search(text, at):
        at = match.end()
        name = match[1].lower()
        end = -1 if name in unclosed else lower.find(f"</{name}", at)
        if end == -1:
            unclosed.add(name)
        else:
            found.append((match.start(), end))
            at = end
    return found


def _within(spans: list[tuple[int, int]], at: int) -> bool:
    n = bisect_right(spans, (at, at))
    return n > 0 and spans[n - 1][0] <= at < spans[n - 1][1]


def lines(text: str, page: str = "") -> list[str]:
    """Clean lines of text, list items among them, none empty.

    Args:
        text: wikitext of a section.
        page: the page's title, which wikitext may name as {{PAGENAME}}.
    """
    clean = (line.replace(LIST, "").strip() for line in _clean(text, page).split("\n"))
    return [line for line in clean if line]


def paragraphs(text: str, page: str = "") -> list[str]:
    """Clean paragraphs: lines up to an empty one, joined; list items and headings are no part."""
    found: list[list[str]] = [[]]
    for line in _clean(text, page).split("\n"):
        if line.strip() and LIST not in line:
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    return ["".join(part) for part in found if part]


def _clean(text: str, page: str) -> str:
    text = without_refs(without_comments(text))
    text = render(parse(text), page)
    for _ in range(_LAYERS):  # `&amp;nbsp;` is one more entity inside
        plain = "\n".join(map(_prose, _ENTITY.sub(_character, text).split("\n")))
        if plain == text:
            break
        text = plain
    text = unicodedata.normalize("NFC", _SPACES.sub(" ", _INVISIBLE.sub("", text)))
    text = _AFTER_BRACKET.sub(lambda m: m[1] or m[2], text)
    return _EMPTY_BRACKETS.sub("", text)


def _prose(line: str) -> str:
    """A rendered line without what the grammar left over, which is nothing to read."""
    for _ in range(_LAYERS):  # one thing may come to light when another goes
        if _UNCLOSED_TABLE.match(line) or _heading(line.strip()):
            return ""
        shorter = _LEFT_OVER.sub("", _TAG.sub("", line))
        if shorter == line:
            return line
        line = shorter
    return re.sub(r"[\[\]{}<>|]", "", line)


def _character(match: re.Match[str]) -> str:
    return html.unescape(match[0])


def without_refs(text: str) -> str:
    """Without footnotes; one that nothing closes before the next ends with its line."""
    kept, at = [], 0
    tags = [m for m in _REF.finditer(text) if not m[1]]
    for n, tag in enumerate(tags):
        if tag.start() < at:
            continue
        kept.append(text[at : tag.start()])
        following = tags[n + 1] if n + 1 < len(tags) else None
        if tag[0].startswith("</"):
            at = tag.end()
        elif following is not None and following[0].startswith("</"):
            at = following.end()
        else:
            line_end = text.find("\n", tag.end())
            at = len(text) if line_end == -1 else line_end
    return re.sub(r"<ref\b[^<>]*/>", "", "".join([*kept, text[at:]]), flags=re.IGNORECASE)
