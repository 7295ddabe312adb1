"""The five rank metrics, against trec_eval and against arithmetic by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfinteb.eval.metrics.hit_rate_at_k import hit_rate_at_k
from jfinteb.eval.metrics.map_at_k import map_at_k
from jfinteb.eval.metrics.mrr_at_k import mrr_at_k
from jfinteb.eval.metrics.ndcg_at_k import ndcg_at_k
from jfinteb.eval.metrics.recall_at_k import recall_at_k

MODULES: dict[str, ModuleType] = {
    "ndcg_at_k": ndcg_at_k,
    "mrr_at_k": mrr_at_k,
    "hit_rate_at_k": hit_rate_at_k,
    "recall_at_k": recall_at_k,
    "map_at_k": map_at_k,
}
TREC = {
    "ndcg_at_k": "ndcg_cut",
    "mrr_at_k": "recip_rank",
    "hit_rate_at_k": "success",
    "recall_at_k": "recall",
    "map_at_k": "map_cut",
}
DOCS = [f"d{i}" for i in range(24)]
Queries = list[list[str]]


def metric(name: str) -> Callable[..., dict[str, Any]]:
    function: Callable[..., dict[str, Any]] = getattr(MODULES[name], name)
    return function


rankings = st.permutations(DOCS).flatmap(
    lambda order: st.integers(0, len(order)).map(lambda n: list(order[:n]))
)
judgements = st.lists(st.sampled_from(DOCS), min_size=1, max_size=16, unique=True)
queries = st.lists(st.tuples(rankings, judgements), min_size=1, max_size=4)


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=60, deadline=None)
@given(pairs=queries, k=st.integers(1, 30))
def test_every_query_scores_as_in_trec_eval(
    name: str, pairs: list[tuple[list[str], list[str]]], k: int
) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="has no wheel for every Python")
    predictions, references = [p for p, _ in pairs], [r for _, r in pairs]
    measure = "recip_rank" if name == "mrr_at_k" else f"{TREC[name]}.{k}"
    key = measure.replace(".", "_")
    qrels = {f"q{i}": dict.fromkeys(docs, 1) for i, docs in enumerate(references)}
    # trec_eval's reciprocal rank knows no cut-off, so the run is cut for all
    run = {
        f"q{i}": {doc: float(len(DOCS) - rank) for rank, doc in enumerate(docs[:k])}
        for i, docs in enumerate(predictions)
        if docs  # trec_eval leaves a query without result out; here it scores 0
    }
    found = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
    expected = [found[f"q{i}"][key] if f"q{i}" in found else 0.0 for i in range(len(pairs))]
    assert MODULES[name].per_query(predictions, references, k) == pytest.approx(expected, abs=1e-12)
    result = metric(name)(predictions, references, k)
    assert result[name] == pytest.approx(sum(expected) / len(expected), abs=1e-12)
    assert (result["n_queries"], result["n_skipped"]) == (len(pairs), 0)


# One query: relevant a, b, c; ranking x a y b; k as given.
@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("ndcg_at_k", 10, (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / 2)),
        ("ndcg_at_k", 2, (1 / math.log2(3)) / (1 + 1 / math.log2(3))),
        ("mrr_at_k", 10, 1 / 2),
        ("mrr_at_k", 1, 0),
        ("hit_rate_at_k", 10, 1),
        ("hit_rate_at_k", 1, 0),
        ("recall_at_k", 10, 2 / 3),
        ("recall_at_k", 2, 1 / 3),
        ("map_at_k", 10, (1 / 2 + 2 / 4) / 3),
        ("map_at_k", 2, (1 / 2) / 3),
    ],
)
def test_values_by_hand(name: str, k: int, expected: float) -> None:
    result = metric(name)([["x", "a", "y", "b"]], [["a", "b", "c"]], k)
    assert result == {name: pytest.approx(expected, abs=1e-15), "n_queries": 1, "n_skipped": 0}


def test_the_ideal_ranking_is_cut_at_k() -> None:
    relevant = [f"r{i}" for i in range(20)]
    top_ten = [relevant[:10] + ["x"] * 5]
    assert ndcg_at_k.ndcg_at_k(top_ten, [relevant], k=10)["ndcg_at_k"] == 1.0
    # the other two that divide by all relevant documents cannot exceed 10 / 20
    assert recall_at_k.recall_at_k(top_ten, [relevant], k=10)["recall_at_k"] == 0.5
    assert map_at_k.map_at_k(top_ten, [relevant], k=10)["map_at_k"] == 0.5


def test_one_of_three_relevant_found_at_rank_one() -> None:
    result = ndcg_at_k.ndcg_at_k([["a", "x", "y"]], [["a", "b", "c"]], k=10)
    assert result["ndcg_at_k"] == pytest.approx(0.4693, abs=5e-5)
    assert result["ndcg_at_k"] == pytest.approx(1 / (1 + 1 / math.log2(3) + 0.5), abs=1e-15)


@pytest.mark.parametrize("name", MODULES)
def test_a_document_returned_twice_counts_once_and_ranks_close_up(name: str) -> None:
    score = MODULES[name].per_query
    assert score([["a", "a", "a"]], [["a"]], 10) == [1.0]
    assert score([["a", "a", "b"]], [["a", "b"]], 2) == [1.0]  # b moves from rank 3 to rank 2
    assert score([["x", "x", "a"]], [["a"]], 2) == score([["x", "a"]], [["a"]], 2)
    assert score([["x", "x", "a"]], [["a"]], 2) != [0.0]


@pytest.mark.parametrize("name", MODULES)
def test_a_reference_given_twice_counts_once(name: str) -> None:
    assert MODULES[name].per_query([["a", "b"]], [["a", "a", "b"]], 2) == [1.0]


@pytest.mark.parametrize("name", MODULES)
def test_a_query_without_result_counts_zero_in_the_mean(name: str) -> None:
    result = metric(name)([["a"], []], [["a"], ["b"]])
    assert result == {name: 0.5, "n_queries": 2, "n_skipped": 0}


@pytest.mark.parametrize("name", MODULES)
def test_a_query_without_relevant_documents_is_left_out_and_counted(name: str) -> None:
    with_it = metric(name)([["a"], ["x", "b"], ["c"]], [["a"], ["b"], []])
    without = metric(name)([["a"], ["x", "b"]], [["a"], ["b"]])
    assert with_it == {**without, "n_skipped": 1}
    assert MODULES[name].per_query([["c"]], [[]], 10) == [None]


@pytest.mark.parametrize("name", MODULES)
def test_no_query_left_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="none of the 2 queries has a relevant document"):
        metric(name)([["a"], ["b"]], [[], []])
    with pytest.raises(ValueError, match="none of the 0 queries"):
        metric(name)([], [])


@pytest.mark.parametrize("name", MODULES)
def test_k_may_exceed_the_ranking_and_the_number_of_queries(name: str) -> None:
    per_query = MODULES[name].per_query
    assert per_query([["x", "a"]], [["a"]], 1000) == per_query([["x", "a"]], [["a"]], 2) != [0.0]
    # rank 5, one query
    assert per_query([["v", "w", "x", "y", "a"]], [["a"]], 5) != [0.0]
    assert per_query([["v", "w", "x", "y", "a"]], [["a"]], 4) == [0.0]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_an_error(name: str, k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k}; expected an int of at least 1"):
        metric(name)([["a"]], [["a"]], k=k)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("k", [True, 10.0, "10", None])
def test_k_is_an_int(name: str, k: Any) -> None:
    with pytest.raises(TypeError, match=r"k is .*expected an int"):
        metric(name)([["a"]], [["a"]], k=k)


@pytest.mark.parametrize("name", MODULES)
def test_lengths_must_match(name: str) -> None:
    with pytest.raises(ValueError, match="predictions hold 1 queries and references 2"):
        metric(name)([["a"]], [["a"], ["b"]])


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([["0"]], [[0]], r"references\[0\] holds the id 0 \(int\)"),
        ([["a"], ["b", 7]], [["a"], ["b"]], r"predictions\[1\] holds the id 7 \(int\)"),
        ([[None]], [["a"]], r"predictions\[0\] holds the id None"),
        (["abc"], [["a"]], r"predictions\[0\] is 'abc' \(str\); expected a list"),
        ([["a"]], ["abc"], r"references\[0\] is 'abc' \(str\); expected a list"),
        ([None], [["a"]], r"predictions\[0\] is None"),
        ([{"a", "b"}], [["a"]], r"predictions\[0\] is .*\(set\)"),  # a set is no ranking
        ([["a"]], [{"a": 0}], r"references\[0\] is .*\(dict\)"),  # would count grade 0 as relevant
    ],
)
def test_what_is_no_list_of_text_ids_is_named(
    name: str, predictions: Any, references: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        metric(name)(predictions, references)


def test_references_may_be_sets() -> None:
    assert recall_at_k.per_query([["a", "x"]], [{"a", "b"}], 10) == [0.5]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ndcg_at_k", (1 + 1 / math.log2(3) + 1 / 2) / 3),  # 0.7103
        ("mrr_at_k", (1 + 1 / 2 + 1 / 3) / 3),  # 0.6111
    ],
)
def test_the_order_given_is_final_so_its_expectation_is_that_over_ties(
    name: str, expected: float
) -> None:
    orders = [list(order) for order in itertools.permutations(["a", "x", "y"])]
    result = metric(name)(orders, [["a"]] * len(orders), k=10)
    assert result[name] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=40, deadline=None)
@given(pairs=queries, k=st.integers(1, 30), data=st.data())
def test_the_order_of_queries_changes_no_bit(
    name: str, pairs: list[tuple[list[str], list[str]]], k: int, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(pairs))
    before = metric(name)([p for p, _ in pairs], [r for _, r in pairs], k)
    after = metric(name)([p for p, _ in shuffled], [r for _, r in shuffled], k)
    assert before == after


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=60, deadline=None)
@given(
    ranking=st.lists(st.sampled_from("abcdef"), max_size=12),
    relevant=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8),
    k=st.integers(1, 14),
)
def test_scores_stay_in_the_unit_interval_with_repeated_ids(
    name: str, ranking: list[str], relevant: list[str], k: int
) -> None:
    (score,) = MODULES[name].per_query([ranking], [relevant], k)
    assert 0.0 <= score <= 1.0
