"""The runner: results on disk, what is kept, what is done again, and one fault at a time."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import f1_score

from jfinteb.eval.backends import EncoderOptions, open_encoder
from jfinteb.eval.backends.base import Embedded, TextEncoder
from jfinteb.eval.result import Failed, Result, read_result
from jfinteb.eval.runner import Runner
from jfinteb.loaders.data import Sample, open_origin
from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Role, Task, get_suite, get_task

from .results import read_results

SMALL = ("ews_horizon", "pfmt", "ews_reason")


class CountingEncoder(TextEncoder):
    """The lexical baseline, with a record of its calls and a fault on demand."""

    def __init__(self, poison: str | None = None) -> None:
        self.inner = open_encoder(EncoderOptions(model="lexical", backend="lexical"))
        super().__init__(self.inner.spec)
        self.calls = 0
        self.poison = poison

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    def embed(self, strings: Sequence[str], role: Role) -> Embedded:
        self.calls += 1
        done = self.inner.embed(strings, role)
        if self.poison is not None:
            done.vectors[[i for i, s in enumerate(strings) if self.poison in s]] = np.nan
        return done


def run(
    output: Path,
    tasks: Sequence[str] = SMALL,
    encoder: TextEncoder | None = None,
    **options: Any,
) -> dict[str, Result | Failed]:
    runner = Runner(encoder or CountingEncoder(), open_origin("sample"), output, **options)
    plans, failed = runner.plan([get_task(name) for name in tasks])
    done = {plan.task.name: result for plan, result in runner.run(plans)}
    return {**done, **{failure.task: failure for failure in failed}}


def folder_of(output: Path) -> Path:
    (folder,) = (output / "sample" / "jfinteb__lexical").iterdir()
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole")
    results = run(output, [task.name for task in get_suite("sample")])
    assert all(isinstance(result, Result) for result in results.values())
    return output


def test_a_suite_leaves_one_result_a_task_and_a_summary(whole: Path) -> None:
    names = {path.stem for path in folder_of(whole).glob("*.json")}
    assert names == {task.name for task in get_suite("sample")} | {"summary"}
    summary = json.loads((folder_of(whole) / "summary.json").read_text(encoding="utf-8"))
    scores = {r.task: r.score for r in read_results(whole)}
    assert summary["scores"] == scores
    means = summary["averages"]["sample"]
    assert math.isclose(means["all"], sum(scores.values()) / 13)
    retrieval = ("jafin", "pfmt", "wikinews_retrieval", "wikipedia_retrieval")
    assert math.isclose(means["retrieval"], sum(scores[name] for name in retrieval) / 4)
    assert summary["sample"] is True


def test_scores_follow_from_the_predictions_beside_them(whole: Path) -> None:
    for result in read_results(whole):
        lines = (folder_of(whole) / f"{result.task}.predictions.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in lines.splitlines()]
        assert len(rows) == result.data["splits"]["test"]["rows"]
        if result.kind == "classification":
            true, guess = [r["reference"] for r in rows], [r["prediction"] for r in rows]
            expected = f1_score(true, guess, average="macro")
            assert math.isclose(result.score, expected, abs_tol=1e-12)
        elif result.kind == "retrieval":
            expected = sum(r["ndcg_at_10"] for r in rows) / len(rows)
            assert math.isclose(result.score, expected, abs_tol=1e-12)


def test_a_result_tells_what_it_followed_from(whole: Path) -> None:
    values = json.loads(
        (folder_of(whole) / "pfmt.json").read_text(encoding="utf-8"),
        parse_constant=lambda name: pytest.fail(f"{name} in JSON"),
    )
    assert values["spec"]["prompts"].keys() == {"query", "document", "classification", "clustering"}
    assert values["data"]["origin"] == "sample"
    assert {"python", "numpy", "scikit-learn"} <= values["environment"].keys()
    assert values["outcome"]["validation"].keys() == {"cosine", "dot", "euclidean"}
    assert values["outcome"]["chosen"] in values["outcome"]["validation"]
    assert any("synthetic" in note for note in values["notes"])
    rows = sum(split["rows"] for split in values["data"]["splits"].values())
    assert values["counts"]["texts"] == rows


def test_a_second_run_keeps_every_byte_and_encodes_nothing(tmp_path: Path) -> None:
    run(tmp_path)
    before = {p: p.read_bytes() for p in folder_of(tmp_path).iterdir()}
    again = CountingEncoder()
    run(tmp_path, encoder=again)
    assert again.calls == 0
    assert {p: p.read_bytes() for p in folder_of(tmp_path).iterdir()} == before


def test_only_what_is_missing_is_computed(tmp_path: Path) -> None:
    run(tmp_path)
    (folder_of(tmp_path) / "pfmt.json").unlink()
    again = CountingEncoder()
    run(tmp_path, encoder=again)
    assert again.calls == 2  # queries and corpus of one task


def test_a_result_of_another_seed_is_set_aside_not_lost(tmp_path: Path) -> None:
    first = run(tmp_path, ["ews_reason"])["ews_reason"]
    second = run(tmp_path, ["ews_reason"], seed=7)["ews_reason"]
    assert isinstance(first, Result) and isinstance(second, Result)
    aside = folder_of(tmp_path) / f"ews_reason.{first.identity[:8]}.json"
    assert read_result(aside) == first
    assert [r.seed for r in read_results(tmp_path)] == [7]


def test_a_seed_does_not_touch_what_draws_nothing(tmp_path: Path) -> None:
    run(tmp_path, ["pfmt"])
    again = CountingEncoder()
    run(tmp_path, ["pfmt"], encoder=again, seed=7)
    assert again.calls == 0


def test_changed_rows_make_a_result_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(tmp_path, ["pfmt"])["pfmt"]
    table = Sample.table

    def changed(self: Sample, task: Task, split: str) -> pa.Table:
        rows = table(self, task, split)
        if split != "test":
            return rows
        queries = rows.column("query").to_pylist()
        return rows.set_column(1, "query", pa.array([queries[0] + "。", *queries[1:]]))

    monkeypatch.setattr(Sample, "table", changed)
    again = CountingEncoder()
    second = run(tmp_path, ["pfmt"], encoder=again)["pfmt"]
    assert isinstance(first, Result) and isinstance(second, Result)
    assert again.calls == 2  # queries and corpus
    assert first.identity != second.identity


def test_not_finite_vectors_fail_one_task_and_name_model_split_and_row(tmp_path: Path) -> None:
    table = open_origin("sample").table(get_task("pfmt"), "test")
    poison = table.column("query").to_pylist()[4]
    results = run(tmp_path, encoder=CountingEncoder(poison=poison))
    failed = results["pfmt"]
    assert isinstance(failed, Failed)
    assert "jfinteb/lexical gave NaN or infinity for row 4 of test" in failed.reason
    assert "\n" not in failed.reason
    assert isinstance(results["ews_horizon"], Result)
    summary = json.loads((folder_of(tmp_path) / "summary.json").read_text(encoding="utf-8"))
    assert "pfmt" not in summary["scores"]
    assert summary["averages"]["sample"]["retrieval"] is None


def test_a_failed_task_leaves_its_old_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = run(tmp_path, ["pfmt"])["pfmt"]
    table = open_origin("sample").table(get_task("pfmt"), "test")
    poison = CountingEncoder(poison=table.column("query").to_pylist()[0])
    with monkeypatch.context() as patch:
        patch.setattr("jfinteb.eval.runner.VERSION", 99)  # the old result no longer holds
        failed = run(tmp_path, ["pfmt"], encoder=poison)["pfmt"]
    assert isinstance(failed, Failed)
    assert read_result(folder_of(tmp_path) / "pfmt.json") == old


def test_what_is_not_a_result_is_named_and_left_alone(tmp_path: Path) -> None:
    run(tmp_path, ["pfmt"])
    path = folder_of(tmp_path) / "pfmt.json"
    path.write_text('{"schema": 99}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"schema 99, this version reads 1"):
        read_result(path)
    failed = run(tmp_path, ["pfmt"])["pfmt"]
    assert isinstance(failed, Failed) and "schema 99" in failed.reason
    assert path.read_text(encoding="utf-8") == '{"schema": 99}\n'


def test_the_order_of_tasks_changes_no_bit(tmp_path: Path) -> None:
    def scores(output: Path) -> dict[str, Any]:
        return {r.task: (r.score, r.outcome, r.counts) for r in read_results(output)}

    run(tmp_path / "a", SMALL)
    run(tmp_path / "b", SMALL[::-1])
    assert scores(tmp_path / "a") == scores(tmp_path / "b")


def test_an_interrupt_keeps_what_was_finished(tmp_path: Path) -> None:
    class Interrupted(CountingEncoder):
        def embed(self, strings: Sequence[str], role: Role) -> Embedded:
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().embed(strings, role)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, encoder=Interrupted())
    assert [r.task for r in read_results(tmp_path)] == ["ews_horizon"]
    assert not list(folder_of(tmp_path).glob(".*"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda v: v[0], r"array of shape \(\d+,\) and type float32, expected \(\d+, dimensions\)"),
        (lambda v: v[:-1], r"expected \(\d+, dimensions\)"),
        (lambda v: v.astype(complex), "type complex128, expected"),
        (lambda v: v.astype(object), "type object, expected"),
        (lambda v: v[:, :0], r"shape \(\d+, 0\)"),
        (lambda v: np.where(np.arange(len(v))[:, None] == 3, np.inf, v), "infinity for row 3"),
        (lambda v: v.astype(np.float64) * 1e300, "NaN or infinity for row 0"),
    ],
)
def test_vectors_of_any_encoder_are_checked(tmp_path: Path, spoil: Any, says: str) -> None:
    class Spoiled(CountingEncoder):
        def encode(self, texts: Sequence[str], role: Any) -> Any:
            return spoil(super().encode(texts, role))

    failed = run(tmp_path, ["pfmt"], encoder=Spoiled())["pfmt"]
    assert isinstance(failed, Failed)
    assert re.search(says, failed.reason), failed.reason


@pytest.mark.parametrize(
    "change",
    [{"score": None}, {"score": float("nan")}, {"task": "chabsa"}, {"outcome": {}}, {"identity": 5},
     {"data": None}, {"environment": {"torch": 5}}, {"environment": ["torch"]}, {"notes": "none"},
     {"notes": [1]}, {"spec": None}, {"finished": 0}, {"data": {"origin": "x", "splits": []}},
     {"outcome": {"chosen": "cosine", "validation": {"cosine": 1}}},
     {"outcome": {"chosen": "cosine", "validation": {}, "interval": {"low": 0}}},
     {"outcome": {"chosen": "cosine", "validation": {}, "ceiling": "1"}}],
)  # fmt: skip
def test_a_result_with_other_content_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    run(tmp_path, ["pfmt"])
    path = folder_of(tmp_path) / "pfmt.json"
    values = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(DataError, match="move it away"):
        read_result(path)
    failed = run(tmp_path, ["pfmt"])["pfmt"]
    assert isinstance(failed, Failed)


def test_rows_that_nothing_vouches_for_are_said_to_be_so(
    tmp_path: Path, synthetic_package: Path
) -> None:
    package = shutil.copytree(synthetic_package, tmp_path / "package")
    for expected in (False, True):
        runner = Runner(CountingEncoder(), open_origin(package), tmp_path / str(expected))
        plans, _ = runner.plan([get_task("multifin_ja")])
        ((_, result),) = runner.run(plans)
        assert isinstance(result, Result)
        assert any("rows not verified" in note for note in result.notes) is expected
        (package / "manifest.json").unlink(missing_ok=True)
