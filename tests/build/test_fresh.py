"""Fresh variants of the survey's tasks: only months from one on, also of a release no card pins."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from jfinteb.build.__main__ import main
from jfinteb.build.release import read_manifest
from jfinteb.loaders import load
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import get_task

SURVEY = "retarfi/economy-watchers-survey"
RELEASE = "2025.11.0"
TEXT = {"current": "追加説明及び具体的状況の説明", "future": "景気の先行きに対する判断理由"}
BUILD = "import sys; from jfinteb.build.__main__ import main; sys.exit(main(sys.argv[1:]))"


def survey(months: range, rows: int = 12) -> dict[str, str]:
    """Files of a release in the hub's layout: the months in `train`, old ones elsewhere."""
    files = {}
    for config, text in TEXT.items():
        lines = [
            {
                "id": f"{config}-{month}-{n:04}",
                "year-month": str(month),
                "関連": ("企業動向", "家計動向", "雇用")[n % 3],
                "景気の現状判断" if config == "current" else "景気の先行き判断": "□",
                "判断の理由": None,
                text: f"{month}月の{config}のコメントその{n}です。",
            }
            for month in (200001, 200002, *months)
            for n in range(rows if month in months else 1)
        ]
        for split, part in (("validation", lines[:1]), ("test", lines[1:2]), ("train", lines[2:])):
            files[f"{config}/{split}.jsonl"] = "".join(
                json.dumps(line, ensure_ascii=False) + "\n" for line in part
            )
    return files


def write(folder: Path, files: dict[str, str], packer: Any = None, suffix: str = "") -> None:
    for name, text in files.items():
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packer(text.encode()) if packer else text.encode())


def options(source: Path, out: Path, *more: str) -> list[str]:
    wanted = ("--tasks", "ews_horizon", "--since", "2025-06", "--rows-per-label", "10", *more)
    return ["--source", str(source), "--out", str(out), *wanted]


def digests(files: dict[str, str]) -> dict[str, str]:
    return {
        f"ews/{RELEASE}/{name}": hashlib.sha256(text.encode()).hexdigest()
        for name, text in files.items()
    }


def check(out: Path, files: dict[str, str]) -> None:
    """The package has the variant of the release, and tells what it was made of."""
    name = "ews_horizon_since_202506_n10_r2025_11_0"
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest[name]["raw"] == digests(files)
    assert read_manifest(out).keys() == {name}
    loaded = load(name, data=out)
    # ten of each of two labels, cut 70/10/20
    assert {split: part.num_rows for split, part in loaded.items()} == {
        "train": 14,
        "validation": 2,
        "test": 4,
    }
    assert {row["id"].split("-")[1] for part in loaded.values() for row in part} <= {
        "202506",
        "202507",
    }
    prose = (out / "README.md").read_text(encoding="utf-8")
    assert "(fresh variant, months from 2025-06 on, 10 rows a label, release 2025.11.0)" in prose
    licences = (out / "LICENSES.md").read_text(encoding="utf-8")
    assert f"{SURVEY}/tree/2025.11.0>, revision `2025.11.0`" in licences


@pytest.mark.parametrize(
    ("packer", "suffix"), [(None, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")]
)
def test_another_release_from_a_folder(
    packer: Any, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = survey(range(202505, 202508))
    write(tmp_path / "raw" / "ews" / RELEASE, files, packer, suffix)
    out = tmp_path / "out"
    assert main(options(tmp_path / "raw", out, "--revision", RELEASE)) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "no card knows the files of revision 2025.11.0; their SHA-256 stand in" in told
    check(out, files)


def test_another_release_from_the_hub(hub: Any, run: Any, tmp_path: Path) -> None:
    old, new = survey(range(202503, 202506)), survey(range(202505, 202508))
    for tag, files in (("2025.05.0", old), (RELEASE, new)):
        hub.tell("create", name=SURVEY, private=False, files=files, tag=tag)
    out, raw = tmp_path / "out", tmp_path / "raw"
    done = run(BUILD, "--fetch", *options(raw, out, "--revision", RELEASE))
    assert done.returncode == 0, done.stderr
    check(out, new)
    # the pinned release stands beside it, and is not taken for what it is not
    done = run(BUILD, "--fetch", *options(raw, out))
    assert done.returncode == 2
    assert (raw / "ews" / "current" / "train.jsonl").read_text(encoding="utf-8") == old[
        "current/train.jsonl"
    ]
    assert "are not those of release 2025.05.0" in done.stderr.splitlines()[-1]
    check(out, new)


def test_a_release_that_the_hub_lacks(hub: Any, run: Any, tmp_path: Path) -> None:
    hub.tell("create", name=SURVEY, private=False, files={"x": ""}, tag="2025.05.0")
    for revision in ("2099.01.0", "0" * 40):
        done = run(
            BUILD, "--fetch", *options(tmp_path / "raw", tmp_path / "out", "--revision", revision)
        )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == (
            f"error: cannot get current/train.jsonl of {SURVEY} at {revision}: it has no such "
            "revision, expected one of its tags or commits"
        )
    assert not list((tmp_path / "raw").rglob("*.jsonl"))


def test_a_release_never_stands_in_for_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "raw"
    write(raw / "ews", survey(range(202505, 202508)))  # where the pinned release stands
    assert main(options(raw, tmp_path / "out", "--revision", RELEASE)) == 2
    [message] = capsys.readouterr().err.splitlines()[-1:]
    assert message == (
        f"error: ews_horizon_since_202506_n10_r2025_11_0: no ews/{RELEASE}/current/train.jsonl in "
        f"{raw}; get it from https://huggingface.co/datasets/{SURVEY}/tree/{RELEASE}"
    )


def test_no_month_so_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "raw" / "ews" / RELEASE, survey(range(202503, 202506)))
    assert main(options(tmp_path / "raw", tmp_path / "out", "--revision", RELEASE)) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: ews_horizon_since_202506_n10_r2025_11_0: label 先行き has 0 comments, expected 10 "
        "or more; begin with an earlier month (--since), or take a later release (--revision)"
    )


def test_another_release_where_the_pinned_one_should_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows never get the name of the pinned one's."""
    write(tmp_path / "raw" / "ews", survey(range(202505, 202508)))
    for revision in ((), ("--revision", "2025.05.0")):
        assert main(options(tmp_path / "raw", tmp_path / "out", *revision)) == 2
        message = capsys.readouterr().err.splitlines()[-1]
        assert message.startswith(
            "error: ews_horizon_since_202506_n10: the current comments are not those of release "
            "2025.05.0 (found digest "
        )
        assert message.endswith("or name the release that they are of with --revision")
    assert not (tmp_path / "out").exists()


def test_the_pinned_release_by_its_name_is_the_pinned_release(
    data_folder: Path, tmp_path: Path
) -> None:
    asked = ["--source", str(data_folder), "--out", str(tmp_path / "out"), "--tasks", "ews_reason"]
    more = ["--since", "2024-07", "--rows-per-label", "10", "--revision", "2025.05.0"]
    assert main([*asked, *more]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest) == ["ews_reason_since_202407_n10"]
    assert manifest["ews_reason_since_202407_n10"]["raw"] == {
        f"ews/current/{split}.jsonl": hashlib.sha256(
            lzma.decompress((data_folder / "ews" / "current" / f"{split}.jsonl.xz").read_bytes())
        ).hexdigest()
        for split in ("train", "validation", "test")
    }


def test_a_second_build_in_one_process_reads_changed_files(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "ews" / RELEASE
    name, found = "ews_horizon_since_202506_n10_r2025_11_0", []
    for comment in ("コメント", "感想文書"):  # as long as the other
        files = survey(range(202505, 202508))
        write(raw, {k: text.replace("コメント", comment) for k, text in files.items()})
        out = tmp_path / comment
        assert main(options(tmp_path / "raw", out, "--revision", RELEASE)) == 0
        found.append(load(name, "test", data=out)["text"])
    assert all("コメント" in text for text in found[0])
    assert all("感想文書" in text for text in found[1])


def test_a_second_build_keeps_what_is_told_of_raw_files(
    sample_source: Path, tmp_path: Path
) -> None:
    files = survey(range(202505, 202508))
    write(tmp_path / "raw" / "ews" / RELEASE, files)
    out = tmp_path / "out"
    assert main(options(tmp_path / "raw", out, "--revision", RELEASE)) == 0
    assert main(["--source", str(sample_source), "--tasks", "jafin", "--out", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest) == {"jafin", "ews_horizon_since_202506_n10_r2025_11_0"}
    assert manifest["ews_horizon_since_202506_n10_r2025_11_0"]["raw"] == digests(files)


def test_a_release_of_a_folder_passes_the_audit_and_may_be_pushed(tmp_path: Path) -> None:
    from rich.console import Console

    from jfinteb.build.push import push
    from jfinteb.build.release import audit_errors

    write(tmp_path / "raw" / "ews" / RELEASE, survey(range(202505, 202508), rows=300))
    out = tmp_path / "out"
    assert main(options(tmp_path / "raw", out, "--revision", RELEASE)) == 0
    screen = Console(file=io.StringIO())
    assert push(out, "a/b", "v1.0.0", console=screen, audit=audit_errors, dry_run=True) == ""


def test_names_of_variants_tell_months_rows_and_release() -> None:
    names = (
        "ews_domain_since_202506",
        "ews_domain_since_202507",
        "ews_domain_since_202506_n200",
        "ews_domain_since_202506_n200_r2025_11_0",
        "ews_domain_since_202506_r2025_11_0",
        "ews_domain_since_202506_r" + "0a" * 20,
    )
    tasks = [get_task(name) for name in names]
    assert len({task.title for task in tasks}) == len(names)
    assert len({task.pretty_name for task in tasks}) == len(names)
    assert tasks[4].source.revision == "2025.11.0"
    assert tasks[4].source.files["future_test"].path == "ews/2025.11.0/future/test.jsonl"
    assert tasks[4].source.files["future_test"].url == (
        f"hf://datasets/{SURVEY}@2025.11.0/future/test.jsonl"
    )
    assert tasks[5].source.revision == "0a" * 20


def test_real_rows_too_few_and_enough(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fresh"
    asked = ["--source", str(data_folder), "--out", str(out), "--tasks", "ews_reason"]
    assert main([*asked, "--since", "2024-07"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "expected 1000 or more; draw fewer a label (--rows-per-label, at most" in error
    assert not out.exists()
    assert main([*asked, "--since", "2024-07", "--rows-per-label", "10"]) == 0
    name = "ews_reason_since_202407_n10"
    test = load(name, "test", data=out)
    assert test.num_rows == 13 * 5
    assert min(i.split("-")[1] for i in test["id"]) >= "202407"
    (out / "manifest.json").write_text(
        (out / "manifest.json").read_text(encoding="utf-8").replace('"digest": "', '"digest": "0'),
        encoding="utf-8",
    )
    with pytest.raises(DataError, match="rows have changed"):
        load(name, "test", data=out)


NO_MONTHS = "found task chabsa, expected one of the Economy Watchers Survey"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--since 2024", "found '2024', expected YYYY-MM"),
        ("--since ２０２５-06", "found '２０２５-06', expected YYYY-MM"),
        ("--since 2024-13", "found '2024-13', expected YYYY-MM"),
        ("--since 2024-07", "--since wants --tasks"),
        ("--since 2024-07 --tasks chabsa", NO_MONTHS),
        ("--since 2024-07 --tasks ews_domain_clean", "found task ews_domain_clean, expected one"),
        ("--rows-per-label 20", "--rows-per-label goes with --since"),
        ("--since 2024-07 --tasks ews_domain --rows-per-label 1", "10 or more"),
        ("--revision 2025.11.0", "--revision wants --tasks"),
        ("--revision 2025.11.0 --tasks chabsa", NO_MONTHS),
        ("--revision 2025.11.0 --since 2025-06 --tasks ews_domain,chabsa", NO_MONTHS),
        (
            "--revision 2025.11.0 --tasks ews_domain",
            "--revision 2025.11.0 goes with --since: the rows of ews_domain are those of 2025.05.0",
        ),
        ("--revision main --tasks ews_domain --since 2025-06", "found --revision 'main', expected"),
        ("--revision ../x --tasks ews_domain --since 2025-06", "found --revision '../x', expected"),
    ],
)
def test_mistakes(
    arguments: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["--source", str(tmp_path), "--out", str(tmp_path / "o"), *arguments.split()])
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2
    [message] = capsys.readouterr().err.splitlines()
    assert says in message


@pytest.mark.parametrize(
    "name",
    [
        "ews_domain_since_202506_r2025_05_0",  # the pinned one has a shorter name
        "ews_domain_since_202506_rmain",
        "ews_domain_since_202506_r2025",
        "ews_domain_clean_r2025_11_0",
        "chabsa_since_202506_r2025_11_0",
        "wikinews_dump_r2025_11_0",
    ],
)
def test_variants_that_do_not_exist(name: str) -> None:
    from jfinteb.loaders.task import find_task

    assert find_task(name) is None
