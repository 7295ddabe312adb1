"""Exact search: against float64 references, and one rule for ties."""

from __future__ import annotations

import hashlib
import math
import tracemalloc
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_info, threadpool_limits

from jfinteb.eval import ranking
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


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("repeated", [False, True])
def test_blocks_and_threads_change_nothing(similarity: str, repeated: bool) -> None:
    queries, documents = make(23, 700)
    if repeated:
        documents = documents[np.arange(700) % 9]
    names = ids("q", 23), ids("d", 700)
    whole = rank(queries, documents, *names, similarity, 10)
    small = {"_QUERIES": 4, "_DOCUMENTS": 64, "_SMALL": 0, "_NUMBERS": 24 * 70, "_OFFERS": 50}
    with mock.patch.multiple(ranking, **small):
        for threads in (1, 2, 3, None):
            assert rank(queries, documents, *names, similarity, 10, threads=threads) == whole


def test_the_limits_of_threads_are_as_before() -> None:
    def limits() -> list[int]:
        return [library["num_threads"] for library in threadpool_info()]

    queries, documents = make(3, 200)
    for limit in (1, 2):
        with threadpool_limits(limit), mock.patch.multiple(ranking, _SMALL=0, _DOCUMENTS=64):
            before = limits()
            rank(queries, documents, ids("q", 3), ids("d", 200), "dot", 5, threads=2)
            assert limits() == before


# --- near-ties, duplicates and extreme lengths, against whole numbers -----------------------------

whole_numbers = st.integers(-4, 4) | st.integers(-(2**22), 2**22)
# differences in the last of 22 bits: float32 products of such vectors cannot tell them apart
near_ties = st.builds(
    lambda big, small: big * 2**20 + small, st.sampled_from([-1, 1, 3]), st.integers(-2, 2)
)


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], int]:
    """Queries and documents of whole numbers below 2^22, documents often repeated, and k."""
    d = draw(st.integers(1, 6))
    vector = st.lists(draw(st.sampled_from([whole_numbers, near_ties])), min_size=d, max_size=d)
    pool = draw(st.lists(vector, min_size=1, max_size=12))
    documents = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=90))
    queries = draw(st.lists(vector | st.sampled_from(pool), min_size=1, max_size=6))
    return queries, documents, draw(st.integers(1, 12))


def mixed(query: str, document: str) -> int:
    """The tie rule in plain integers: BLAKE2b of both ids, and the finaliser of SplitMix64."""
    one, other = (
        int.from_bytes(hashlib.blake2b(i.encode(), digest_size=8).digest(), "little")
        for i in (query, document)
    )
    x, mask = one ^ other, 2**64 - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
    return x ^ x >> 31


def by_hand(
    queries: list[list[int]], documents: list[list[int]], powers: list[int], similarity: str, k: int
) -> list[list[str]]:
    """Ranks of documents, each times a power of two, by Python's whole numbers."""

    def score(q: list[int], d: list[int], power: int) -> Fraction | float:
        dot = sum(a * b for a, b in zip(q, d, strict=True))
        if similarity == "dot":
            return dot * Fraction(2) ** power
        if similarity == "cosine":  # a root and a quotient of whole numbers, each rounded once
            length = math.sqrt(sum(b * b for b in d))
            return dot / length if length else 0.0
        return Fraction(-sum((a - b) ** 2 for a, b in zip(q, d, strict=True)))

    found = []
    for i, q in enumerate(queries):
        scored = [
            (-score(q, d, power), mixed(f"q{i}", f"d{j}"), j)
            for j, (d, power) in enumerate(zip(documents, powers, strict=True))
        ]
        found.append([f"d{j}" for *_, j in sorted(scored)[:k]])
    return found


@pytest.mark.parametrize("similarity", SIMILARITIES)
@settings(max_examples=150, deadline=None)
@given(case=searches(), power=st.sampled_from([0, 0, 40, 90, -60, -149]), data=st.data())
def test_as_whole_numbers_rank(
    similarity: str,
    case: tuple[list[list[int]], list[list[int]], int],
    power: int,
    data: st.DataObject,
) -> None:
    queries, documents, k = case
    same = similarity == "euclidean" or not data.draw(st.booleans())
    choices = st.just(power) if same else st.sampled_from([power, 0, 60, 100, -100, -149])
    powers = [data.draw(choices) for _ in documents]
    q = np.ldexp(np.array(queries, dtype=np.float64), power).astype(np.float32)
    d = np.ldexp(np.array(documents, dtype=np.float64), np.array(powers)[:, None])
    names = ids("q", len(queries)), ids("d", len(documents))
    small = {"_QUERIES": 2, "_DOCUMENTS": 64, "_NUMBERS": 30, "_OFFERS": 7}
    expected = by_hand(queries, documents, powers, similarity, k)
    assert rank(q, d.astype(np.float32), *names, similarity, k) == expected
    with mock.patch.multiple(ranking, **small):
        assert rank(q, d.astype(np.float32), *names, similarity, k) == expected


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-5, 1e-3])
def test_more_near_ties_than_float32_tells(similarity: str, spread: float) -> None:
    """Thousands of documents around one, as fsum orders them; 0.0: all equal, ordered by hash."""
    random = np.random.default_rng(2)
    queries, (centre,) = random.normal(size=(5, 32)), random.normal(size=(1, 32))
    documents = (centre * (1 + spread * random.normal(size=(6000, 32)))).astype(np.float32)
    q = queries.astype(np.float32)
    exact = scores(q, documents, "dot" if similarity == "cosine" else similarity)
    if similarity == "cosine":
        exact /= np.array([math.sqrt(math.fsum(row)) for row in documents.astype("f8") ** 2])
    got = rank(q, documents, ids("q", 5), ids("d", 6000), similarity, 10)
    for i, row in enumerate(got):
        values = exact[i, [int(name[1:]) for name in row]]
        assert np.all(np.diff(values) <= 1e-14 * np.abs(values).max())
        assert values[-1] >= np.partition(exact[i], -10)[-10] - 1e-14 * np.abs(values).max()
        if not spread:
            assert row == sorted(ids("d", 6000), key=lambda name: mixed(f"q{i}", name))[:10]


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_few_long_vectors_among_many(similarity: str) -> None:
    queries, documents = make(6, 5000)
    documents[::997] *= np.float32(1e30)
    wide = documents.astype(np.float64)
    value = queries.astype(np.float64) @ wide.T
    if similarity == "cosine":
        value /= np.linalg.norm(wide, axis=1)
    elif similarity == "euclidean":
        value = -np.stack([np.square(q - wide).sum(axis=1) for q in queries.astype(np.float64)])
    order = np.argsort(-value, axis=1)[:, :10]
    got = rank(queries, documents, ids("q", 6), ids("d", 5000), similarity, 10)
    assert got == [[f"d{i}" for i in row] for row in order]


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("equal", [False, True])
def test_memory_is_bounded(similarity: str, equal: bool, tmp_path: Path) -> None:
    """60,000 documents of 256 dimensions: 61 MB in a file, 123 MB in float64."""
    n, d = 60_000, 256
    random = np.random.default_rng(0)
    on_disk = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=(n, d))
    on_disk[:] = random.standard_normal((1 if equal else n, d), dtype=np.float32)
    queries = random.standard_normal((20, d), dtype=np.float32)
    names = ids("q", 20), ids("d", n)
    tracemalloc.start()
    try:
        got = rank(queries, on_disk, *names, similarity, 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 25e6
    if equal:
        assert got[0] == sorted(names[1], key=lambda name: mixed("q0", name))[:10]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", [0, 1])
def test_vectors_that_are_not_finite(value: float, where: int) -> None:
    pair = make(3, 100)
    pair[where][2, 5] = value
    with pytest.raises(ValueError, match="NaN or infinity among the vectors"):
        rank(*pair, ids("q", 3), ids("d", 100), "cosine", 10)


def test_unknown_similarity() -> None:
    with pytest.raises(ValueError, match="no similarity 'manhattan'"):
        rank(*make(1, 1), ["q"], ["d"], "manhattan", 1)
