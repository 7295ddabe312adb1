"""Boards: order, means over what they say they are over, marks. Values by hand."""

from __future__ import annotations

import pytest

from jfinteb.eval.leaderboard import Board, boards, choose
from jfinteb.eval.result import Result
from jfinteb.eval.runs import ScoredRun
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import suites

from .results import result, run

SUITE = suites()["jfinteb"]


def whole(model: str, score: float, without: tuple[str, ...] = ()) -> ScoredRun:
    """A run of the suite with the same score everywhere."""
    return run(*(result(t, score, model=model) for t in SUITE if t not in without), folder=model)


def board(*runs: ScoredRun, suite: str | None = None, chosen: bool = False) -> Board:
    (found,) = boards(runs, suite=suite, chosen=chosen)
    return found


def models(found: Board) -> list[str]:
    return [row.label.model for row in found.rows]


def test_order_is_by_a_mean_that_all_have() -> None:
    runs = [whole("d", 0.5), whole("A", 0.8, ("pfmt",)), whole("b", 0.7), whole("a", 0.5)]
    found = board(*runs, whole("z", 0.9, ("chabsa",)), whole("B", 0.8, ("chabsa",)))
    assert models(found) == ["z", "A", "B", "b", "a", "d"]  # an average tells three of them only
    assert "order: by common mean" in found.remarks
    assert [row.means["all"] for row in found.rows] == pytest.approx([*[None] * 3, 0.7, 0.5, 0.5])
    assert found.rows[0].means["retrieval"] == pytest.approx(0.9)
    assert found.rows[0].means["classification"] is None
    averaged = board(whole("a", 0.5), whole("b", 0.75), whole("c", 0.25))
    assert models(averaged) == ["b", "a", "c"] and "order: by average" in averaged.remarks
    apart = board(run(result("pfmt", 0.25, model="a")), run(result("chabsa", 0.75, model="b")))
    assert models(apart) == ["a", "b"]
    assert any(line.startswith("order: by name, since no mean") for line in apart.remarks)
    assert [str(kind) for kind in found.kinds] == ["classification", "retrieval"]  # one clustering


def test_common_is_over_the_tasks_of_the_suite_that_all_have() -> None:
    one = run(
        result("chabsa", 0.5, model="a"),
        result("pfmt", 0.75, model="a"),
        result("wikinews", 1.0, model="a"),
        result("industry33", 0.0, model="a"),  # not of the suite
    )
    two = run(
        result("chabsa", 0.25, model="b"),
        result("pfmt", 0.5, model="b"),
        result("industry33", 1.0, model="b"),
    )
    found = board(one, two)
    assert found.common == ("chabsa", "pfmt")
    assert [row.common for row in found.rows] == [0.625, 0.375]
    assert [row.means["all"] for row in found.rows] == [None, None]
    assert any("industry33 not among them" in line for line in found.remarks)
    assert any("no run has ews_domain, " in line for line in found.remarks)


@pytest.mark.parametrize(
    "others",
    [
        [],  # one run alone
        [result("chabsa", 0.5, model="b")],  # one task in common
        [result("chabsa", 0.5, model="b"), result("pfmt", 0.5, model="b", rows="other")],
        [result("chabsa", 0.5, model="b"), result("pfmt", 0.5, model="b", version=1)],
    ],
)
def test_no_common_mean_of_one_task_one_run_or_unequal_rows(others: list[Result]) -> None:
    one = run(result("chabsa", 0.5), result("pfmt", 0.75))
    found = board(one, *([run(*others)] if others else []))
    assert found.common == ()
    assert {row.common for row in found.rows} == {None}


def test_where_all_are_whole_the_average_says_it_all() -> None:
    assert board(whole("a", 0.5), whole("b", 0.6)).common == ()


def test_chosen_tasks_have_no_average_but_a_common_mean() -> None:
    runs = [whole("a", 0.5), whole("b", 0.6), run(result("industry33", 0.1, model="c"))]
    kept = choose(runs, None, None, ["economy_watchers_survey_domain", "chabsa"])
    found = board(*kept, chosen=True)
    assert found.suite is None
    assert models(found) == ["b", "a"]
    assert found.tasks == found.common == ("chabsa", "ews_domain")
    assert [row.common for row in found.rows] == pytest.approx([0.6, 0.5])
    assert {tuple(row.means) for row in found.rows} == {()}


def test_filters_by_model_and_suite() -> None:
    runs = [
        whole("org/E5-small", 0.5),
        whole("ruri", 0.6),
        run(result("chabsa", 0.9, sample=True), result("industry33", 0.9, sample=True)),
    ]
    assert [r.first.model for r in choose(runs, "e5", None, None)] == ["org/E5-small"]
    assert [r.first.is_sample for r in choose(runs, None, "sample", None)] == [True]
    assert [r.first.is_sample for r in choose(runs, None, "jfinteb", None)] == [False, False]
    with pytest.raises(UsageError, match=r"no results left .*; models: org/E5-small, org/a, ruri$"):
        choose(runs, "gpt", None, None)
    with pytest.raises(UsageError, match="no suite 'x'"):
        choose(runs, None, "x", None)
    with pytest.raises(UsageError, match="no task 'x'"):
        choose(runs, None, None, ["x"])


def test_variants_and_sample_stand_apart() -> None:
    fresh = "ews_domain_since_202506_n200"
    mixed = run(result("chabsa", 0.1), result("chabsa_clean", 0.2), result(fresh, 0.3))
    found = boards([run(result("chabsa", 0.4, sample=True)), mixed], suite=None, chosen=False)
    assert [(b.suite, b.tasks, b.sample) for b in found] == [
        ("jfinteb", ("chabsa",), False),
        ("jfinteb-clean", ("chabsa_clean",), False),
        (None, (fresh,), False),
        ("sample", ("chabsa",), True),
    ]
    assert all("not comparable" in b.title for b in found[1:3])


def test_marks_the_best_and_those_that_intervals_do_not_tell_from_it() -> None:
    runs = [
        run(result("chabsa", score, half=half, model=name), folder=name)
        for name, score, half in [("a", 0.80, 0.02), ("b", 0.77, 0.02), ("c", 0.70, 0.02)]
    ]
    assert board(*runs).marks("chabsa") == {0: "best", 1: "near"}  # 0.78 < 0.79, 0.72 < 0.78
    assert board(runs[0]).marks("chabsa") == {}


def test_no_marks_between_unequal_rows_and_none_told_apart_without_bounds() -> None:
    one = run(result("ews_reason", 0.5, model="a", seeds=5))
    far = run(result("ews_reason", 0.1, model="b", seeds=1))
    other = run(result("ews_reason", 0.4, model="c", rows="other"))
    assert board(one, far).marks("ews_reason") == {0: "best", 1: "near"}
    assert board(one, other).marks("ews_reason") == {}
    equal = run(result("ews_reason", 0.5, model="d", seeds=5))
    assert board(one, equal).marks("ews_reason") == {0: "best", 1: "best"}
