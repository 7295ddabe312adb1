"""The exchange's list of listed companies (JPX, `data_j.xls`): names and sectors by code."""

from __future__ import annotations

import re
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfinteb.loaders.errors import DataError, UnavailableError

__all__ = ["NO_SECTOR", "Stock", "stocks"]

NO_SECTOR = "-"
_URL = "https://www.jpx.co.jp/markets/statistics-equities/misc/01.html"
_COLUMNS = {"code": "コード", "name": "銘柄名", "sector17": "17業種区分", "sector33": "33業種区分"}
_LARGEST = 64 * 2**20  # the real list has under 1 MB
_MOST_CELLS = 2**21  # the real list has some 4,400 rows of 10
_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Z]{0,3})([0-9]{1,7})["']""")  # of a row or a cell
_XLS, _XLSX = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class Stock:
    """A security: `NO_SECTOR` where the exchange gives it none (funds, preferred shares)."""

    code: str
    name: str
    sector17: str
    sector33: str


def stocks(path: Path) -> dict[str, Stock]:
    """Securities by code, in the order of the list.

    Raises:
        DataError: not a workbook, or not this one.
        UnavailableError: python-calamine is not installed.
    """
    rows = _read(path)
    header = next(
        (n for n, row in enumerate(rows[:20]) if _COLUMNS["code"] in map(_text, row)), None
    )
    if header is None:
        raise DataError(f"{path.name} has no column {_COLUMNS['code']}; {_expected()}")
    names = [_text(cell) for cell in rows[header]]
    for column in _COLUMNS.values():
        if column not in names:
            raise DataError(f"{path.name} has no column {column}; {_expected()}")
    places = {key: names.index(column) for key, column in _COLUMNS.items()}
    found: dict[str, Stock] = {}
    for row in rows[header + 1 :]:
        cells = {key: _text(row[place]) for key, place in places.items()}
        if cells["code"]:
            found.setdefault(cells["code"], Stock(**cells))
    if not found:
        raise DataError(f"{path.name} has no rows below its header; {_expected()}")
    return found


def _expected() -> str:
    return f"expected {', '.join(_COLUMNS.values())}, as in data_j.xls from {_URL}"


def _read(path: Path) -> list[list[Any]]:
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "reading the exchange's list needs python-calamine; install it with: "
            "pip install 'jfinteb[build]'"
        ) from error
    with path.open("rb") as stream:
        start = stream.read(4096)
    if not start.startswith((_XLS, _XLSX)):
        html = "a web page" if b"<" in start.lstrip()[:1] else "no Excel workbook"
        raise DataError(f"{path.name} is {html}, expected data_j.xls; get it from {_URL}")
    try:
        _check_size(path, start)
        with path.open("rb") as stream:  # by its content: a name may end in .xls for .xlsx
            workbook = CalamineWorkbook.from_filelike(stream)
            rows: list[list[Any]] = workbook.get_sheet_by_index(0).to_python()
        return rows
    except (CalamineError, zipfile.BadZipFile, OSError, ValueError, IndexError) as error:
        raise DataError(
            f"{path.name} cannot be read as an Excel workbook ({error}); get it from {_URL}"
        ) from error


def _check_size(path: Path, start: bytes) -> None:
    """Refuse what would fill the memory: calamine holds a sheet as one block up to its last cell.

    A sheet of the old format (.xls) has 65,536 rows of 256 cells at most.
    """
    size, cells = path.stat().st_size, 0
    if start.startswith(_XLSX):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = max(size, sum(member.file_size for member in members))
            if size <= _LARGEST:
                for member in members:
                    with archive.open(member) as part:  # not beyond the size that it declares
                        cells = max(cells, _cells(part.read(member.file_size + 1)))
    for found, most, what in ((size, _LARGEST, "bytes"), (cells, _MOST_CELLS, "cells")):
        if found > most:
            raise DataError(
                f"{path.name} has {found:,} {what}, expected at most {most:,}; get it from {_URL}"
            )


def _cells(xml: bytes) -> int:
    """Cells from the first to the farthest that a worksheet's XML names."""
    rows = columns = 0
    for match in _PLACE.finditer(xml):
        rows = max(rows, int(match[2]))
        column = 0
        for letter in match[1]:
            column = 26 * column + letter - ord("A") + 1
        columns = max(columns, column)
    return rows * max(1, columns)


def _text(cell: Any) -> str:
    """A cell as text; codes such as 9999 come as numbers. Full-width letters stay."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = unicodedata.normalize("NFC", str(cell)).strip()
    return "" if cell is None else text
