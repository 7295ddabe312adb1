"""Exact scores, and the bound of their estimates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from jfinteb.eval.similarity import SIMILARITIES, product, scores

Array = npt.NDArray[np.float32]


def true_score(q: Array, d: Array, similarity: str) -> float:
    """A score without rounding but the last: fractions are exact."""
    a, b = ([Fraction(float(x)) for x in v] for v in (q, d))
    if similarity == "euclidean":
        return -float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    if similarity == "dot":
        return float(dot)
    squares = sum(y * y for y in b)
    return float(dot) / math.sqrt(squares) if squares else 0.0


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e25])
def test_scores(similarity: str, size: float) -> None:
    random = np.random.default_rng(0)
    q, d = (size * random.normal(size=(2, 30, 17))).astype(np.float32)
    d[3] = 0
    expected = [true_score(*pair, similarity) for pair in zip(q, d, strict=True)]
    assert scores(q, d, similarity) == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("d", [1, 3, 8, 127, 384])
def test_a_score_depends_on_its_pair_only(similarity: str, d: int) -> None:
    random = np.random.default_rng(d)
    q, docs = random.normal(size=(2, 50, d)).astype(np.float32)
    together = scores(q, docs, similarity)
    for n in (1, 2, 7, 33):
        for start in range(0, 50, n):
            part = slice(start, start + n)
            assert scores(q[part], docs[part], similarity).tolist() == together[part].tolist()
    same = scores(np.repeat(q[:1], 50, axis=0), np.repeat(docs[:1], 50, axis=0), similarity)
    assert len(set(same.tolist())) == 1


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "positive", "offset", "lengths", "short"])
def test_no_estimate_is_further_off_than_its_error(
    similarity: str, dtype: type[np.floating], kind: str
) -> None:
    random = np.random.default_rng(4)
    q, d = random.normal(size=(6, 100)), random.normal(size=(15, 100))
    if kind == "positive":  # sums that only grow round most
        q, d = np.abs(q) + 1, np.abs(d) + 1
    elif kind == "offset":
        q, d = q * 1e-3 + 1, d * 1e-3 + 1
    elif kind == "lengths":
        d *= 10 ** random.uniform(-4, 4, size=(15, 1))
    elif kind == "short":  # whose products with short vectors float32 flushes to zero
        q[1:] *= 1e-30
        d[1:] *= 1e-8
    q, d = q.astype(np.float32), d.astype(np.float32)
    d[0] = 0
    estimate = product(q, d, similarity, dtype)
    assert estimate is not None
    exact = np.array([[true_score(a, b, similarity) for b in d] for a in q])
    target = (exact + estimate.offset) * estimate.scale
    off = np.abs(estimate.values.astype(np.float64) - target)
    assert np.all(off <= estimate.error)
    if kind in ("normal", "positive"):  # and the bound is no empty one
        sizes = [np.linalg.norm(v, axis=1).max() for v in (q, d)]
        size = sizes[0] if similarity == "cosine" else sum(sizes) ** 2
        assert np.all(estimate.error < (2e-5 if dtype is np.float32 else 2e-13) * size)


@pytest.mark.parametrize("size", [1e25, 1e15, 1e-12, 1e-38])
def test_float32_is_not_asked_beyond_its_range(size: float) -> None:
    q, d = np.ones((2, 8), np.float32), np.ones((5, 8), np.float32)
    d[3] *= np.float32(size)
    assert product(q, d, "dot", np.float32) is None
    wide = product(q, d, "dot", np.float64)
    assert wide is not None
    assert wide.values[0].tolist() == pytest.approx([8, 8, 8, 8 * float(d[3, 0]), 8])
    d[3] = 0  # a zero vector is no short one
    assert product(q, d, "cosine", np.float32) is not None


def test_vectors_that_are_not_finite() -> None:
    q, d = np.ones((2, 8), np.float32), np.ones((5, 8), np.float32)
    d[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        product(q, d, "dot", np.float64)
