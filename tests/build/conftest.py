"""What tests of dumps share: dumps of our own, and the exchange's list as a workbook (.xlsx)."""

from __future__ import annotations

import bz2
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

HEADER = (
    "日付", "コード", "銘柄名", "市場・商品区分", "33業種コード", "33業種区分", "17業種コード",
    "17業種区分", "規模コード", "規模区分",
)  # fmt: skip
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"


DUMPS = Path(__file__).with_name("dumps")
Rows = Sequence[Sequence[str | int]]


@pytest.fixture
def dump() -> Callable[[str], Path]:
    """A hand-written dump in the form of a real one, by the name of its wiki."""
    return lambda wiki: DUMPS / f"{wiki}-pages-articles.xml"


@pytest.fixture
def packed(tmp_path: Path) -> Callable[..., Path]:
    """Pack a dump: one bzip2 stream, or one for so many bytes."""

    def pack(source: Path, step: int | None = None) -> Path:
        data = source.read_bytes()
        step = step or len(data)
        path = tmp_path / f"{source.name}.{step}.bz2"
        streams = [bz2.compress(data[n : n + step]) for n in range(0, len(data), step)]
        path.write_bytes(b"".join(streams))
        return path

    return pack


@pytest.fixture
def workbook(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (of the form of `stock`, or whole with another header) as a workbook."""

    def write(rows: Rows, header: Sequence[str | int] = HEADER) -> Path:
        path = tmp_path / "data_j.xls"
        path.write_bytes(_workbook([header, *rows]))
        return path

    return write


@pytest.fixture
def stock() -> Callable[..., list[str | int]]:
    """A row of the exchange's list: code, name, 33 and 17 sector."""
    market = "プライム（内国株式）"
    return lambda code, name, sector33, sector17: [
        *(20250530, code, name, market, 50, sector33, 1, sector17, 7, "TOPIX Small 2")
    ]


def _workbook(rows: Rows) -> bytes:
    """Bytes of an .xlsx with one sheet."""
    files = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_SHEET}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_SHEET}.worksheet+xml"/>'
        "</Types>",
        "_rels/.rels": _relation("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>'
        + "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
        + "</sheetData></worksheet>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def _relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'
    )


def _cell(value: str | int) -> str:
    if isinstance(value, int):
        return f"<c><v>{value}</v></c>"
    return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
