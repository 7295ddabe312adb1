"""The package's README and manifest."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from jfinteb.build.audit import audit
from jfinteb.build.hub import write_package
from jfinteb.build.release import read_manifest
from jfinteb.loaders import load, sample
from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.manifest import split_entries
from jfinteb.loaders.schema import content_digest, make_table
from jfinteb.loaders.task import get_task


@pytest.fixture(scope="module")
def front(synthetic_package: Path) -> dict[str, Any]:
    text = (synthetic_package / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    found: dict[str, Any] = yaml.safe_load(text.split("\n---\n")[0])
    return found


def test_manifest(synthetic_package: Path) -> None:
    manifest = json.loads((synthetic_package / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest) == ["jafin", "multifin_ja"]
    for name, splits in manifest.items():
        task = get_task(name)
        assert list(split_entries(splits)) == list(task.splits)
        for split, entry in split_entries(splits).items():
            path = synthetic_package / "data" / task.config_of(split) / f"{split}.parquet"
            table = pq.read_table(path)
            assert entry["rows"] == table.num_rows
            assert entry["digest"] == content_digest(task, split, table)


def test_front_matter_configs(front: dict[str, Any]) -> None:
    assert front["configs"] == [
        {
            "config_name": config,
            "data_files": [
                {"split": split, "path": f"data/{config}/{split}.parquet"} for split in splits
            ],
        }
        for config, splits in {
            "jafin": ["validation", "test"],
            "jafin-corpus": ["corpus"],
            "multifin_ja": ["train", "validation", "test"],
        }.items()
    ]
    assert front["language"] == ["ja"]
    assert front["license"] == ["cc-by-nc-4.0", "unknown"]


def test_front_matter_dataset_info(front: dict[str, Any], synthetic_package: Path) -> None:
    info = {entry["config_name"]: entry for entry in front["dataset_info"]}
    assert info["jafin"]["features"] == [
        {"name": "id", "dtype": "string"},
        {"name": "query", "dtype": "string"},
        {"name": "relevant_docs", "sequence": "string"},
    ]
    names = info["multifin_ja"]["features"][2]["dtype"]["class_label"]["names"]
    assert [names[str(i)] for i in range(6)] == list(get_task("multifin_ja").labels)
    [corpus] = info["jafin-corpus"]["splits"]
    size = (synthetic_package / "data" / "jafin-corpus" / "corpus.parquet").stat().st_size
    assert corpus == {"name": "corpus", "num_bytes": size, "num_examples": 1490}
    assert info["jafin-corpus"]["download_size"] == size


def test_prose(synthetic_package: Path) -> None:
    text = (synthetic_package / "README.md").read_text(encoding="utf-8")
    assert "| `jafin` | retrieval | – | ndcg_at_10 | unknown | 298 / 1,192 / 1,490 |" in text
    assert "| `multifin_ja` | classification | 6 | macro_f1 | cc-by-nc-4.0 | 12 / 12 / 12 |" in text
    for name in ("jafin", "multifin_ja"):
        assert f"\n# {get_task(name).pretty_name}\n" in text
        assert f"\n## {get_task(name).pretty_name}\n" in text


def test_parquet_has_no_metadata_of_a_library(synthetic_package: Path) -> None:
    for path in (synthetic_package / "data").rglob("*.parquet"):
        schema = pq.read_schema(path)
        assert not {b"huggingface", b"pandas"} & set(schema.metadata or {})


def test_nothing_is_written_of_rows_that_do_not_fit(tmp_path: Path) -> None:
    task = get_task("jafin")
    tables = {
        "validation": make_table(
            task,
            "validation",
            [{"id": f"q{n}", "query": "問", "relevant_docs": ["x"]} for n in range(298)],
        ),
        "test": make_table(task, "test", []),
        "corpus": make_table(task, "corpus", [{"docid": "0", "text": "答"}]),
    }
    with pytest.raises(DataError) as caught:
        write_package(tmp_path / "hub", {"jafin": tables})
    assert str(caught.value) == "jafin/validation: 1 relevant ids are not in the corpus: 'x'"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("manifest", ["{}", "[]", "null", "5"])
def test_a_folder_whose_manifest_names_nothing_is_left_alone(tmp_path: Path, manifest: str) -> None:
    out = tmp_path / "mine"
    (out / "data").mkdir(parents=True)
    (out / "data" / "mine.txt").write_text("mine", encoding="utf-8")
    (out / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(UsageError, match="is no jfinteb package"):
        write_package(out, {})
    assert (out / "data" / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_concurrent_builds_keep_each_others_tasks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = get_task("multifin_ja")
    rows = sample.rows(task.name, task.kind.value, task.labels)
    made = {split: make_table(task, split, part) for split, part in rows.items()}
    tables, other = {"multifin_ja": made}, {"multifin_ja_clean": made}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            list(pool.map(lambda t: write_package(out, t), (tables, other)))
            manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
            assert set(manifest) == {"multifin_ja", "multifin_ja_clean"}
            shutil.rmtree(out)


def made() -> dict[str, Any]:
    """Tables of our own for a task whose card declares none."""
    task = get_task("multifin_ja")
    rows = sample.rows(task.name, task.kind.value, task.labels)
    return {split: make_table(task, split, part) for split, part in rows.items()}


def refusal(out: Path, tables: dict[str, Any], kind: type[Exception] = UsageError) -> str:
    before = {path: path.is_file() and path.read_bytes() for path in out.parent.rglob("*")}
    with pytest.raises(kind) as caught:
        write_package(out, tables)
    assert "\n" not in str(caught.value)
    assert {p: p.is_file() and p.read_bytes() for p in out.parent.rglob("*")} == before
    return str(caught.value)


@pytest.mark.parametrize("name", [".hub.old", ".hub.building-xxxxxxxx", ".hub.building-abcd1234"])
@pytest.mark.parametrize("there", [True, False])
def test_folders_beside_that_are_the_user_s(tmp_path: Path, name: str, there: bool) -> None:
    mine = tmp_path / name / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    if there:
        write_package(tmp_path / "hub", {"multifin_ja": made()})
    write_package(tmp_path / "hub", {"multifin_ja": made()})
    assert mine.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "hub"]


def test_a_backup_beside_stays(sample_package: Path) -> None:
    backup = sample_package.with_name(".jfinteb.old")
    shutil.copytree(sample_package, backup)
    write_package(sample_package, {"multifin_ja": made()})
    assert (backup / "data" / "jafin" / "test.parquet").is_file()


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def left(out: Path, name: str, pid: int, host: str, *inside: str) -> Path:
    """What a killed build leaves beside its package."""
    folder = out.with_name(f".{out.name}.building-{name}")
    (folder / "new").mkdir(parents=True)
    owner = json.dumps({"pid": pid, "host": host})
    (folder / "jfinteb-build.json").write_text(owner, encoding="utf-8")
    for file in inside:
        (folder / file).write_text("", encoding="utf-8")
    return folder


def test_only_what_the_dead_left_is_cleared(tmp_path: Path) -> None:
    out = tmp_path / "hub"
    here = socket.gethostname()
    left(out, "aaaaaaaa", gone(), here, "new/README.md")
    stay = [
        left(out, "bbbbbbbb", os.getpid(), here),
        left(out, "cccccccc", gone(), "elsewhere.invalid"),
    ]
    write_package(out, {"multifin_ja": made()})
    assert sorted(path for path in tmp_path.iterdir() if path != out) == stay


def test_killed_between_the_renames(sample_package: Path) -> None:
    folder = left(sample_package, "aaaaaaaa", gone(), socket.gethostname())
    sample_package.replace(folder / "old")
    told = f"a build that was killed keeps the former one in {folder / 'old'}"
    for ask in (
        lambda: load("jafin", "test", data=sample_package),
        lambda: load("jafin", "test", data=str(sample_package)),
        lambda: audit(sample_package, None),
        lambda: read_manifest(sample_package),
    ):
        with pytest.raises(UsageError) as caught:
            ask()
        assert told in str(caught.value)
    manifest = write_package(sample_package, {"multifin_ja_clean": made()})
    assert list(manifest) == ["jafin", "multifin_ja", "multifin_ja_clean"]
    assert [path.name for path in sample_package.parent.iterdir()] == ["jfinteb"]


@pytest.mark.parametrize(
    "path", ["data/jafin/link", "data/link", "link", "data/jafin/test.parquet", "README.md", "data"]
)
def test_links_in_a_package_are_not_followed(sample_package: Path, path: str) -> None:
    elsewhere = sample_package.parent.parent / "elsewhere"
    link = sample_package / path
    if link.exists():
        link.replace(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "secret.txt").write_text("secret", encoding="utf-8")
    link.symlink_to(elsewhere)
    message = refusal(sample_package, {"multifin_ja": made()})
    assert f"{sample_package} exists and is no jfinteb package (" in message
    assert repr(path) in message or path == "data"


@pytest.mark.parametrize("path", ["data/mine", "data/jafin/mine", "mine"])
def test_unknown_folders_in_a_package(sample_package: Path, path: str) -> None:
    (sample_package / path).mkdir()
    message = refusal(sample_package, {"multifin_ja": made()})
    assert f"is no jfinteb package (it holds {path!r}); give --out another folder" in message


def test_builds_with_other_temporary_folders_keep_each_others_tasks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = """
import sys, time
from pathlib import Path
from jfinteb.build import hub
from jfinteb.loaders import sample
from jfinteb.loaders.schema import make_table
from jfinteb.loaders.task import get_task
task = get_task("multifin_ja")
rows = sample.rows(task.name, task.kind.value, task.labels)
made = {split: make_table(task, split, part) for split, part in rows.items()}
whole = hub.readme
def slow(*arguments):
    time.sleep(2)
    return whole(*arguments)
hub.readme = slow
print("here", flush=True)
sys.stdin.readline()
hub.write_package(Path(sys.argv[1]), {sys.argv[2]: made})
"""
    running = []
    for name in ("multifin_ja", "multifin_ja_clean"):
        own = tmp_path / f"tmp-{name}"
        own.mkdir()
        command = [sys.executable, "-c", program, str(out), name]
        pipe = subprocess.PIPE
        env = {**os.environ, "TMPDIR": str(own)}
        running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True))
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest) == {"multifin_ja", "multifin_ja_clean"}
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


GOOD = {"rows": 1, "digest": "0" * 64}


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ("x", "jafin/test is 'x', expected an object"),
        (None, "jafin/test is None, expected an object"),
        (5, "jafin/test is 5, expected an object"),
        ({**GOOD, "rows": True}, "jafin/test: rows is True, expected a count"),
        ({**GOOD, "rows": -1}, "jafin/test: rows is -1, expected a count"),
        ({**GOOD, "rows": "1"}, "jafin/test: rows is '1', expected a count"),
        ({**GOOD, "rows": 1.0}, "jafin/test: rows is 1.0, expected a count"),
        ({**GOOD, "digest": None}, "jafin/test: digest is None, expected hex digits"),
        ({**GOOD, "digest": 5}, "jafin/test: digest is 5, expected hex digits"),
        ("[" * 100_000, "manifest.json is nested too deeply"),
    ],
    ids=lambda value: "" if not isinstance(value, str) or value[0] == "[" else value,
)
def test_spoiled_manifests(sample_package: Path, split: Any, told: str) -> None:
    path = sample_package / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["jafin"]["test"] = split
    deep = isinstance(split, str) and len(split) > 1
    path.write_text(split if deep else json.dumps(manifest), encoding="utf-8")
    assert told in refusal(sample_package, {"multifin_ja": made()})
    with pytest.raises(UsageError) as refused:
        read_manifest(sample_package)
    with pytest.raises(DataError) as unread:
        load("multifin_ja", "test", data=sample_package)
    for caught in (refused, unread):
        assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_task_that_stays_and_has_lost_a_file(sample_package: Path) -> None:
    (sample_package / "data" / "jafin" / "test.parquet").unlink()
    expected = f"{sample_package}: jafin/test is not what its manifest says; build jafin again"
    assert refusal(sample_package, {"multifin_ja": made()}, DataError) == expected


def test_a_task_that_stays_and_is_spoiled(sample_package: Path) -> None:
    path = sample_package / "data" / "jafin" / "test.parquet"
    expected = f"{sample_package}: jafin/test is not what its manifest says; build jafin again"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert refusal(sample_package, {"multifin_ja": made()}, DataError) == expected
    pq.write_table(table.take(list(range(table.num_rows))[::-1]), path)
    assert refusal(sample_package, {"multifin_ja": made()}, DataError) == expected
    path.write_bytes(b"junk")
    assert refusal(sample_package, {"multifin_ja": made()}, DataError) == expected


def test_a_manifest_of_another_number_of_rows(sample_package: Path) -> None:
    path = sample_package / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["jafin"]["test"]["rows"] = 1
    path.write_text(json.dumps(manifest), encoding="utf-8")
    expected = f"{sample_package}: jafin/test is not what its manifest says; build jafin again"
    assert refusal(sample_package, {"multifin_ja": made()}, DataError) == expected
