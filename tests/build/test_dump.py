"""Reading of dumps: every packing gives the same pages, and hostile files give one clear line."""

from __future__ import annotations

import bz2
import gzip
import itertools
import random
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfinteb.build.sources import dump as dumps
from jfinteb.build.sources.bzip2 import END_OF_FILE, Blocks, first_block
from jfinteb.build.sources.drops import Dropped, DropReport
from jfinteb.build.sources.dump import read_dump
from jfinteb.build.sources.pages import LARGEST, Page, Scanner, parse_page
from jfinteb.loaders.errors import DataError

Process: TypeAlias = "subprocess.CompletedProcess[str]"
TITLE = attrgetter("title")
WORD = "東証プライム上場企業"
HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">\n'


def page(title: str, text: str) -> str:
    return (
        f"  <page>\n    <title>{title}</title>\n    <ns>0</ns>\n    <id>1</id>\n    <revision>\n"
        f"      <model>wikitext</model>\n      <text xml:space='preserve'>{text}</text>\n"
        "    </revision>\n  </page>\n"
    )


def export(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + "</mediawiki>\n").encode()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def long_export() -> tuple[bytes, list[str], int]:
    """An export that packs badly, so that it has many blocks; wanted titles; all pages."""
    source = random.Random(7)
    pages, wanted = [], []
    for n in range(400):
        text = source.randbytes(source.randrange(10, 6000)).hex()
        if n % 3 == 0:
            text += WORD
            wanted.append(f"頁{n}")
        pages.append(page(f"頁{n}", text))
    return export(*pages), wanted, len(pages)


@pytest.mark.parametrize("part", [5_000, 300_000, 2**30])
@pytest.mark.parametrize("packing", ["plain", "one stream", "streams of pages", "pieces"])
def test_every_packing_gives_the_same_pages(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long_export: tuple[bytes, list[str], int],
    part: int,
    packing: str,
) -> None:
    data, wanted, count = long_export
    monkeypatch.setattr(dumps, "_PART", {True: part, False: part})
    if packing == "one stream":
        data = bz2.compress(data, 1)
    elif packing == "streams of pages":
        pages = data.split(b"  <page>")
        chunks = [b"  <page>" + b"  <page>".join(pages[n : n + 50]) for n in range(1, 401, 50)]
        data = b"".join(map(bz2.compress, [pages[0], *chunks]))
    elif packing == "pieces":  # pages, and letters, lie across streams
        data = b"".join(bz2.compress(data[n : n + 77_777]) for n in range(0, len(data), 77_777))
    titles, report = read_dump(write(tmp_path / "dump", data), [WORD], TITLE, workers=1)
    assert titles == wanted
    assert report.pages == count
    assert report.counts == {}


@pytest.mark.parametrize("packed", [True, False])
def test_processes_keep_the_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long_export: tuple[bytes, list[str], int],
    packed: bool,
) -> None:
    data, wanted, count = long_export
    monkeypatch.setattr(dumps, "_PART", {True: 150_000, False: 150_000})
    path = write(tmp_path / "dump", bz2.compress(data, 1) if packed else data)
    seen: list[tuple[int, int]] = []
    titles, report = read_dump(path, [WORD], TITLE, lambda *at: seen.append(at), workers=2)
    assert titles == wanted
    assert report.pages == count
    assert seen == sorted(seen)
    assert len(seen) > 4
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.binary(min_size=1, max_size=400_000), min_size=1, max_size=4),
    level=st.integers(1, 9),
    step=st.integers(20_000, 500_000),
)
def test_blocks_are_what_bz2_reads(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], level: int, step: int
) -> None:
    data = b"".join(bz2.compress(text * 3, level) for text in texts) + bz2.compress(b"")
    path = write(tmp_path_factory.mktemp("blocks") / "file", data)
    block, found = first_block(path), b""
    for start in range(0, len(data), step):
        blocks = Blocks(path, start, min(start + step, len(data)))
        found += b"".join(blocks)
        if blocks.first is not None:
            assert blocks.first == block
            block = blocks.after
    assert block == END_OF_FILE
    assert found == bz2.decompress(data)


@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(0, 2000)))
def test_pieces_may_end_anywhere(cuts: list[int]) -> None:
    data = export(page("一", WORD), page("二", "x"), page("三", f"y{WORD}" * 3), page("四", WORD))
    scanner, found = Scanner([WORD, "y"]), list[bytes | Dropped]()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, stop in itertools.pairwise(edges):
        found += scanner.feed(data[start:stop])
    assert [parse_page(xml).title for xml in found if isinstance(xml, bytes)] == ["一", "三", "四"]
    assert scanner.pages == 4
    assert scanner.rest == b"\n</mediawiki>\n"


def test_a_page() -> None:
    xml = (
        "<page><title>A &amp; B</title><ns>0</ns><id>3</id>"
        "<revision><id>1</id><model>wikitext</model><text>古い</text></revision>"
        "<revision><id>2</id><contributor><username>text</username></contributor>"
        "<comment>&lt;text&gt;</comment><model>wikitext</model>"
        '<text xml:space="preserve">&lt;ref&gt;<![CDATA[<b>]]>&#x65B0;</text></revision></page>'
    )
    assert parse_page(xml.encode()) == Page(
        title="A & B", namespace=0, redirect=False, text="<ref><b>新"
    )


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("part", [200_000, 2**30])
def test_a_page_of_50_mb_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, part: int
) -> None:
    monkeypatch.setattr(dumps, "_PART", {True: 16, False: part})
    fits = page("丁度", "z" * (LARGEST - 1000) + WORD)
    data = export(page("前", WORD), page("巨大", WORD + "x" * 50_000_000), page("後", WORD), fits)
    path = write(tmp_path / "dump", bz2.compress(data, 1) if packed else data)
    titles, report = read_dump(path, [WORD], TITLE, workers=1)
    assert titles == ["前", "後", "丁度"]
    assert report.counts == {"page of more than 4 MiB": 1}
    assert report.titles == {"page of more than 4 MiB": ("巨大",)}
    assert report.pages == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("packed", [True, False])
def test_memory_is_bounded(python: Callable[..., Process], tmp_path: Path, packed: bool) -> None:
    """A page of 150 MB, and 100 MB of blanks, in a process that may have 200 MB."""
    path = tmp_path / "dump"
    with bz2.open(path, "wb", 1) if packed else path.open("wb") as stream:
        stream.write((HEAD + f"<page><title>巨大</title><text>{WORD}").encode())
        for _ in range(150):
            stream.write(b"x" * 2**20)
        stream.write(b"</text></page>")
        for _ in range(100):
            stream.write(b" " * 2**20)
        stream.write(page("後", WORD).encode())
        stream.write(b"</mediawiki>\n")
    program = (
        "from operator import attrgetter\nfrom pathlib import Path\n"
        "from jfinteb.build.sources.dump import read_dump\n"
        f"titles, report = read_dump(Path({str(path)!r}), [{WORD!r}], attrgetter('title'),"
        " workers=1)\n"
        "print(titles, sum(report.counts.values()),"
        " int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) < 200_000)\n"
    )
    done = python(program, cwd=tmp_path)
    assert done.stdout.split() == ["['後']", "1", "True"], done.stderr


def test_drop_report_counts_and_shows_every_title() -> None:
    report = DropReport(pages=1200)
    report.add([Dropped(f"題{n}", "redirect") for n in range(12)] + [Dropped("単", "delisted")])
    assert report.counts == {"redirect": 12, "delisted": 1}
    assert str(report).splitlines() == [
        "1,200 pages read, 13 left out",
        "12  redirect: 題0, 題1, 題2, 題3, 題4, 題5, 題6, 題7, 題8, 題9, 題10, 題11",
        " 1  delisted: 単",
    ]


BOMB = (
    '<!DOCTYPE mediawiki [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n'
    + HEAD
    + page("題", f"&b;{WORD}")
    + "</mediawiki>\n"
).encode()
GOOD = export(page("題", WORD))
HOSTILE = {
    "entities": (BOMB, "has a DTD"),
    "external DTD": (b'<!DOCTYPE mediawiki SYSTEM "file:///etc/hostname">' + GOOD, "has a DTD"),
    "unknown entity": (export(page("題", f"&b;{WORD}")), "page '題' is not well-formed XML"),
    "markup": (export(page("題", f"<b>{WORD}")), "page '題' is not well-formed XML"),
    "control character": (export(page("題", f"\x01{WORD}")), "page '題' is not well-formed XML"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "is in UTF-16, expected UTF-8"),
    "declared": (b"<?xml version='1.0' encoding='EUC-JP'?>" + GOOD, "is in EUC-JP, expected UTF-8"),
    "Shift JIS": (GOOD.decode().encode("cp932"), "is not UTF-8"),
    "one bad byte": (GOOD.replace("題".encode(), b"\xe9\xa1"), "is not UTF-8"),
    "cut off": (GOOD[:-30], "is cut off: no </mediawiki> at its end"),
    "cut off in a page": (export(page("前", ""))[:-14] + b"<page><title>", "is cut off"),
    "web page": (b"<!doctype html><html><body>404</body></html>", "is not a MediaWiki export"),
    "gzip": (gzip.compress(GOOD), "is not"),
    "empty": (b"", "is not a MediaWiki export"),
}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path: Path, name: str, packed: bool) -> None:
    data, message = HOSTILE[name]
    path = write(tmp_path / "jawiki.xml", bz2.compress(data) if packed else data)
    with pytest.raises(DataError) as caught:
        read_dump(path, [WORD], TITLE)
    assert message in str(caught.value)
    assert str(caught.value).startswith("jawiki.xml")
    assert "\n" not in str(caught.value)


def test_bad_byte_far_from_the_start(tmp_path: Path) -> None:
    filler = [page(f"頁{n}", "x" * 100_000) for n in range(30)]
    data = export(*filler, page("題", f"＠{WORD}")).replace("＠".encode(), b"\xff")
    with pytest.raises(DataError, match="page '題' is not UTF-8"):
        read_dump(write(tmp_path / "dump", data), [WORD], TITLE)


@pytest.mark.parametrize("share", [0.0002, 0.1, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("streams", [1, 4])
def test_cut_off_bzip2(
    tmp_path: Path, long_export: tuple[bytes, list[str], int], share: float, streams: int
) -> None:
    data = long_export[0]
    step = len(data) // streams + 1
    packed = b"".join(bz2.compress(data[n : n + step]) for n in range(0, len(data), step))
    path = write(tmp_path / "jawiki.bz2", packed[: max(4, int(len(packed) * share))])
    with pytest.raises(DataError, match=r"jawiki\.bz2 is cut off.*download it again"):
        read_dump(path, [WORD], TITLE, workers=1)


def test_bzip2_cut_off_between_streams(tmp_path: Path) -> None:
    whole = [bz2.compress(part) for part in (GOOD[:150], GOOD[150:])]
    with pytest.raises(DataError, match="no </mediawiki> at its end"):
        read_dump(write(tmp_path / "dump", whole[0]), [WORD], TITLE)


@pytest.mark.parametrize("part", [100_000, 2**30])
def test_damaged_bzip2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long_export: tuple[bytes, list[str], int],
    part: int,
) -> None:
    monkeypatch.setattr(dumps, "_PART", {True: part, False: part})
    packed = bytearray(bz2.compress(long_export[0], 1))
    for at in (30, len(packed) // 3, len(packed) - 2000):
        spoilt = bytearray(packed)
        spoilt[at] ^= 0x55
        with pytest.raises(DataError, match="is damaged"):
            read_dump(write(tmp_path / "dump", bytes(spoilt)), [WORD], TITLE, workers=1)


def test_chance_marks_in_packed_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of bzip2 inside a block are data: here a bzip2 file lies in a bzip2 file."""
    monkeypatch.setattr(dumps, "_PART", {True: 40, False: 40})
    inner = bz2.compress(GOOD).hex()
    data = export(page("外", f"{WORD}{inner}"))
    titles, _ = read_dump(write(tmp_path / "dump", bz2.compress(data)), [WORD], TITLE, workers=1)
    assert titles == ["外"]


def test_first_words_decide(tmp_path: Path) -> None:
    def read(found: Page) -> str | Dropped | None:
        return (
            None
            if found.title == "二"
            else Dropped(found.title, "なし")
            if not found.text
            else "可"
        )

    data = export(page("一", ""), page("二", "政治"), page("三", "経済"), page("政治", ""))
    rows, report = read_dump(write(tmp_path / "dump", data), ["政治", "経済"], read)
    assert rows == ["可"]
    assert report.counts == {"なし": 1}
    assert report.pages == 4
