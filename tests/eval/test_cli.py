"""The commands as people type them: what they print, and one line for every mistake."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jfinteb.eval.cli import main, run_main
from jfinteb.eval.result import Result
from jfinteb.loaders.sample import NOTICE

from .results import result, write

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ["--model", "lexical", "--suite", "sample", "--tasks", "ews_horizon,pfmt"]
Capture = pytest.CaptureFixture[str]


def mistake(
    capsys: Capture, *arguments: str, command: Callable[[list[str]], int] = run_main
) -> str:
    """Run a command that must fail with exit code 2 and one line; return that line."""
    try:
        code = command(list(arguments))
    except SystemExit as stop:
        code = int(stop.code or 0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert code == 2
    assert len(lines) == 1
    return lines[0]


def test_run_prints_a_table_and_says_that_sample_scores_mean_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    assert run_main([*SAMPLE, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "ews_horizon" in printed.out and "pfmt" in printed.out
    assert NOTICE in printed.out and NOTICE in printed.err
    assert main(["show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert NOTICE in shown
    values = json.loads(next(tmp_path.rglob("pfmt.json")).read_text(encoding="utf-8"))
    assert f"{values['score']:.4f}" in printed.out
    assert f"{values['score']:.4f}" in shown


def test_a_missing_score_is_a_dash_and_enters_no_average(tmp_path: Path, capsys: Capture) -> None:
    package = tmp_path / "empty"
    package.mkdir()
    options = ["--model", "lexical", "--data", str(package), "--output", str(tmp_path / "results")]
    assert run_main(options) == 1
    printed = capsys.readouterr()
    row = next(line for line in printed.out.splitlines() if line.startswith("chabsa"))
    assert "–" in row and "failed: " in row
    average = next(line for line in printed.out.splitlines() if line.startswith("average"))
    assert average.split() == ["average", "–"]
    assert run_main([*options, "--tasks", "chabsa"]) == 1
    assert not [x for x in capsys.readouterr().out.splitlines() if x.startswith("average")]


def test_dry_run_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    assert run_main([*SAMPLE, "--output", str(tmp_path / "results"), "--dry-run"]) == 0
    *tasks, total = capsys.readouterr().out.splitlines()
    sizes = [int(line.split(" to run ")[1].split()[0].replace(",", "")) for line in tasks]
    assert len(tasks) == 2 and total.split()[:3] == ["all", f"{sum(sizes):,}", "characters,"]
    assert not (tmp_path / "results").exists()


def test_tasks_lists_all_and_their_variants(capsys: Capture) -> None:
    assert main(["tasks"]) == 0
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in printed.splitlines() if line.strip()}
    assert lines["multifin_ja"][-2:] == ["cc-by-nc-4.0", "no"]
    assert lines["chabsa"] == ["chabsa", "2", "1555/289/486", "cc-by-4.0", "yes"]
    assert "wikipedia_retrieval_clean" in lines
    assert "retrieval (ndcg_at_10)" in printed
    assert "suite jfinteb: 11 tasks, without industry33, multifin_ja" in printed
    assert "ews_*_since_<YYYYMM>" in printed
    assert main(["tasks", "--suite", "jfinteb"]) == 0
    printed = capsys.readouterr().out
    assert "chabsa " in printed and "_clean" not in printed and "industry33 " not in printed


@pytest.mark.parametrize("entry", [main, run_main])
def test_help_reads_like_a_page(entry: Callable[[list[str]], int], capsys: Capture) -> None:
    arguments = ["run", "--help"] if entry is main else ["--help"]
    with pytest.raises(SystemExit) as stop:
        entry(arguments)
    assert stop.value.code == 0
    page = capsys.readouterr().out
    assert "examples:" in page and "--query-prompt" in page and "exit codes" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "lexical", "--suite", "nonsense"], "no suite 'nonsense'; suites: jfinteb"),
        (["--model", "lexical", "--tasks", "nonsense"], "no task 'nonsense'; tasks: chabsa"),
        (["--model", "lexical", "--tasks", ""], "found no name, expected a list"),
        (["--model", "lexical", "--tasks", " , "], "found no name, expected a list"),
        (["--model", "lexical", "--passage-prompt", "x"], "unrecognized arguments"),
        (["--model", "lexical", "--data", "./nowhere"], "no folder './nowhere'"),
        (["--model", "lexical", "--data", "nowhere"], "no folder 'nowhere'"),
        (["--model", "lexical", "--suite", "sample", "--data", "x"], "leave one out"),
        (["--model", "lexical", "--backend", "magic"], "no backend 'magic'; backends:"),
        (["--model", "lexical", "--pooling", "cls"], "lexical backend has no pooling"),
        (["--model", "lexical", "--max-length", "0"], "max-length is 0, expected"),
        (["--model", "lexical", "--max-length", "many"], "invalid int value: 'many'"),
        (["--model", "./nowhere"], "no folder './nowhere'; expected a model folder or a hub id"),
        (["--model", "./nowhere", "--pooling", "middle"], "no pooling 'middle'; expected auto"),
        (["--model", "./nowhere", "--dtype", "int3"], "no dtype 'int3'; expected float32"),
        ([], "the following arguments are required: --model"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: Capture, tmp_path: Path
) -> None:
    assert says in mistake(capsys, *arguments, "--output", str(tmp_path))


def test_an_output_that_cannot_be_written_is_known_before_the_first_task(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    line = mistake(capsys, *SAMPLE, "--output", str(file / "results"))
    assert "cannot write" in line and "Not a directory" in line
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """A limit on file size stands in for a full disk; the first result file goes over it."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000));"
        "from jfinteb.eval.cli import run_main; sys.exit(run_main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *SAMPLE, "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "cannot write" in line
    assert "Traceback" not in done.stderr
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))  # whole or absent
    assert not list(tmp_path.rglob("pfmt*")) and not list(tmp_path.rglob(".*"))


def test_show_without_results(tmp_path: Path, capsys: Capture) -> None:
    assert "no results in" in mistake(capsys, "show", str(tmp_path), command=main)
    assert "no folder" in mistake(capsys, "show", str(tmp_path / "x"), command=main)


def run_script(output: Path, seed: str, tasks: str) -> dict[str, object]:
    subprocess.run(
        [
            *(sys.executable, str(ROOT / "eval" / "run.py")),
            *("--model", "lexical", "--suite", "sample"),
            *("--tasks", tasks, "--output", str(output)),
        ],
        check=True,
        capture_output=True,
        cwd=output.parent,
        env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    results = {}
    for path in sorted(output.rglob("*.json")):
        values = json.loads(path.read_text(encoding="utf-8"))
        for moving in ("seconds", "finished"):
            values.pop(moving, None)
        results[str(path.relative_to(output))] = values
    predictions = {
        str(p.relative_to(output)): p.read_bytes() for p in sorted(output.rglob("*.jsonl"))
    }
    return {**results, **predictions}


def test_hash_seed_order_of_tasks_and_locale_change_no_bit(tmp_path: Path) -> None:
    first = run_script(tmp_path / "a", "0", "wikinews,pfmt,ews_reason")
    second = run_script(tmp_path / "b", "1", "ews_reason,wikinews,pfmt")
    summaries = [name for name in first if name.endswith("summary.json")]
    assert len(summaries) == 1 and len(first) == 7
    assert first == second


def test_a_code_page_without_our_dashes_costs_no_result(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "eval" / "run.py"), *SAMPLE, "--output", str(tmp_path)],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "cp932", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert b"ews_horizon" in done.stdout


def test_show_prints_what_it_can_read(tmp_path: Path, capsys: Capture) -> None:
    assert run_main([*SAMPLE, "--output", str(tmp_path)]) == 0
    next(tmp_path.rglob("pfmt.json")).write_text("{", encoding="utf-8")
    capsys.readouterr()
    assert main(["show", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "ews_horizon" in printed.out
    assert "pfmt.json is not a result file" in printed.err


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999", "x"])
def test_seeds_that_no_algorithm_takes(seed: str, capsys: Capture) -> None:
    mistake(capsys, *SAMPLE, "--seed", seed)


def test_a_report_is_one_page_with_every_score(tmp_path: Path, capsys: Capture) -> None:
    assert (
        run_main([*SAMPLE, "--prompt", "<script>alert(1)</script>", "--output", str(tmp_path)]) == 0
    )
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1
    assert NOTICE in page
    for path in tmp_path.rglob("*.json"):
        values = json.loads(path.read_text(encoding="utf-8"))
        if "score" in values:
            assert f"{values['score']:.4f}" in page
            assert values["outcome"]["chosen"] in page
    mistake(capsys, "report", str(tmp_path / "nowhere"), command=main)


def test_a_damaged_file_costs_the_report_no_other_score(tmp_path: Path, capsys: Capture) -> None:
    assert run_main([*SAMPLE, "--output", str(tmp_path)]) == 0
    next(tmp_path.rglob("pfmt.json")).write_text("{", encoding="utf-8")
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    assert "pfmt.json is not a result file" in capsys.readouterr().err
    assert "ews_horizon" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_show_for_machines_is_utf8_and_nothing_else(tmp_path: Path) -> None:
    made = write_results(tmp_path / "m" / "s", "日本/モデル")
    for option in ("--json", "--csv"):
        done = subprocess.run(
            [sys.executable, "-m", "jfinteb.eval.cli", "show", str(tmp_path), option],
            capture_output=True,
            check=True,
            env={"PYTHONIOENCODING": "cp932", "PATH": "/usr/bin:/bin"},
        )
        text = done.stdout.decode("utf-8")
        assert "日本/モデル" in text and str(made.score) in text
        if option == "--json":
            assert json.loads(text)["boards"][0]["runs"][0]["model"] == "日本/モデル"
        else:
            (line,) = csv.DictReader(text.splitlines())
            assert float(line["score"]) == made.score


def test_show_takes_only_what_was_asked_for(tmp_path: Path, capsys: Capture) -> None:
    write_results(tmp_path / "m" / "s", "org/one")
    write_results(tmp_path / "m" / "t", "org/two")
    assert main(["show", str(tmp_path), "--model", "TWO", "--tasks", "chabsa"]) == 0
    printed = capsys.readouterr().out
    assert "org/two" in printed and "org/one" not in printed and "average" not in printed
    assert "no results left" in mistake(
        capsys, "show", str(tmp_path), "--tasks", "pfmt", command=main
    )
    assert "no suite" in mistake(capsys, "report", str(tmp_path), "--suite", "x", command=main)
    mistake(capsys, "show", str(tmp_path), "--json", "--csv", command=main)


def write_results(folder: Path, model: str) -> Result:
    """A run of one task."""
    made = result("chabsa", 0.625, model=model)
    write(folder, made)
    return made
