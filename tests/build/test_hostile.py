"""Raw files made to harm: each ends in one line within seconds, and in a memory that is bounded.

Every case runs in a process of its own, which may take 1.5 GB of memory and half a minute.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from jfinteb.build.__main__ import main
from jfinteb.loaders import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")

TEN_GB = 10 * 2**30
CHUNK = 2**24
LIMITED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (limit := int(1.5 * 2**30), limit))
from jfinteb.build.__main__ import main
start = time.process_time()
code = main(sys.argv[1:])
print(time.process_time() - start)
sys.exit(code)
"""
ROW = {
    "id": "current-202501-0001", "year-month": "202501", "関連": "雇用", "景気の現状判断": "□",
    "判断の理由": None, "追加説明及び具体的状況の説明": "求人は横ばいで推移している。",
}  # fmt: skip


def refused(source: Path, task: str, seconds: float = 20) -> str:
    """Build a task in a process with limits; it must fail with one line, which is returned."""
    out = source / "out"
    command = [sys.executable, "-c", LIMITED, "--source", str(source), "--out", str(out)]
    threads = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    done = subprocess.run(
        [*command, "--tasks", task],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr[-2000:]
    [message] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in done.stderr
    assert float(done.stdout.split()[-1]) < seconds
    assert not out.exists()
    return message.removeprefix("error: ")


def repeated(head: bytes, body: bytes, tail: bytes = b"", pack: Any = bz2.compress) -> bytes:
    """A file that unpacks to `head`, then 10 GB of the body over and over, then `tail`.

    Files of bzip2, gzip and xz may be put together of streams: one is packed, and copied.
    """
    times = -(-TEN_GB // len(body))
    return pack(head) + pack(body) * times + (pack(tail) if tail else b"")


def fill(unit: bytes) -> bytes:
    return unit * (CHUNK // len(unit))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def survey(folder: Path, suffix: str, train: bytes) -> None:
    """Files of the survey, of which one is hostile."""
    for config in ("current", "future"):
        for split in ("train", "validation", "test"):
            hostile = (config, split) == ("current", "train")
            data, name = train if hostile else LINE, f"{split}.jsonl{suffix if hostile else ''}"
            put(folder / "ews" / config / name, data)


LINE = (json.dumps(ROW, ensure_ascii=False) + "\n").encode()
LINES = {
    "one line": (fill(b" "), "line 1 goes beyond 16,777,216 characters"),
    "empty lines": (fill(b"\n"), "is not JSON Lines in UTF-8"),
    "one number": (fill(b"1"), "line 1 goes beyond 16,777,216 characters"),
    "open brackets": (fill(b"["), "line 1 goes beyond 16,777,216 characters"),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_json_lines_of_10_gb(suffix: str, pack: Any, name: str, tmp_path: Path) -> None:
    body, expected = LINES[name]
    survey(tmp_path, suffix, repeated(b"", body, pack=pack))
    message = refused(tmp_path, "ews_domain")
    assert message.startswith("ews: train.jsonl") and expected in message


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_json_lines_of_10_gb_that_are_rows(suffix: str, pack: Any, tmp_path: Path) -> None:
    survey(tmp_path, suffix, repeated(b"", fill(LINE), pack=pack))
    # as many characters as 40 times the file's bytes, or 67,108,864
    assert " characters, which no real file does" in refused(tmp_path, "ews_domain", seconds=60)


@pytest.mark.parametrize("depth", [10**5, 10**6])
def test_json_that_is_deep(depth: int, tmp_path: Path) -> None:
    survey(tmp_path, ".gz", gzip.compress(b"[" * depth + b"]" * depth + b"\n"))
    assert "is not JSON Lines in UTF-8" in refused(tmp_path, "ews_domain")


@pytest.mark.parametrize("share", [0.3, 0.99])
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_json_lines_cut_off(suffix: str, pack: Any, share: float, tmp_path: Path) -> None:
    lines = b"".join(LINE.replace(b"0001", b"%04d" % n) for n in range(2000))
    packed = pack(lines)
    survey(tmp_path, suffix, packed[: int(len(packed) * share)])
    message = refused(tmp_path, "ews_domain")
    assert message.startswith(f"ews: train.jsonl{suffix} is not JSON Lines in UTF-8: ")


WRONG = {
    "Shift JIS": (LINE.decode().encode("cp932"), "train.jsonl is not JSON Lines in UTF-8"),
    "UTF-16": (LINE.decode().encode("utf-16"), "train.jsonl is not JSON Lines in UTF-8"),
    "no column": (b'{"id": "x"}\n', "train.jsonl line 1 has no 'year-month'"),
    "web page": (b"<!doctype html>\n<p>404", "train.jsonl is not JSON Lines in UTF-8"),
    "empty": (b"", "train.jsonl is empty, expected rows"),
    "another month": (
        LINE.replace(b'"202501"', b'"2025-05"'),
        "row current-202501-0001: found year-month '2025-05', expected YYYYMM",
    ),
    "month 13": (LINE.replace(b'"202501"', b'"202513"'), "found year-month '202513'"),
    "full-width month": (
        LINE.replace(b'"202501"', '"２０２５01"'.encode()),
        "found year-month '２０２５01'",
    ),
    "number": (LINE.replace(b'"202501"', b"202501"), "are not what the parser ews expects"),
}


@pytest.mark.parametrize("name", WRONG)
def test_lines_of_something_else(name: str, tmp_path: Path) -> None:
    data, expected = WRONG[name]
    survey(tmp_path, "", data)
    assert expected in refused(tmp_path, "ews_domain")


HEAD = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">\n'
PAGE = "<page><title>題</title><ns>0</ns><revision><text>経済</text></revision></page>\n".encode()
OTHER = PAGE.replace("経済".encode(), b"x")
END = b"</mediawiki>\n"
DUMPS = {
    "zeros": (b"", fill(b"\0"), b"", "is not a MediaWiki export"),
    "zeros after the head": (HEAD, fill(b"\0"), END, "begins without a page"),
    "zeros after a page": (HEAD + PAGE, fill(b"\0"), END, "unpacks to more than 256 MiB"),
    "one page": (HEAD + PAGE[:-30], fill(b"x"), PAGE[-30:] + END, "unpacks to more than 256 MiB"),
    "wanted pages": (HEAD, fill(PAGE), END, "unpacks to more than 16,384 pages"),
    "other pages": (HEAD, fill(OTHER), END, "unpacks to more than 256 MiB"),
}


@pytest.mark.parametrize("name", DUMPS)
def test_dump_of_10_gb(name: str, tmp_path: Path) -> None:
    head, body, tail, expected = DUMPS[name]
    pytest.importorskip("mwparserfromhell", reason="the extra `build` is not installed")
    path = tmp_path / "wikinews" / "jawikinews-pages-articles.xml.bz2"
    data = repeated(head, body, tail)
    put(path, data)
    message = refused(tmp_path, "wikinews_dump", seconds=60)
    assert expected in message and message.startswith(path.name)


BROKEN = {  # what a parser goes back to, again and again: 300 of these take it seconds or minutes
    "a tag across a link": ("[[a|<b>]]</b>", 4000),
    "tags without their end": ('<b a="</b ', 2400),
    "a link across a template": ("{{a|[[b|}}]]", 2400),
    "a template across a tag": ("<b {{a|>}}</b>", 2400),
    "an end of a table for a template's": ("{{a|} ", 2400),
    "closing before opening": ("</b><b ", 2400),
}


@pytest.mark.parametrize("name", BROKEN)
def test_wikitext_that_is_crossed(name: str, tmp_path: Path) -> None:
    """A page of some kilobytes is left out, counted, and costs no time; the next one is read."""
    pytest.importorskip("mwparserfromhell", reason="the extra `build` is not installed")
    unit, times = BROKEN[name]
    text = "【1日】\n\n本文。\n[[Category:経済]]\n"
    pages = [("題", text), ("壊", unit * times + text)]
    write = "<page><title>{}</title><ns>0</ns><revision><text>{}</text></revision></page>\n"
    body = "".join(write.format(title, escape(body)) for title, body in pages)
    put(tmp_path / "dump.xml", HEAD + body.encode() + END)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (15, 15))\n"
        "from pathlib import Path; from jfinteb.build.sources.wikinews import articles\n"
        "found, report = articles(Path(sys.argv[1]), workers=1)\n"
        "print([article.title for article in found], dict(report.titles))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "dump.xml")],
        capture_output=True, encoding="utf-8", timeout=60, check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['題'] {'wikitext too broken to read': ('壊',)}\n"


def zipped(members: dict[str, tuple[int, bytes]], declare: int | None = None) -> bytes:
    """A zip of members that are one byte over and over, made without packing all of them.

    Args:
        members: name -> how often, and which byte. Checksums are right below `CHUNK` bytes.
        declare: size that the headers tell, where they lie.
    """
    out, entries = io.BytesIO(), []
    for name, (size, byte) in members.items():
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        whole, rest = divmod(size, CHUNK)
        data, crc = b"", zlib.crc32(byte * rest)
        if whole:  # after a full flush, packed pieces may be copied
            data = (packer.compress(byte * CHUNK) + packer.flush(zlib.Z_FULL_FLUSH)) * whole
        data += packer.compress(byte * rest) + packer.flush()
        told = declare or size
        sizes = struct.pack("<III", crc, len(data), min(told, 2**32 - 1))
        raw = name.encode()
        large = told >= 2**32 - 1
        extra = struct.pack("<HHQQ", 1, 16, told, len(data)) if large else b""
        entries.append((out.tell(), sizes, raw, struct.pack("<HHQ", 1, 8, told) if large else b""))
        out.write(b"PK\3\4" + struct.pack("<HHHHH", 45, 0x800, 8, 0, 0x21) + sizes)
        out.write(struct.pack("<HH", len(raw), len(extra)) + raw + extra + data)
    start = out.tell()
    for offset, sizes, raw, extra in entries:
        out.write(b"PK\1\2" + struct.pack("<HHHHHH", 45, 45, 0x800, 8, 0, 0x21) + sizes)
        out.write(struct.pack("<HHHHHII", len(raw), len(extra), 0, 0, 0, 0, offset) + raw + extra)
    stop = out.tell()
    count = len(entries)
    out.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, stop - start, start, 0))
    return out.getvalue()


def test_the_zips_here_are_zips() -> None:
    with zipfile.ZipFile(io.BytesIO(zipped({"a": (70_000, b"x"), "b": (3, b"y")}))) as archive:
        assert archive.testzip() is None
        assert archive.read("a") == b"x" * 70_000
        assert archive.read("b") == b"yyy"


CHABSA = Path("chabsa") / "chABSA-dataset.zip"
ZIPS: dict[str, tuple[dict[str, tuple[int, bytes]], int | None, str]] = {
    "a member": ({"d/e1_ann.json": (TEN_GB, b" ")}, None, "unpacks to 10737418240 bytes"),
    "no member of ours": ({"d/README": (TEN_GB, b" ")}, None, "unpacks to 10737418240 bytes"),
    "a size that lies": ({"d/e1_ann.json": (TEN_GB, b"[")}, 1000, "is not the chABSA zip"),
}


@pytest.mark.parametrize("name", ZIPS)
def test_zip_of_10_gb(name: str, tmp_path: Path) -> None:
    members, declared, expected = ZIPS[name]
    put(tmp_path / CHABSA, zipped(members, declared))
    assert expected in refused(tmp_path, "chabsa")


def test_zip_of_many_members_that_together_are_10_gb(tmp_path: Path) -> None:
    one = zipped({"d/e1_ann.json": (10_000_000, b" ")})
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        assert archive.infolist()[0].compress_size < 20_000
    members = {f"d/e{n}_ann.json": (16_000_000, b" ") for n in range(20)}
    put(tmp_path / CHABSA, zipped(members))
    assert "unpacks to 320000000 bytes, expected at most 268435456" in refused(tmp_path, "chabsa")


def listed(change: Callable[[str, str], str], workbook: Path) -> bytes:
    """A workbook whose parts are changed."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(workbook) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name).decode()))
    return packed.getvalue()


NESTED = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 20}'>" for n in range(1, 9))
ENTITIES = f"<!DOCTYPE worksheet [<!ENTITY e0 'hahaha'>{NESTED}]>"
SHEETS = {
    "a cell far away": (
        ("</sheetData>", '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'),
        "has 17,179,869,184 cells, expected at most 2,097,152",
    ),
    "entities": (("化学", "&e8;"), "cannot be read as an Excel workbook"),
}


@pytest.mark.parametrize("name", SHEETS)
def test_list_of_companies(
    name: str, workbook: Callable[..., Path], stock: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("python_calamine", reason="the extra `build` is not installed")
    (old, new), expected = SHEETS[name]

    def change(member: str, text: str) -> str:
        if not member.endswith("sheet1.xml"):
            return text
        assert old in text
        return (ENTITIES if name == "entities" else "") + text.replace(old, new)

    data = listed(change, workbook([stock(9901, "社", "化学", "素材・化学")]))
    put(tmp_path / "jpx" / "data_j.xls", data)
    dump = HEAD + PAGE.replace("経済".encode(), "[[Category:東証プライム上場企業]]".encode()) + END
    put(tmp_path / "wikipedia" / "jawiki-pages-articles.xml.bz2", bz2.compress(dump))
    assert expected in refused(tmp_path, "industry17_dump")


def test_list_of_companies_of_10_gb(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="the extra `build` is not installed")
    put(tmp_path / "wikipedia" / "jawiki-pages-articles.xml.bz2", bz2.compress(HEAD + PAGE + END))
    for declared, expected in ((None, "has 10,737,418,240 bytes"), (1000, "cannot be read as an")):
        data = zipped({"xl/worksheets/sheet1.xml": (TEN_GB, b" ")}, declared)
        put(tmp_path / "jpx" / "data_j.xls", data)
        assert expected in refused(tmp_path, "industry17_dump")


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from jfinteb.build.__main__ import main
import pyarrow.parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("most", [10, 5_000, 12_000])
def test_files_that_cannot_be_written_to_their_end(
    most: int, sample_source: Path, sample_package: Path
) -> None:
    """Parquet, manifest or README: whatever does not fit, the former package stays as it was."""
    before = {p: p.read_bytes() for p in sample_package.parent.rglob("*") if p.is_file()}
    assert max(map(len, before.values())) > 12_000
    for out in (sample_package, sample_package.with_name("new")):
        arguments = [str(most), "--source", str(sample_source), "--out", str(out)]
        done = subprocess.run(
            [sys.executable, "-c", FULL, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        [message] = [row for row in done.stderr.splitlines() if row.startswith("error: ")]
        assert message.startswith(f"error: cannot write {out}: ") and "too large" in message
        assert {
            p: p.read_bytes() for p in sample_package.parent.rglob("*") if p.is_file()
        } == before
        assert [p.name for p in sample_package.parent.iterdir()] == ["jfinteb"]


KILLED = """
import sys, time
from jfinteb.build import hub
from jfinteb.build.__main__ import main
def slow(*_):
    print("here", flush=True)
    time.sleep(60)
hub.readme = slow
sys.exit(main(sys.argv[1:]))
"""


def test_what_a_killed_build_leaves_goes_with_the_next(
    sample_source: Path, synthetic_package: Path, tmp_path: Path
) -> None:
    room = tmp_path / "room"
    out = room / "hub"
    other = room / ".hub.building-x.building-abcdefgh"  # of a package `hub.building-x`
    other.mkdir(parents=True)
    command = [sys.executable, "-c", KILLED, "--source", str(sample_source), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    left = [path for path in room.iterdir() if path != other and path.suffix != ".lock"]
    assert len(left) == 1 and (left[0] / "new" / "data" / "jafin" / "test.parquet").is_file()
    assert not out.exists()
    assert main(["--source", str(sample_source), "--out", str(out)]) == 0
    assert sorted(path.name for path in room.iterdir()) == [other.name, "hub"]
    assert load("jafin", "test", data=out).num_rows == 1192
    made = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert made == {
        p.relative_to(synthetic_package): p.read_bytes()
        for p in synthetic_package.rglob("*")
        if p.is_file()
    }
