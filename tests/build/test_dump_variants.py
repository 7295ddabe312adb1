"""The `dump` variants from the command line: other rows than the published, under other names."""

from __future__ import annotations

import bz2
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jfinteb.build.__main__ import main
from jfinteb.build.recipe import rows_of
from jfinteb.build.sources.files import SourceFolder
from jfinteb.loaders import load
from jfinteb.loaders.task import get_task

pytest.importorskip("mwparserfromhell", reason="the extra `build` is not installed")


@pytest.fixture
def raw(
    dump: Callable[[str], Path],
    workbook: Callable[..., Path],
    stock: Callable[..., list[str | int]],
    tmp_path: Path,
) -> Path:
    folder = tmp_path / "raw"
    for wiki in ("jawiki", "jawikinews"):
        room = {"jawiki": "wikipedia", "jawikinews": "wikinews"}[wiki]
        path = folder / room / f"{wiki}-pages-articles.xml.bz2"
        path.parent.mkdir(parents=True)
        path.write_bytes(bz2.compress(dump(wiki).read_bytes()))
    (folder / "jpx").mkdir()
    rows = [stock(code, f"社{code}", "化学", "食品") for code in range(9901, 9915)]
    shutil.move(workbook(rows), folder / "jpx" / "data_j.xls")
    return folder


def test_dump_variants(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    tasks = "wikipedia_retrieval_dump,industry33_dump,wikinews_retrieval_dump"
    options = ["--source", str(raw), "--out", str(out), "--tasks", tasks, "--report"]
    assert main(options) == 0
    told = capsys.readouterr().err
    assert "wikipedia_retrieval_dump: " in told and "redirect: 三本精機, 見本精機" in told
    queries = load("wikipedia_retrieval_dump", data=out)
    corpus = {row["docid"]: row["text"] for row in queries["corpus"]}
    asked = [*queries["validation"], *queries["test"]]
    assert [row["query"] for row in asked] == sorted(row["query"] for row in asked)
    first = next(row for row in asked if row["query"] == "社9902")
    assert corpus[first["relevant_docs"][0]] == "みほん商事は、商社。"
    labels = load("industry33_dump", "train", data=out)
    assert {labels.features["label"].names[i] for i in labels["label"]} == {"化学"}


def test_progress_of_a_dump(raw: Path) -> None:
    """Every file that is parsed is told of once, however many tasks are made from it."""
    told: dict[str, list[tuple[int, int]]] = {}

    def watch(name: str) -> Callable[[int, int], object]:
        assert name not in told
        told[name] = []
        return lambda read, size: told[name].append((read, size))

    folder = SourceFolder(raw, watch=watch)
    for task in ("wikipedia_retrieval_dump", "industry33_dump", "wikinews_dump"):
        rows_of(get_task(task), folder)
    paths = (
        "wikipedia/jawiki-pages-articles.xml.bz2",
        "wikinews/jawikinews-pages-articles.xml.bz2",
    )
    sizes = {Path(path).name: (raw / path).stat().st_size for path in paths}
    assert {name: calls[-1] for name, calls in told.items()} == {
        name: (size, size) for name, size in sizes.items()
    }


def test_a_dump_never_stands_in_for_the_published_rows(raw: Path) -> None:
    assert SourceFolder(raw).choose(get_task("wikipedia_retrieval")) is None
    assert SourceFolder(raw).choose(get_task("wikipedia_retrieval_dump")) is not None
