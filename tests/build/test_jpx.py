"""The exchange's list of companies."""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from jfinteb.build.sources.jpx import Stock, stocks
from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.task import get_task

Make = Callable[..., Path]
StockRow = Callable[..., list[str | int]]


def test_rows(workbook: Make, stock: StockRow) -> None:
    path = workbook(
        [
            stock(9999, "みほん精機", "機械", "機械"),
            stock("130Z", " ＭＩＨＯＮ ", "医薬品", "医薬品"),
            stock(1000, "みほん投信", "-", "-"),
            stock(9999, "後の行", "化学", "素材・化学"),
            ["", "", "", "", "", "", "", "", "", ""],
        ]
    )
    assert list(stocks(path).values()) == [
        Stock("9999", "みほん精機", "機械", "機械"),
        Stock("130Z", "ＭＩＨＯＮ", "医薬品", "医薬品"),
        Stock("1000", "みほん投信", "-", "-"),
    ]


def test_header_below_a_title_and_columns_in_another_order(workbook: Make) -> None:
    path = workbook(
        [["17業種区分", "33業種区分", "銘柄名", "コード"], ["食品", "食料品", "みほん", 9999]],
        header=["東証上場銘柄一覧"],
    )
    assert stocks(path) == {"9999": Stock("9999", "みほん", "食品", "食料品")}


@pytest.mark.parametrize("missing", ["コード", "銘柄名", "17業種区分", "33業種区分"])
def test_missing_column(workbook: Make, missing: str) -> None:
    header = [c for c in ("コード", "銘柄名", "33業種区分", "17業種区分") if c != missing]
    with pytest.raises(
        DataError, match=rf"data_j\.xls has no column {missing}; expected コード"
    ) as e:
        stocks(workbook([["a", "b", "c"]], header=header))
    assert "\n" not in str(e.value)


def test_no_rows(workbook: Make) -> None:
    with pytest.raises(DataError, match="has no rows below its header"):
        stocks(workbook([]))


NOT_WORKBOOKS = {
    "web page": (
        b"<!DOCTYPE html>\n<html><table><tr><td>\xe3\x82\xb3</td></tr></table>",
        "a web page",
    ),
    "table as .xls": (b"\r\n  <table><tr><td>1301</td></tr></table>", "a web page"),
    "csv": ("コード,銘柄名\n1301,極洋\n".encode("cp932"), "no Excel workbook"),
    "empty": (b"", "no Excel workbook"),
    "cut off xls": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
        "cannot be read as an Excel",
    ),
    "cut off xlsx": (b"PK\x03\x04" + b"\0" * 600, "cannot be read as an Excel"),
}


@pytest.mark.parametrize("name", NOT_WORKBOOKS)
def test_not_a_workbook(tmp_path: Path, name: str) -> None:
    data, message = NOT_WORKBOOKS[name]
    path = tmp_path / "data_j.xls"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        stocks(path)
    assert f"data_j.xls is {message}" in str(caught.value) or message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bomb(tmp_path: Path) -> None:
    path = tmp_path / "data_j.xls"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * (65 * 2**20))
    with pytest.raises(DataError, match=r"data_j\.xls has 68,157,440 bytes, expected at most"):
        stocks(path)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UnavailableError, match=r"pip install 'jfinteb\[build\]'"):
        stocks(tmp_path / "data_j.xls")


def test_the_real_list(data_folder: Path) -> None:
    """Facts of the list of 2025-05-30; its sectors are the labels that the cards declare."""
    found = stocks(data_folder / "jpx" / "data_j.xls")
    assert len(found) == 4409
    assert found["1301"] == Stock("1301", "極洋", "食品", "水産・農林業")
    assert found["130A"].sector33 == "医薬品"
    for field in ("sector17", "sector33"):
        named = Counter(getattr(stock, field) for stock in found.values())
        assert set(named) - {"-"} == set(get_task(field.replace("sector", "industry")).labels)
