"""What tests of the build share: dumps of our own, a workbook (.xlsx) as the exchange's, a hub."""

from __future__ import annotations

import bz2
import io
import json
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
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


TOKEN = "hf_stubstubstub"
REPOSITORY = "retarfi/jfinteb"


class StubHub:
    def __init__(self, url: str) -> None:
        self.url = url

    def tell(self, what: str, **values: Any) -> list[list[str]]:
        """Ask for one of the stub's own services; returns its log."""
        body = json.dumps(values).encode()
        with urllib.request.urlopen(f"{self.url}/-/{what}", body) as answer:
            log: list[list[str]] = json.load(answer)
            return log

    @property
    def log(self) -> list[list[str]]:
        return self.tell("log")

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/datasets/{path}") as answer:
            return json.load(answer)

    def files(self, revision: str = "main") -> set[str]:
        siblings = self.get(f"{REPOSITORY}/revision/{revision}")["siblings"]
        return {sibling["rfilename"] for sibling in siblings}

    def tags(self) -> dict[str, str]:
        tags = self.get(f"{REPOSITORY}/refs")["tags"]
        return {tag["name"]: tag["targetCommit"] for tag in tags}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubHub]:
    monkeypatch.setenv("STUB_TOKEN", TOKEN)
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("stub_hub.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield StubHub(process.stdout.readline().strip())
    process.communicate("\n", timeout=30)


@pytest.fixture
def run(python: Any, hub: StubHub, tmp_path: Path) -> Any:
    """Run a program that sees only the stub hub."""

    def call(
        program: str,
        *arguments: str | Path,
        token: str = TOKEN,
        executable: str = sys.executable,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        env = {
            "HF_ENDPOINT": hub.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "*",
            "PYTHONUTF8": "1",
            **({"HF_TOKEN": token} if token else {}),
            **env,
        }
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)  # load_dataset prefers a local folder of the repository's name
        done: subprocess.CompletedProcess[str] = python(
            ["-c", program, *map(str, arguments)], executable=executable, cwd=empty, **env
        )
        assert TOKEN not in done.stdout + done.stderr
        return done

    return call
