"""`python -m jfinteb.build.push` against a hub of our own, then `load_dataset` from that hub."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from jfinteb.build.__main__ import build
from jfinteb.build.licenses import package_licenses
from jfinteb.build.push import main, push
from jfinteb.build.release import audit_errors, faults, files_of, read_manifest
from jfinteb.loaders.errors import DataError, JfintebError, UsageError
from jfinteb.loaders.manifest import split_entries
from jfinteb.loaders.schema import content_digest
from jfinteb.loaders.task import Task, _tasks, declared_tasks, get_task

TOKEN = "hf_stubstubstub"
REPOSITORY = "retarfi/jfinteb"

# Rows of our own can only be those of the two tasks whose cards declare no digest; here, and only
# here, these may be redistributed.
FREE = """
from dataclasses import replace
from jfinteb.loaders import task
for name in ("jafin", "multifin_ja"):
    task._tasks()[name] = replace(task._tasks()[name], redistributable=True)
"""
PUSH = "import sys; from jfinteb.build.push import main; sys.exit(main(sys.argv[1:]))"
AUDITED = FREE + PUSH
# The rows of our own lack labels; see `test_the_audit_refuses`.
PUSH = FREE + "import jfinteb.build.push; jfinteb.build.push.audit_errors = lambda _: []\n" + PUSH
LOAD = """
import json, sys
from datasets import load_dataset
revision, *configs = sys.argv[1:]
for config in configs:
    for split, part in load_dataset("retarfi/jfinteb", config, revision=revision).items():
        print(json.dumps([config, split, part.num_rows, part[0]], ensure_ascii=False))
"""


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, too, the two tasks may be redistributed."""
    from dataclasses import replace

    for name in ("jafin", "multifin_ja"):
        monkeypatch.setitem(_tasks(), name, replace(get_task(name), redistributable=True))


@pytest.fixture
def ready(sample_package: Path, free: None) -> Path:
    """A package that may be pushed."""
    licenses = package_licenses(read_manifest(sample_package))
    (sample_package / "LICENSES.md").write_text(licenses, encoding="utf-8")
    return sample_package


def failure(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refused push."""
    assert done.returncode == 2, done.stderr
    [message] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return message.removeprefix("error: ")


def check_loaded(stdout: str, package: Path) -> None:
    """Every split as pyarrow reads it from the folder that was pushed."""
    seen = set()
    for line in stdout.splitlines():
        config, split, rows, first = json.loads(line)
        table = pq.read_table(package / "data" / config / f"{split}.parquet")
        assert rows == table.num_rows
        assert first == table.slice(0, 1).to_pylist()[0]
        seen.add(f"data/{config}/{split}.parquet")
    assert seen == {
        path.relative_to(package).as_posix() for path in (package / "data").rglob("*.parquet")
    }


def configs(package: Path) -> list[str]:
    return sorted(path.name for path in (package / "data").iterdir())


def test_push_then_load_dataset(ready: Path, hub: Any, run: Any) -> None:
    done = run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0")
    assert done.returncode == 0, done.stderr
    expected = {p.relative_to(ready).as_posix() for p in ready.rglob("*") if p.is_file()}
    assert hub.files("v1.0.0") == expected | {".gitattributes"}
    assert f"tag v1.0.0, commit {hub.tags()['v1.0.0']}" in done.stderr.replace("\n", "")
    assert hub.get(REPOSITORY)["private"] is False
    asked = [path for _, path in hub.log]
    commit = f"/api/datasets/{REPOSITORY}/commit/main"
    assert asked.index("/api/validate-yaml") < asked.index(commit)

    before = (ready / "data" / "jafin" / "test.parquet").read_bytes()
    loaded = run(LOAD, "v1.0.0", *configs(ready))
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    check_loaded(loaded.stdout, ready)
    assert (ready / "data" / "jafin" / "test.parquet").read_bytes() == before


def test_load_dataset_3(ready: Path, hub: Any, run: Any) -> None:
    executable = os.environ.get("JFINTEB_DATASETS3")
    if not executable:
        pytest.skip("JFINTEB_DATASETS3 does not name a python with datasets < 4")
    assert run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0").returncode == 0
    loaded = run(LOAD, "v1.0.0", *configs(ready), executable=executable)
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    check_loaded(loaded.stdout, ready)


def test_a_second_version_deletes_what_it_lacks(
    ready: Path, hub: Any, run: Any, sample_source: Path, tmp_path: Path
) -> None:
    assert run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0").returncode == 0
    less = tmp_path / "less"
    assert build(sample_source, ["multifin_ja"], less) == 0
    licenses = package_licenses(read_manifest(less))
    (less / "LICENSES.md").write_text(licenses, encoding="utf-8")
    done = run(PUSH, less, "--to", REPOSITORY, "--tag", "v1.1.0")
    assert done.returncode == 0, done.stderr
    splits = ("test", "train", "validation")
    assert hub.files("v1.1.0") == {
        ".gitattributes",
        "LICENSES.md",
        "README.md",
        "manifest.json",
        *(f"data/multifin_ja/{split}.parquet" for split in splits),
    }
    assert "data/jafin/test.parquet" in hub.files("v1.0.0")
    old = run(LOAD, "v1.0.0", *configs(ready))
    check_loaded(old.stdout, ready)


def test_a_tag_is_never_moved(ready: Path, hub: Any, run: Any) -> None:
    assert run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0").returncode == 0
    before = hub.tags()
    message = failure(run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0"))
    assert message == f"{REPOSITORY} has a tag v1.0.0, and a tag is never moved; raise --tag"
    assert hub.tags() == before
    assert sum("/commit/" in path for _, path in hub.log) == 1


def test_a_push_that_broke_before_its_tag(ready: Path, hub: Any, run: Any) -> None:
    hub.tell("fail", path="/tag/", status=500)
    message = failure(run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0"))
    assert "HTTP 500; what was sent has no tag yet, run it again" in message
    assert hub.tags() == {}
    done = run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0")
    assert done.returncode == 0, done.stderr
    assert "data/jafin/test.parquet" in hub.files("v1.0.0")


def test_private(ready: Path, hub: Any, run: Any) -> None:
    assert run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0", "--private").returncode == 0
    assert hub.get(REPOSITORY)["private"] is True


def test_private_where_it_is_public(ready: Path, hub: Any, run: Any) -> None:
    hub.tell("create", name=REPOSITORY, private=False, files={"old.txt": "x"})
    message = failure(run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0", "--private"))
    assert message.startswith(f"{REPOSITORY} exists and is public; ")
    assert hub.files() == {"old.txt"}


@pytest.mark.parametrize("token", ["", "hf_another"])
def test_without_the_right(ready: Path, hub: Any, run: Any, token: str) -> None:
    message = failure(run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0", token=token))
    assert message.endswith(
        "HTTP 401; log in with `hf auth login` or set HF_TOKEN; nothing was sent"
    )
    assert "hf_another" not in message


def test_no_network(ready: Path, run: Any) -> None:
    for env in ({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}):
        message = failure(run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0", **env))
        assert message.startswith(f"cannot push to {REPOSITORY}: no connection (")


def test_a_card_that_the_hub_refuses(
    ready: Path, hub: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.tell("create", name=REPOSITORY, private=False, files={"old.txt": "x"})
    blind = "import jfinteb.build.push as p; p.faults = lambda *_: []\n"
    (ready / "README.md").write_text("---\nlanguage: ja\n---\n", encoding="utf-8")
    message = failure(run(blind + PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0"))
    assert '"license" is missing' in message
    assert hub.files() == {"old.txt"}


def test_the_audit_refuses(ready: Path, hub: Any, run: Any) -> None:
    # of six labels in turn, each third row is in English and left out: two labels have no row
    message = failure(run(AUDITED, ready, "--to", REPOSITORY, "--tag", "v1.0.0"))
    first = "audit: multifin_ja/train: missing_label: 2 (Finance, Tax & Accounting)"
    assert message == f"{ready}: nothing was pushed: {first} and 2 more"
    assert hub.log == []


def test_dry_run_sends_nothing(ready: Path, hub: Any, run: Any) -> None:
    done = run(PUSH, ready, "--to", REPOSITORY, "--tag", "v1.0.0", "--dry-run", token="")
    assert done.returncode == 0, done.stderr
    *listed, last = done.stdout.splitlines()
    assert {line.split()[1] for line in listed} == files_of(read_manifest(ready))
    size = (ready / "README.md").stat().st_size
    assert f"{size:>12,}  README.md" in listed
    assert last == f"fit to be pushed to {REPOSITORY} as v1.0.0; nothing was sent"
    assert hub.log == []


def test_every_public_config_with_its_real_audit(
    data_folder: Path, tmp_path: Path, hub: Any, run: Any
) -> None:
    """As a release is made: all public tasks and their clean variants, nothing switched off."""
    tasks = [task for task in declared_tasks() if task.redistributable]
    assert len(tasks) == 2 * 10
    package = tmp_path / "real"
    assert build(data_folder, [task.name for task in tasks], package, public=True) == 0
    real = "import sys; from jfinteb.build.push import main; sys.exit(main(sys.argv[1:]))"
    done = run(real, package, "--to", REPOSITORY, "--tag", "v1.0.0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(configs(package)) == {config for task in tasks for config in task.configs}
    executables = [sys.executable, os.environ.get("JFINTEB_DATASETS3")]
    for executable in filter(None, executables):
        loaded = run(LOAD, "v1.0.0", *configs(package), executable=executable)
        assert loaded.returncode == 0, loaded.stderr[-3000:]
        check_loaded(loaded.stdout, package)


# What is refused before the hub is asked for anything.


def refused(package: Path, *expected: str, audit: Any = None) -> None:
    """Exactly these faults are told, and the first stands in the error."""
    screen = io.StringIO()
    console = Console(file=screen, width=80)
    with pytest.raises(JfintebError) as caught:
        push(package, REPOSITORY, "v1.0.0", console=console, audit=audit, dry_run=True)
    assert type(caught.value) is DataError
    told = [line.removeprefix("fault: ") for line in screen.getvalue().splitlines()]
    assert len(told) == len(expected), told
    for line, part in zip(told, expected, strict=True):
        assert part in line
    assert f"nothing was pushed: {told[0]}" in str(caught.value)


def test_nothing_to_refuse(ready: Path) -> None:
    assert faults(ready, read_manifest(ready)) == []


def test_rows_that_may_not_be_redistributed(sample_package: Path) -> None:
    refused(
        sample_package,
        "jafin: its rows may not be redistributed (licence unknown)",
        "multifin_ja: its rows may not be redistributed (licence cc-by-nc-4.0)",
    )


def changed(ready: Path, path: str, column: str, value: str) -> pa.Table:
    table = pq.read_table(ready / path)
    cells = table.column(column).to_pylist()
    cells[0] = value
    at = table.column_names.index(column)
    table = table.set_column(at, column, pa.array(cells))
    pq.write_table(table, ready / path)
    return table


def test_rows_that_are_not_the_manifest_s(ready: Path) -> None:
    changed(ready, "data/multifin_ja/test.parquet", "text", "別の見出し")
    refused(ready, "multifin_ja/test: ")


def test_a_manifest_that_is_not_the_rows(ready: Path) -> None:
    manifest = json.loads((ready / "manifest.json").read_text(encoding="utf-8"))
    manifest["multifin_ja"]["test"]["digest"] = "0" * 64
    (ready / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    refused(ready, "multifin_ja/test: ")


def test_a_manifest_that_is_not_the_card_s(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    manifest = json.loads((ready / "manifest.json").read_text(encoding="utf-8"))
    task = get_task("multifin_ja")
    splits = {
        split: replace(task.splits[split], digest=entry["digest"])
        for split, entry in split_entries(manifest["multifin_ja"]).items()
    }
    monkeypatch.setitem(_tasks(), "multifin_ja", replace(task, splits=splits))
    manifest["multifin_ja"]["test"]["digest"] = "0" * 64
    (ready / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    refused(ready, "multifin_ja/test: the manifest has 12 rows of digest 000000000000…")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("x", "jafin/raw is 'x', expected an object"),
        ({}, "jafin/raw names no file"),
        ({"a": 5}, "jafin/raw: a has 5, expected a SHA-256 of 64 hex digits"),
        ({"a": "0f"}, "jafin/raw: a has '0f', expected a SHA-256 of 64 hex digits"),
        ({"/etc/a": "0" * 64}, "jafin/raw: found path '/etc/a', expected a relative one"),
        ({"../a": "0" * 64}, "jafin/raw: found path '../a', expected a relative one"),
        ({"": "0" * 64}, "jafin/raw: found path '', expected a relative one"),
    ],
)
def test_checksums_of_raw_files(ready: Path, raw: Any, told: str) -> None:
    manifest = json.loads((ready / "manifest.json").read_text(encoding="utf-8"))
    manifest["jafin"]["raw"] = raw
    (ready / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        push(ready, REPOSITORY, "v1.0.0", console=Console(file=io.StringIO()), dry_run=True)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_release_whose_files_nothing_tells_of(ready: Path) -> None:
    name = "ews_horizon_since_202506_n10_r2025_11_0"
    manifest = json.loads((ready / "manifest.json").read_text(encoding="utf-8"))
    told = {split: {"rows": 1, "digest": "0" * 64} for split in get_task(name).splits}
    lacks = f"{name}: the manifest lacks the checksums of its raw files; build it again"
    assert lacks in faults(ready, {**manifest, name: told})
    raw = {"ews/2025.11.0/current/test.jsonl": "0" * 64}
    assert lacks not in faults(ready, {**manifest, name: {**told, "raw": raw}})


def test_rows_of_no_document(ready: Path) -> None:
    task = get_task("jafin")
    table = changed(ready, "data/jafin-corpus/corpus.parquet", "docid", "x")
    manifest = json.loads((ready / "manifest.json").read_text(encoding="utf-8"))
    manifest["jafin"]["corpus"]["digest"] = content_digest(task, "corpus", table)
    (ready / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    refused(ready, "1 relevant ids are not in the corpus: '0'")


@pytest.mark.parametrize("name", [".env", "data/jafin/train.parquet", "data/x.py", ".git/config"])
def test_a_file_that_does_not_belong(ready: Path, name: str) -> None:
    (ready / name).parent.mkdir(exist_ok=True)
    (ready / name).write_text("x")
    refused(ready, f"{name} is not a package's file")


def test_a_file_that_is_missing(ready: Path) -> None:
    (ready / "README.md").unlink()
    refused(ready, "README.md is missing")


def test_a_readme_of_another_build(ready: Path) -> None:
    text = (ready / "README.md").read_text(encoding="utf-8")
    (ready / "README.md").write_text(
        text.replace("num_examples: 298", "num_examples: 299"), encoding="utf-8"
    )
    refused(ready, "README.md has other configs or rows than manifest.json")
    (ready / "README.md").write_text(
        text.replace("- cc-by-nc-4.0", "- cc-by-9.9"), encoding="utf-8"
    )
    refused(ready, "README.md: license: found 'cc-by-9.9'", "README.md: license: found [")
    (ready / "README.md").write_text("# no front matter", encoding="utf-8")
    refused(ready, "README.md: DataError README.md: no front matter")


def test_a_card_in_words_that_the_hub_lacks(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    task: Task = get_task("jafin")
    hub = {**task.hub, "size_categories": ["many"]}
    monkeypatch.setitem(_tasks(), "jafin", replace(task, hub=hub))
    refused(ready, "jafin.md: size_categories: found 'many', expected n<1K or ")


def test_licences_of_another_build(ready: Path) -> None:
    path = ready / "LICENSES.md"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    refused(ready, "LICENSES.md is not what the cards say now")


def test_an_audit_that_finds_errors(ready: Path) -> None:
    refused(ready, "audit: jafin/test: leak: 3", audit=lambda _: ["jafin/test: leak: 3"])


def test_the_audit_is_not_asked_of_rows_that_are_wrong(ready: Path) -> None:
    (ready / "README.md").unlink()
    refused(ready, "README.md is missing", audit=lambda _: pytest.fail("asked"))


def test_our_audit(sample_package: Path) -> None:
    assert [e for e in audit_errors(sample_package) if ": leak: " in e] == []
    train = pq.read_table(sample_package / "data" / "multifin_ja" / "train.parquet")
    leaked = train.column("text")[0].as_py()
    table = changed(sample_package, "data/multifin_ja/test.parquet", "text", leaked)
    [error] = [e for e in audit_errors(sample_package) if ": leak: " in e]
    assert error == f"multifin_ja/test: leak: 1 ({table.column('id')[0].as_py()})"


@pytest.mark.parametrize(
    ("repository", "tag", "told"),
    [
        ("jfinteb", "v1.0.0", "expected owner/name"),
        ("a/b/c", "v1.0.0", "found repository 'a/b/c'"),
        ("a/b--c", "v1.0.0", "found repository 'a/b--c'"),
        (REPOSITORY, "main", "expected a version such as v1.0.0"),
        (REPOSITORY, "v1", "expected a version"),
        (REPOSITORY, "v1.0.0/x", "expected a version"),
        (REPOSITORY, "", "expected a version"),
    ],
)
def test_names(ready: Path, repository: str, tag: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        push(ready, repository, tag, console=Console(file=io.StringIO()), dry_run=True)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tag", ["v1.0.0", "1.0", "2025.05.0", "v1.0.0-rc1", "v1.0.0rc1"])
def test_versions(ready: Path, tag: str) -> None:
    console = Console(file=io.StringIO())
    assert push(ready, REPOSITORY, tag, console=console, dry_run=True) == ""


@pytest.mark.parametrize(
    "manifest", ["", "[]", "{}", '{"nope": {}}', '{"jafin": {}}', '{"jafin": {"test": {}}}']
)
def test_no_package(
    sample_package: Path, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample_package / "manifest.json").write_text(manifest)
    assert main([str(sample_package), "--to", REPOSITORY, "--tag", "v1.0.0"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {sample_package} is no package (")
    shutil.rmtree(sample_package)
    assert main([str(sample_package), "--to", REPOSITORY, "--tag", "v1.0.0"]) == 2
