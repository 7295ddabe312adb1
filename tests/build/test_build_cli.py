"""`python -m jfinteb.build` end to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jfinteb.build import hub
from jfinteb.build.__main__ import main
from jfinteb.loaders import load


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must exit with 2 and one line on stderr; return that line."""
    capsys.readouterr()
    assert run(*arguments) == 2
    [message] = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error: ")]
    return message


def test_all_that_can_be_built(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made" / "hub"
    assert run("--source", sample_source, "--out", out) == 0
    told = capsys.readouterr()
    assert told.out == f"{out}: wrote 3,016 rows of 2 tasks; it holds jafin, multifin_ja\n"
    assert (
        "left out: chabsa (no chabsa/chABSA-dataset.zip; "
        "from https://github.com/chakki-works/chABSA-dataset)\n"
    ) in told.err
    assert told.err.count("left out: ") == 11
    assert set(tree(out)) == {
        "LICENSES.md",
        "README.md",
        "manifest.json",
        "data/jafin-corpus/corpus.parquet",
        *(f"data/jafin/{s}.parquet" for s in ("validation", "test")),
        *(f"data/multifin_ja/{s}.parquet" for s in ("train", "validation", "test")),
    }
    assert [entry.name for entry in out.parent.iterdir()] == ["hub"]
    assert out.stat().st_mode & 0o777 == 0o755


def test_all_real_tasks_and_the_same_bytes_again(
    package: Path, data_folder: Path, tmp_path: Path
) -> None:
    tasks = "pfmt,wikinews,chabsa,ews_horizon"
    for folder in ("one", "two"):
        assert run("--source", data_folder, "--tasks", tasks, "--out", tmp_path / folder) == 0
    one = tree(tmp_path / "one")
    assert one == tree(tmp_path / "two")
    every = tree(package)
    parquet = [name for name in every if name.startswith("data/")]
    assert len(parquet) == 7 * 3 + 1 * 2 + 3 * 3  # classification, clustering, retrieval
    assert all(every[name] == content for name, content in one.items() if name[:5] == "data/")


def test_same_bytes_whatever_the_hash_seed(
    sample_source: Path, synthetic_package: Path, python: Any, tmp_path: Path
) -> None:
    program = ["-m", "jfinteb.build", "--source", str(sample_source), "--out", "x"]
    done = python(program, cwd=tmp_path, PYTHONHASHSEED="77", LC_ALL="C", TZ="Asia/Tokyo")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "x") == tree(synthetic_package)


def test_a_second_build_keeps_the_first_s_tasks(
    sample_source: Path, synthetic_package: Path, tmp_path: Path
) -> None:
    out = tmp_path / "hub"
    for task in ("jafin", "multifin", "jafin"):  # an alias, and a task again
        assert run("--source", sample_source, "--tasks", task, "--out", out) == 0
    assert tree(out) == tree(synthetic_package)
    assert load("jafin", "test", data=out).num_rows == 1192


def test_a_home_that_the_shell_left_to_us(
    sample_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").symlink_to(sample_source)
    assert run("--source=~/raw", "--out=~/hub", "--tasks", "multifin_ja") == 0
    assert (tmp_path / "hub" / "manifest.json").is_file()
    assert not (tmp_path / "~").exists()


def test_out_is_no_package(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, files in {
        "notes": {"notes.txt": "mine"},
        "other": {"manifest.json": "[]", "app.js": "mine"},
        "empty manifest": {"manifest.json": "{}", "thesis.tex": "mine"},
        "clone": {"manifest.json": "{}", ".git/HEAD": "ref"},
        "broken": {"manifest.json": "{", "README.md": "mine"},
        "foreign": {"manifest.json": '{"name": "app"}', "data/x.txt": "mine"},
        "torn": {"manifest.json": '{"jafin": {"test": {}}}', "data/x.txt": "mine"},
    }.items():
        out = tmp_path / name
        for path, text in files.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
        before = tree(tmp_path)
        message = refused(capsys, "--source", sample_source, "--tasks", "multifin_ja", "--out", out)
        assert message.startswith(f"error: {out} exists and is no jfinteb package (")
        assert message.endswith("); give --out another folder")
        assert tree(tmp_path) == before


def test_out_is_a_file_or_below_one(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    options = ("--source", sample_source, "--tasks", "multifin_ja", "--out")
    message = refused(capsys, *options, file)
    assert message.startswith(f"error: {file} exists and is no jfinteb package (")
    below = refused(capsys, *options, file / "hub")
    assert below.startswith(f"error: cannot write {file / 'hub'}: ")
    assert tree(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_out(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o555)
    try:
        message = refused(
            capsys, "--source", sample_source, "--tasks", "multifin_ja", "--out", tmp_path / "hub"
        )
    finally:
        tmp_path.chmod(0o755)
    assert message == f"error: cannot write {tmp_path / 'hub'}: Permission denied"


def test_full_disk_leaves_the_old_package(
    sample_source: Path,
    sample_package: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tree(sample_package.parent)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hub, "_write_text", full)
    message = refused(capsys, "--source", sample_source, "--out", sample_package)
    assert message == f"error: cannot write {sample_package}: No space left on device"
    assert tree(sample_package.parent) == before


def test_out_is_the_working_directory_or_a_link(
    sample_source: Path, synthetic_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert run("--source", sample_source, "--tasks", "jafin", "--out", link) == 0
    assert link.is_symlink()
    monkeypatch.chdir(real)
    assert run("--source", sample_source, "--tasks", "multifin_ja", "--out", ".") == 0
    assert tree(real) == tree(synthetic_package)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link", "real"]


def test_requests_that_cannot_be_met(
    sample_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "hub"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(capsys, "--source", tmp_path / "no", "--out", out) == (
        f"error: no folder {tmp_path / 'no'}; expected the folder of raw sources"
    )
    assert refused(capsys, "--source", empty, "--out", out) == (
        f"error: {empty} holds the files of no task; see dataset_cards"
    )
    unknown = refused(capsys, "--source", sample_source, "--tasks", "jafin,nope", "--out", out)
    assert unknown.startswith("error: no task 'nope'; tasks: chabsa, ")
    assert refused(capsys, "--source", sample_source, "--tasks", "jafin,pfmt", "--out", out) == (
        f"error: pfmt: no pfmt/question.jsonl in {sample_source}; get it from "
        "https://github.com/pfnet-research/pfmt-bench-fin-ja"
    )
    for arguments in (
        [],
        ["--source", str(empty)],
        ["--source", "x", "--out", "y", "--tasks", ","],
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ")
        assert told.count("\n") == 1
    assert not out.exists()


def test_rows_that_are_not_the_card_s_leave_the_old_package(
    sample_source: Path, sample_package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "raw"
    shutil.copytree(sample_source, source)
    raw = source / "jafin" / "train.jsonl"
    rows = raw.read_text(encoding="utf-8").splitlines(keepends=True)
    raw.write_text("".join(rows[:-1]), encoding="utf-8")
    before = tree(sample_package.parent)
    message = refused(capsys, "--source", source, "--out", sample_package)
    assert (
        message
        == "error: jafin/validation: found 297 rows, the card declares 298; rebuild the package"
    )
    assert tree(sample_package.parent) == before


SLOW = """
import sys, time
from jfinteb.build import hub
from jfinteb.build.__main__ import main
whole = getattr(hub, sys.argv[1])
def slow(*arguments):
    print("here", flush=True)
    time.sleep(60)
    return whole(*arguments)
setattr(hub, sys.argv[1], slow)
sys.exit(main(sys.argv[2:]))
"""


def killed(step: str, source: Path, out: Path) -> None:
    """Start a build, and kill it with SIGKILL at the beginning of `step`."""
    command = [sys.executable, "-c", SLOW, step, "--source", str(source), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("step", ["_write_task", "_replace"])
def test_killed_build_leaves_no_half_package(
    step: str, sample_source: Path, synthetic_package: Path, tmp_path: Path
) -> None:
    out = tmp_path / "hub"
    killed(step, sample_source, out)
    assert not out.exists()
    assert run("--source", sample_source, "--out", out) == 0
    assert tree(out) == tree(synthetic_package)
    killed(step, sample_source, out)
    assert tree(out) == tree(synthetic_package)


def test_killed_between_the_renames_loses_nothing(
    sample_source: Path, sample_package: Path, synthetic_package: Path
) -> None:
    sample_package.replace(sample_package.with_name(".jfinteb.old"))
    options = ("--source", sample_source, "--tasks", "jafin", "--out", sample_package)
    assert run(*options) == 0
    assert tree(sample_package) == tree(synthetic_package)
    assert [entry.name for entry in sample_package.parent.iterdir()] == ["jfinteb"]
