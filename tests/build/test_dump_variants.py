"""The `dump` variants from the command line: other rows than the published, under other names."""

from __future__ import annotations

import bz2
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jfinteb.build.__main__ import main
from jfinteb.build.recipe import rows_of
from jfinteb.build.sources.drops import Dropped, DropReport
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


def test_the_manifest_tells_which_files_a_dump_variant_is_of(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tasks = "wikipedia_retrieval_dump,wikinews_retrieval_dump"
    assert main(["--source", str(raw), "--out", str(out), "--tasks", tasks]) == 0
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    news = "wikinews/jawikinews-pages-articles.xml.bz2"
    pages = ("wikipedia/jawiki-pages-articles.xml.bz2", "jpx/data_j.xls")
    for task, paths in (("wikinews_retrieval_dump", (news,)), ("wikipedia_retrieval_dump", pages)):
        assert manifest[task]["raw"] == {
            path: hashlib.sha256((raw / path).read_bytes()).hexdigest() for path in paths
        }


def test_the_report_has_every_page(
    raw: Path,
    workbook: Callable[..., Path],
    stock: Callable[..., list[str | int]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [stock(code, f"社{code}", "-", "-") for code in range(9903, 9915)]
    rows = [stock("9901", "社9901", "化学", "食品"), stock("9902", "社9902", "-", "-"), *rows]
    shutil.move(workbook(rows), raw / "jpx" / "data_j.xls")
    options = ["--source", str(raw), "--out", str(tmp_path / "out"), "--report", "--tasks"]
    main([*options, "wikinews_dump"])
    told = capsys.readouterr().err
    assert "1  in both 政治 and 経済: みほん税、引き上げへ" in told
    assert (
        "3  correction: 【訂正】みほん市長選, 訂正：みほん電力の値上げ, みほん商店街の記事" in told
    )
    main([*options, "industry17_dump"])
    assert "no sector in the list: 社9902 (9902)" in capsys.readouterr().err
    report = DropReport()
    report.add(Dropped(f"題{n}", "redirect") for n in range(9))
    assert str(report).endswith("9  redirect: 題0, 題1, 題2, 題3, 題4, 題5, 題6, 題7, 題8")


def test_a_task_without_a_dump_has_no_report(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--source", str(sample_source), "--out", str(tmp_path / "out"), "--report"]
    assert main([*options, "--tasks", "jafin"]) == 0
    assert "jafin: no dump, so no pages to report\n" in capsys.readouterr().err
    raw = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["jafin"][
        "raw"
    ]
    content = (sample_source / "jafin" / "train.jsonl").read_bytes()
    assert raw == {"jafin/train.jsonl": hashlib.sha256(content).hexdigest()}


def test_a_dump_that_changes_is_read_again(raw: Path) -> None:
    task, path = get_task("wikinews_dump"), raw / "wikinews" / "jawikinews-pages-articles.xml.bz2"
    before, _ = rows_of(task, SourceFolder(raw))
    text = bz2.decompress(path.read_bytes()).decode()
    path.write_bytes(bz2.compress(text.replace("可決", "否決").encode()))
    after, _ = rows_of(task, SourceFolder(raw))
    assert "可決" in before["train"][0]["text"]
    assert "否決" in after["train"][0]["text"]


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
