"""Make a large dump in the form of Japanese Wikipedia's, the same bytes on any machine.

    python tests/bench/make_dump.py FILE --megabytes 500 --form multistream

One page in 60 is a company of the category; the others are articles, redirects, talk and templates
without it. Words are drawn from a made-up vocabulary, so that bzip2 packs about 5 to 1, as it does
with the real one.
"""

from __future__ import annotations

import argparse
import bz2
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

SEED = 42
CATEGORY = "東証プライム上場企業"
FORMS = ("xml", "multistream", "single")
_STREAM = 100  # pages a stream, as in real multistream dumps
_LETTERS = (
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ"
    "一二三四五六七八九十日月火水木金土東西南北中"
)
_HEAD = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://www.mediawiki.org/xml/export-0.11/ \
http://www.mediawiki.org/xml/export-0.11.xsd" version="0.11" xml:lang="ja">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>jawiki</dbname>
  </siteinfo>
"""
_PAGE = """\
  <page>
    <title>{title}</title>
    <ns>{namespace}</ns>
    <id>{number}</id>
{redirect}    <revision>
      <id>{revision}</id>
      <timestamp>2025-05-20T00:00:00Z</timestamp>
      <contributor>
        <username>例</username>
        <id>7</id>
      </contributor>
      <comment>/* 概要 */ 整形</comment>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{size}" sha1="" xml:space="preserve">{text}</text>
      <sha1></sha1>
    </revision>
  </page>
"""


class _Writer:
    """Draws words, sentences and pages."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)
        lengths = self._random.choices((1, 2, 3, 4, 6), (3, 5, 4, 3, 1), k=30_000)
        self._words = ["".join(self._random.choices(_LETTERS, k=n)) for n in lengths]
        weights = [1 / (n + 20) for n in range(len(self._words))]  # Zipf's law
        self._cumulative = list(itertools.accumulate(weights))

    def prose(self, words: int) -> str:
        """Sentences with links, references and templates here and there."""
        drawn = self._random.choices(self._words, cum_weights=self._cumulative, k=words)
        for n in range(7, words, 15):
            drawn[n] = f"[[{drawn[n]}|{drawn[n - 1]}]]、"
        for n in range(14, words, 45):
            drawn[n] += f"<ref>{{{{Cite web|title={drawn[n - 2]}|date=2020-01-01}}}}</ref>。\n"
        return "".join(drawn)

    def article(self) -> str:
        """An article of 1 to 30 kB."""
        parts = [self.prose(self._random.randrange(40, 200))]
        parts += [
            f"\n\n== {heading} ==\n{self.prose(self._random.randrange(50, 900))}"
            for heading in ("概要", "歴史", "脚注")[: self._random.randrange(1, 4)]
        ]
        return "".join(parts) + "\n\n[[Category:例の分類]]\n"

    def company(self, number: int) -> str:
        """A company's article, with infobox, table and gallery."""
        code = f"{number % 9000 + 1000}"
        return (
            f"{{{{基礎情報 会社\n|社名 = 例{number}株式会社\n|市場情報 = "
            f"{{{{上場情報|東証プライム|{code}|1990年4月1日}}}}{{{{上場情報|名証プレミア|{code}}}}}\n"
            "|代表者 = [[例太郎]]<ref>例</ref>\n}}\n"
            f"'''例{number}株式会社'''は、{self.prose(120)}\n\n== 概要 ==\n{self.prose(250)}\n"
            '{| class="wikitable"\n! 年 !! 額\n|-\n| 2020 || 1\n|}\n\n== 沿革 ==\n'
            f"{self.prose(900)}\n\n[[Category:{CATEGORY}|れい{number}]]\n"
        )


def pages(size: int) -> Iterator[bytes]:
    """Pages in XML, until they have `size` bytes."""
    writer, number, written = _Writer(), 0, 0
    while written < size:
        number += 1
        title, namespace, redirect = f"頁{number}", 0, ""
        if number % 60 == 7:
            text = writer.company(number)
        elif number % 10 == 3:
            text, redirect = f"#転送 [[頁{number - 1}]]\n", '    <redirect title="頁" />\n'
        else:
            text = writer.article()
            if number % 10 == 5:
                title, namespace = f"ノート:頁{number}", 1
        page = _PAGE.format(
            title=title,
            namespace=namespace,
            number=number,
            revision=number + 10**6,
            redirect=redirect,
            size=len(text.encode()),
            text=escape(text, {'"': "&quot;"}),
        ).encode()
        written += len(page)
        yield page


def make_dump(path: Path, megabytes: int, form: str) -> int:
    """Write a dump of so many MB (10^6 bytes) of XML; returns its bytes of XML."""
    one = bz2.BZ2Compressor() if form == "single" else None
    total, batch = 0, [_HEAD.encode()]
    with path.open("wb") as out:

        def flush() -> None:
            data = b"".join(batch)
            batch.clear()
            if one is not None:
                out.write(one.compress(data))
            else:
                out.write(bz2.compress(data) if form == "multistream" else data)

        for page in pages(megabytes * 10**6):
            if len(batch) == _STREAM or total == 0:
                total += sum(map(len, batch))
                flush()
            batch.append(page)
        total += sum(map(len, batch))
        flush()
        batch.append(b"</mediawiki>\n")
        total += len(batch[0])
        flush()
        if one is not None:
            out.write(one.flush())
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--form", choices=FORMS, default="multistream")
    args = parser.parse_args()
    total = make_dump(args.path, args.megabytes, args.form)
    print(f"{args.path}: {total:,} bytes of XML in {args.path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
