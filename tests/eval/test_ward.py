"""Ward's clustering, against scikit-learn and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import AgglomerativeClustering, Birch
from sklearn.exceptions import ConvergenceWarning

from jfinteb.eval.ward import Ward, WardBirch, distances, merges

Array = npt.NDArray[np.float32]
KINDS = ("normal", "blobs", "repeated", "offset", "unit", "far", "whole")


def points(kind: str, n: int, d: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d))
    if kind == "blobs":
        x = 0.1 * x + random.normal(size=(9, d))[random.integers(0, 9, n)]
    elif kind == "repeated":
        x = x[random.integers(0, n // 4, n)]
    elif kind == "offset":
        x = 0.01 * x + 100
    elif kind == "unit":
        x = x + 2
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    elif kind == "far":
        x[n // 2] *= 1e25
        x[n // 3] = 0
    elif kind == "whole":
        x = random.integers(-100, 100, size=(n, d))
    found: Array = x.astype(np.float32)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d", "k"), [(14, 3, 13), (150, 40, 13), (400, 7, 2), (600, 64, 13)])
def test_clusters_of_scikit_learn(kind: str, n: int, d: int, k: int) -> None:
    x = points(kind, n, d, n)
    expected = AgglomerativeClustering(k).fit_predict(x)
    assert Ward(k).fit_predict(x).tolist() == expected.tolist()
    assert len(set(expected.tolist())) == k


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("far", "offset")])
@pytest.mark.parametrize(("n", "d"), [(150, 40), (700, 3)])
def test_clusters_of_birch(kind: str, n: int, d: int) -> None:
    """Without points so far off that Birch, in float32, overflows or finds one cluster."""
    x = points(kind, n, d, n + 1)
    x *= np.float32(10 / x.std(axis=0).mean())  # far more subclusters than clusters
    expected = Birch(n_clusters=13).fit_predict(x)
    assert WardBirch(13).fit_predict(x).tolist() == expected.tolist()
    assert len(set(expected.tolist())) == 13


def test_birch_with_few_subclusters_warns() -> None:
    x = np.eye(3, dtype=np.float32)[np.arange(40) % 3]
    with pytest.warns(ConvergenceWarning, match="3 subclusters found, fewer than 13"):
        found = WardBirch(13).fit_predict(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert found.tolist() == Birch(n_clusters=13).fit_predict(x).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_distances_of_scipy(kind: str) -> None:
    x = points(kind, 300, 50, 5)
    found = distances(x)
    assert np.all(np.isinf(np.diagonal(found)))
    assert np.array_equal(found, found.T)
    expected = squareform(pdist(x.astype(np.float64)))
    np.fill_diagonal(found, 0)
    assert np.allclose(found, expected, rtol=2e-12, atol=0)


def test_equal_vectors_are_at_zero_and_equally_far_from_others() -> None:
    x = points("normal", 60, 31, 6)[np.arange(240) % 60] + np.float32(3)
    x[7] = -0.0
    x[180] = 0.0
    found = distances(x)
    np.fill_diagonal(found, 0)
    for row in range(240):
        twins = np.flatnonzero((x == x[row]).all(axis=1))
        assert not found[row, twins].any()
        assert np.array_equal(found[twins], np.repeat(found[row : row + 1], len(twins), axis=0))


# distances with many ties: SciPy's order of equally near clusters must be ours
@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(2, 40), d=st.integers(1, 3), side=st.integers(1, 50), seed=st.integers(0, 10**6)
)
def test_the_tree_of_scipy(n: int, d: int, side: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, side + 1, size=(n, d)).astype(np.float64)
    condensed = pdist(x)
    square = squareform(condensed)
    np.fill_diagonal(square, np.inf)
    assert merges(square).tolist() == linkage(condensed, "ward")[:, :2].astype(int).tolist()
