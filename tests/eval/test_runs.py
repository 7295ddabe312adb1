"""Runs from disk: what tells those of one model apart, and what is said where they differ."""

from __future__ import annotations

from pathlib import Path

from jfinteb.eval.runs import labels, plain, read_runs, remarks, same_terms

from .results import SPEC, result, run, write


def test_two_folders_are_two_runs_even_of_one_spec(tmp_path: Path) -> None:
    write(tmp_path / "old" / "m" / "s", result("chabsa", 0.5, environment={"torch": "2.12.0"}))
    write(tmp_path / "new" / "m" / "s", result("chabsa", 0.6), result("pfmt", 0.7))
    (tmp_path / "new" / "m" / "s" / "summary.json").write_text("{}", encoding="utf-8")
    (tmp_path / "new" / "m" / "s" / "chabsa.0123abcd.json").write_text("{}", encoding="utf-8")
    runs, unreadable = read_runs(tmp_path)
    assert not unreadable
    assert [(r.folder, {t: x.score for t, x in r.results.items()}) for r in runs] == [
        ("new/m/s", {"chabsa": 0.6, "pfmt": 0.7}),
        ("old/m/s", {"chabsa": 0.5}),
    ]
    assert [label.place for label in labels(runs)] == ["new/m/s", "old/m/s"]


def test_damaged_files_are_told_and_cost_no_other(tmp_path: Path) -> None:
    write(tmp_path / "s", result("chabsa", 0.5), result("pfmt", 0.7))
    (tmp_path / "s" / "pfmt.json").write_text("{", encoding="utf-8")
    runs, (message,) = read_runs(tmp_path)
    assert list(runs[0].results) == ["chabsa"]
    assert "pfmt.json is not a result file" in message


def test_a_label_says_what_differs_and_nothing_else() -> None:
    prompts = {**SPEC["prompts"], "query": "query: ", "clustering": "query: ", "document": "p: "}
    one = run(result("chabsa", 0.5, digest="1" * 64))
    two = run(result("chabsa", 0.5, digest="2" * 64, spec={**SPEC, "prompts": prompts}))
    three = run(result("chabsa", 0.5, digest="3" * 64, spec={**SPEC, "truncate_dim": 128}))
    alone = run(result("chabsa", 0.5, model="org/b"))
    assert [(x.settings, x.place) for x in labels([one, two, three, alone])] == [
        (("prompts none", "truncate dim all"), "1" * 12),
        (("prompts 'query: ' (query, clustering) 'p: ' (document)", "truncate dim all"), "2" * 12),
        (("prompts none", "truncate dim 128"), "3" * 12),
        ((), ""),
    ]


def test_the_sample_and_real_data_of_a_model_need_no_telling_apart() -> None:
    both = [run(result("chabsa", 0.5)), run(result("chabsa", 0.9, sample=True), folder="sample/f")]
    assert [str(label) for label in labels(both)] == ["org/a", "org/a"]


def test_versions_and_devices_are_told_with_their_runs() -> None:
    new, old = {"torch": "2.13.0", "device": "cpu"}, {"torch": "2.12.0", "device": "cpu"}
    runs = [
        run(result("chabsa", 0.5, environment=env, digest=str(i) * 64))
        for i, env in enumerate([new, new, old, new, {"device": "cpu"}])
    ]
    assert remarks(runs) == [
        "made with different versions or devices: torch 2.13.0 (runs 1, 2, 4), 2.12.0 (run 3)"
    ]
    assert remarks(runs[:2]) == []


def test_a_run_gone_on_with_under_another_version_says_in_which_tasks() -> None:
    old = {"torch": "2.12.0", "device": "cuda:0"}
    mixed = run(
        result("chabsa", 0.5), result("pfmt", 0.5), result("wikinews", 0.5, environment=old)
    )
    assert remarks([mixed]) == [
        "made with different versions or devices: torch 2.13.0 (run 1 except wikinews), "
        "2.12.0 (run 1 in wikinews); device cpu (run 1 except wikinews), cuda:0 (run 1 in wikinews)"
    ]


def test_other_rows_protocol_and_seed_are_told() -> None:
    one = run(result("chabsa", 0.5), result("pfmt", 0.5))
    two = run(result("chabsa", 0.5, rows="other", seed=7), result("pfmt", 0.5, version=1))
    assert remarks([one, two]) == [
        "not comparable, protocol version 2 (run 1; run 2 in chabsa), 1 (run 2 in pfmt)",
        "not comparable, chabsa has other rows: run 1 / run 2",
        "different seeds: 0 (run 1; run 2 in pfmt), 7 (run 2 in chabsa)",
    ]
    assert not same_terms("chabsa", [one, two])
    assert not same_terms("pfmt", [one, two])
    assert same_terms("pfmt", [one])


def test_text_of_others_cannot_drive_a_terminal() -> None:
    assert plain("日本 a/b") == "日本 a/b"
    assert plain("\x1b[2J\r\u202e\ud800\n") == "\ufffd[2J\ufffd\ufffd\ufffd\ufffd"
