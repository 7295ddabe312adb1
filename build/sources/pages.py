"""Pages in the bytes of a MediaWiki export: found by their tags, parsed only if wanted."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.parsers import expat

from jfinteb.build.sources.drops import Dropped
from jfinteb.loaders.errors import DataError

__all__ = ["CLOSE", "END", "LARGEST", "OPEN", "Page", "Scanner", "parse_page"]

OPEN, CLOSE = b"<page>", b"</page>"
LARGEST = 4 * 2**20  # bytes of a page's XML; MediaWiki takes no more than 2 MiB of wikitext
END = 1000  # bytes, in which the end of an export must be
_REDIRECTS = ("#redirect", "#転送", "#リダイレクト")
_TITLE = re.compile(rb"<title>([^<]*)</title>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page's newest revision in the dump.

    Attributes:
        namespace: 0 for articles.
        redirect: whether it only leads to another page.
        text: wikitext; None where the dump withholds it or the page is not wikitext.
    """

    title: str
    namespace: int
    redirect: bool
    text: str | None


class Scanner:
    """Takes the bytes of an export piece by piece and gives the pages that may be wanted.

    Holds at most one page of `LARGEST` bytes and one piece.

    Args:
        words: UTF-8 texts of which a wanted page has one at least.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.pages = 0
        self._wanted = re.compile(b"|".join(re.escape(word.encode()) for word in words))
        self._rest = b""
        self._skipped = b""  # the start of a page that is too large, while its end is sought

    @property
    def rest(self) -> bytes:
        """Bytes after the last whole page; of a page that is too large, what shows that it is."""
        return self._skipped + self._rest

    def feed(self, data: bytes) -> Iterator[bytes | Dropped]:
        """Whole pages in XML that hold one of the words, and pages that are too large."""
        data = self._rest + data
        start, end = data.find(OPEN), data.find(CLOSE)
        if not self._skipped and start == end == -1:  # before the first page, or after the last
            self._rest = data if len(data) <= LARGEST else data[-END:]
            return
        if not self._skipped and (len(data) if end == -1 else end) - start > LARGEST:
            self._skipped = data[start : start + LARGEST + 1]
        if self._skipped:
            if end == -1:
                self._rest = data[1 - len(CLOSE) :]
                return
            yield Dropped(_title(self._skipped), f"page of more than {LARGEST >> 20} MiB")
            self.pages += 1
            self._skipped, data = b"", data[end + len(CLOSE) :]
        end = data.rfind(CLOSE) + len(CLOSE) if CLOSE in data else 0
        whole, self._rest = data[:end], data[end:]
        self.pages += whole.count(OPEN)
        yield from self._candidates(whole)

    def _candidates(self, whole: bytes) -> Iterator[bytes]:
        at = 0
        while hit := self._wanted.search(whole, at):
            start = whole.rfind(OPEN, at, hit.start())
            end = whole.find(CLOSE, hit.start()) + len(CLOSE)
            if start == -1:  # before the first page
                at = hit.end()
                continue
            at = end
            yield whole[start:end]


def _title(xml: bytes) -> str:
    found = _TITLE.search(xml[:10_000])
    return html.unescape(found[1].decode("utf-8", "replace")) if found else "(no title)"


class _Reader:
    """Handlers of expat: keeps the few elements that count."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.redirect = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.path.append(name)
        if name == "redirect" and len(self.path) == 2:
            self.redirect = True
        if name == "revision":  # a later one takes the place of an earlier one
            self.texts.pop("text", None)
            self.texts.pop("model", None)
        if name == "text" and "deleted" not in attributes:
            self.texts["text"] = []

    def end(self, name: str) -> None:
        self.path.pop()

    def data(self, text: str) -> None:
        if self.path[1:] in (["title"], ["ns"], ["revision", "text"], ["revision", "model"]):
            self.texts.setdefault(self.path[-1], []).append(text)

    def get(self, name: str) -> str | None:
        parts = self.texts.get(name)
        return None if parts is None else "".join(parts)


def parse_page(xml: bytes) -> Page:
    """Parse one `<page>` element.

    Raises:
        DataError: it is not well-formed, not UTF-8, or names entities that XML does not have.
    """
    reader = _Reader()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.data
    try:
        xml.decode("utf-8")
        parser.Parse(xml, True)
    except UnicodeDecodeError as error:
        raise DataError(f"page {_title(xml)!r} is not UTF-8 ({error.reason})") from error
    except expat.ExpatError as error:
        raise DataError(f"page {_title(xml)!r} is not well-formed XML ({error})") from error
    namespace = reader.get("ns") or "0"
    model = (reader.get("model") or "wikitext").strip()
    text = reader.get("text")
    return Page(
        title=(reader.get("title") or "").strip(),
        namespace=int(namespace) if namespace.strip().lstrip("-").isdecimal() else -1,
        redirect=reader.redirect or (text or "").lstrip().lower().startswith(_REDIRECTS),
        text=text if model == "wikitext" else None,
    )
