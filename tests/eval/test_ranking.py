"""Exact search: against float64 references, and one rule for ties."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from jfinteb.eval.metrics.mrr_at_k.mrr_at_k import mrr_at_k
from jfinteb.eval.metrics.ndcg_at_k.ndcg_at_k import ndcg_at_k
from jfinteb.eval.ranking import SIMILARITIES, rank

Array = npt.NDArray[np.float32]


def ids(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


def make(m: int, n: int, d: int = 24, offset: float = 0.0, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    queries, documents = random.normal(size=(m, d)) + offset, random.normal(size=(n, d)) + offset
    return queries.astype(np.float32), documents.astype(np.float32)


def scores(queries: Array, documents: Array, similarity: str) -> npt.NDArray[np.float64]:
    q, d = queries.astype(np.float64), documents.astype(np.float64)
    if similarity == "dot":
        return np.asarray([[math.fsum(a * b) for b in d] for a in q])
    if similarity == "cosine":
        return np.asarray(cosine_similarity(q, d))
    return -np.asarray([[math.fsum(np.square(a - b)) for b in d] for a in q])


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_as_brute_force_in_float64(similarity: str, offset: float) -> None:
    queries, documents = make(20, 150, offset=offset)
    names = ids("d", 150)
    got = rank(queries, documents, ids("q", 20), names, similarity, 10)
    order = np.argsort(-scores(queries, documents, similarity), axis=1)
    assert got == [[names[i] for i in row[:10]] for row in order]


def test_euclidean_as_in_scikit_learn() -> None:
    queries, documents = make(30, 400, offset=5.0)
    names = ids("d", 400)
    nearest = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(documents.astype(np.float64))
    found = nearest.kneighbors(queries.astype(np.float64), return_distance=False)
    got = rank(queries, documents, ids("q", 30), names, "euclidean", 10)
    assert got == [[names[i] for i in row] for row in found]


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_order_of_the_corpus_decides_nothing(similarity: str) -> None:
    queries, distinct = make(25, 12)
    documents = distinct[np.arange(60) % 12]  # each vector five times: ties everywhere
    names = ids("d", 60)
    got = rank(queries, documents, ids("q", 25), names, similarity, 10)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        shuffled = [names[i] for i in order]
        assert rank(queries, documents[order], ids("q", 25), shuffled, similarity, 10) == got


def test_the_order_of_the_queries_decides_nothing() -> None:
    queries, documents = make(25, 6)
    documents = documents[np.arange(30) % 6]
    got = rank(queries, documents, ids("q", 25), ids("d", 30), "cosine", 10)
    turned = rank(queries[::-1].copy(), documents, ids("q", 25)[::-1], ids("d", 30), "cosine", 10)
    assert turned[::-1] == got


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("relevant", ["d0", "d1", "d2"])
def test_one_of_three_tied_scores_as_chance(similarity: str, relevant: str) -> None:
    """Expected nDCG (1 + 0.6309 + 0.5) / 3 = 0.7103 and MRR (1 + 1/2 + 1/3) / 3 = 0.6111,
    whichever of the three ids, first or last in the alphabet, is the relevant one."""
    m = 4000
    queries, _ = make(m, 1)
    ranked = rank(queries, np.ones((3, 24), np.float32), ids("q", m), ids("d", 3), similarity, 10)
    gold = [[relevant]] * m
    gains = [1, 1 / math.log2(3), 1 / 2]
    for found, values in (
        (ndcg_at_k(ranked, gold, 10)["ndcg_at_k"], gains),
        (mrr_at_k(ranked, gold, 10)["mrr_at_k"], [1, 1 / 2, 1 / 3]),
    ):
        deviation = float(np.std(values)) / math.sqrt(m)
        assert found == pytest.approx(math.fsum(values) / 3, abs=4 * deviation)
    assert math.fsum(gains) / 3 == pytest.approx(0.7103, abs=5e-5)


def test_ties_at_the_cut_are_as_likely_for_every_document() -> None:
    m, n, k = 3000, 30, 10
    queries, _ = make(m, 1)
    ranked = rank(queries, np.ones((n, 24), np.float32), ids("q", m), ids("d", n), "dot", k)
    names, counts = np.unique(np.concatenate([np.array(row) for row in ranked]), return_counts=True)
    assert len(names) == n
    expected, deviation = m * k / n, math.sqrt(m * (k / n) * (1 - k / n))
    assert np.abs(counts - expected).max() < 4.5 * deviation


def test_other_ids_other_ties_but_the_same_strict_order() -> None:
    queries, documents = make(10, 40)
    one = rank(queries, documents, ids("q", 10), ids("d", 40), "cosine", 40)
    two = rank(queries, documents, ids("x", 10), ids("e", 40), "cosine", 40)
    assert [[d[1:] for d in row] for row in one] == [[d[1:] for d in row] for row in two]


@pytest.mark.parametrize("k", [1, 3, 5, 10, 10**6])
def test_k_up_to_and_beyond_the_corpus(k: int) -> None:
    queries, documents = make(2, 5)
    got = rank(queries, documents, ids("q", 2), ids("d", 5), "cosine", k)
    assert [len(row) for row in got] == [min(k, 5)] * 2
    assert all(len(set(row)) == len(row) for row in got)


@pytest.mark.parametrize(("m", "n"), [(0, 3), (3, 0), (0, 0), (1, 1), (1, 50)])
def test_few_queries_and_few_documents(m: int, n: int) -> None:
    queries, documents = make(m, n)
    got = rank(queries, documents, ids("q", m), ids("d", n), "cosine", 10)
    assert [len(row) for row in got] == [min(10, n)] * m


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_zero_vectors(similarity: str) -> None:
    documents = np.array([[0, 0], [1, 0], [-1, 0], [-0.0, 0]], dtype=np.float32)
    query = np.array([[1, 0]], dtype=np.float32)
    got = rank(query, documents, ["q"], ["zero", "same", "opposite", "minus zero"], similarity, 4)[
        0
    ]
    assert got[0] == "same"
    assert set(got[1:3]) == {"zero", "minus zero"}
    assert got[3] == "opposite"
    nothing = rank(query * 0, documents[1:3], ["q"], ["a", "b"], similarity, 2)[0]
    assert sorted(nothing) == ["a", "b"]


def test_cosine_does_not_see_lengths_and_dot_does() -> None:
    documents = np.array([[1, 0.1], [100, 100]], dtype=np.float32)
    query = np.array([[1, 0]], dtype=np.float32)
    assert rank(query, documents, ["q"], ["near", "long"], "cosine", 1) == [["near"]]
    assert rank(query, documents, ["q"], ["near", "long"], "dot", 1) == [["long"]]
    assert rank(query, documents, ["q"], ["near", "long"], "euclidean", 1) == [["near"]]


def test_vectors_of_a_bfloat16_model_are_not_scored_in_bfloat16() -> None:
    """Cosines between 0.8 and 0.9 have few values in bfloat16: many tie for the first place."""
    import torch

    queries, documents = make(50, 1000, offset=2.0)
    coarse = [torch.from_numpy(a).bfloat16() for a in (queries, documents)]
    unit = [torch.nn.functional.normalize(a) for a in coarse]
    low = (unit[0] @ unit[1].T).float().numpy()
    tied = [len(np.unique(-np.sort(-row)[:11])) < 11 for row in low]
    assert np.mean(tied) > 0.9
    q, d = (a.float().numpy() for a in coarse)
    names = ids("d", 1000)
    order = np.argsort(-cosine_similarity(q.astype(np.float64), d.astype(np.float64)), axis=1)
    got = rank(q, d, ids("q", 50), names, "cosine", 10)
    assert got == [[names[i] for i in row[:10]] for row in order]


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from jfinteb.eval import ranking

    queries, documents = make(23, 70)
    whole = rank(queries, documents, ids("q", 23), ids("d", 70), "cosine", 10)
    monkeypatch.setattr(ranking, "_BLOCK", 70 * 4)
    assert rank(queries, documents, ids("q", 23), ids("d", 70), "cosine", 10) == whole


def test_unknown_similarity() -> None:
    with pytest.raises(ValueError, match="no similarity 'manhattan'"):
        rank(*make(1, 1), ["q"], ["d"], "manhattan", 1)
