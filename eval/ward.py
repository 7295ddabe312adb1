"""Ward's clustering as scikit-learn has it, with distances from one matrix product.

Scikit-learn computes the distances of all pairs one by one and merges on a condensed matrix; here
both work on whole rows. Memory is the same: one float64 for every ordered pair of rows (340 MB for
6,500 rows; SciPy holds the unordered pairs twice).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.cluster import AgglomerativeClustering, Birch
from sklearn.exceptions import ConvergenceWarning

from jfinteb.eval.encoder import Vectors
from jfinteb.eval.similarity import Floats

__all__ = ["Ward", "WardBirch", "distances", "merges"]

# A squared distance below this share of the squared lengths has lost too many digits in the
# product (its relative error passes 1e-12) and is computed from differences.
_NEAR = 1e-3
_ROWS = 256
Indices = npt.NDArray[np.intp]


class Ward:
    """`AgglomerativeClustering(n)`: the same clusters under the same ids.

    It has scikit-learn cut our tree: a `memory` is asked to call the function that makes one.
    """

    def __init__(self, n_clusters: int) -> None:
        self.n_clusters = n_clusters

    def fit_predict(self, vectors: Vectors) -> npt.NDArray[np.int64]:
        """Cluster ids of vectors (n, d), n >= n_clusters."""
        model = AgglomerativeClustering(self.n_clusters, linkage="ward", memory=_OurTree())
        labels: npt.NDArray[np.int64] = model.fit_predict(vectors)
        return labels


class WardBirch:
    """`Birch(n_clusters=n)`: the same clusters under the same ids, and the same warning.

    The subclusters are scikit-learn's; what puts them together is `Ward`.
    """

    def __init__(self, n_clusters: int) -> None:
        self.n_clusters = n_clusters

    def fit_predict(self, vectors: Vectors) -> npt.NDArray[np.int64]:
        """Cluster ids of vectors (n, d)."""
        model = Birch(n_clusters=None)
        subclusters: npt.NDArray[np.int64] = model.fit_predict(vectors)
        found = len(model.subcluster_centers_)
        if found < self.n_clusters:
            warnings.warn(
                f"{found} subclusters found, fewer than {self.n_clusters}",
                ConvergenceWarning,
                stacklevel=2,
            )
            return subclusters
        return Ward(self.n_clusters).fit_predict(model.subcluster_centers_)[subclusters]


class _OurTree:
    def cache(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def tree(vectors: Vectors, **options: Any) -> tuple[Indices, int, int, None]:
            return merges(distances(vectors)), 1, len(vectors), None

        return tree


def distances(vectors: npt.NDArray[np.floating[Any]]) -> Floats:
    """Euclidean distances of all pairs, float64 (n, n), symmetric, infinite on the diagonal.

    Equal vectors are at 0 from each other and equally far from all others. All vectors are moved
    first so that the one nearest their mean lies in the origin: where all share a direction,
    squared lengths would swamp squared distances.
    """
    wide = np.asarray(vectors, dtype=np.float64)
    moved = wide - wide[np.argmin(np.square(wide - wide.mean(axis=0)).sum(axis=1))]
    squares: Floats = np.einsum("ij,ij->i", moved, moved)
    n = len(wide)
    found = np.empty((n, n))
    for start in range(0, n, _ROWS):
        rows = slice(start, min(start + _ROWS, n))
        sums = squares[rows, None] + squares[start:]
        block = sums - 2 * (moved[rows] @ moved[start:].T)
        near = block < _NEAR * sums
        np.fill_diagonal(near, False)
        np.sqrt(np.maximum(block, 0, out=block), out=block)
        for i in np.flatnonzero(near.any(axis=1)):
            columns = np.flatnonzero(near[i])
            block[i, columns] = cdist(wide[start + i][None], wide[start + columns])[0]
        corner = block[:, : len(block)]
        corner[:] = np.minimum(corner, corner.T)  # a product may differ from its mirror image
        found[rows, start:], found[start:, rows] = block, block.T
    for row, twin in _twins(wide):
        found[row] = found[twin]
        found[:, row] = found[:, twin]
        found[row, twin] = found[twin, row] = 0
    np.fill_diagonal(found, np.inf)
    return found


def _twins(vectors: Floats) -> list[tuple[int, int]]:
    """Rows that equal an earlier row, and that row."""
    seen: dict[bytes, int] = {}
    rows = (seen.setdefault(row.tobytes(), i) for i, row in enumerate(vectors + 0.0))
    return [(i, first) for i, first in enumerate(rows) if first != i]


def merges(distances: Floats) -> Indices:
    """Ward's tree by chains of nearest neighbours (Murtagh 1983; Müllner 2011, section 3.2).

    Every chain goes from a cluster to its nearest one, to the nearest of that, until two are each
    other's nearest, and merges them. Of equally near clusters the one that the chain comes from is
    nearest, then the first, as in SciPy. The distances of a merged cluster follow from those of its
    parts (Lance and Williams 1967).

    Args:
        distances: (n, n), symmetric, infinite on the diagonal; overwritten.

    Returns:
        (n - 1, 2): the clusters that are merged, nearest first; n + i is what merge i makes.
    """
    n = len(distances)
    sizes, names = np.ones(n), np.arange(n)  # names: the rows that stand for clusters, in `n`
    gone = np.zeros(n)  # infinite for clusters that were merged into another
    found: list[tuple[int, int, float]] = []
    chain: list[int] = []
    alive = n
    while len(found) < n - 1:
        if alive <= len(sizes) // 2:  # drop the rows of the others, for speed
            live = np.flatnonzero(gone == 0)
            chain = [int(place) for place in np.searchsorted(live, chain)]
            distances = distances[np.ix_(live, live)]
            sizes, names, gone = sizes[live], names[live], gone[live]
        if not chain:
            chain.append(int(np.argmin(gone)))
        one = chain[-1]
        row = distances[one] + gone
        other = int(np.argmin(row))
        if len(chain) > 1 and row[chain[-2]] == row[other]:
            other = chain[-2]
        if len(chain) < 2 or other != chain[-2]:
            chain.append(other)
            continue
        del chain[-2:]
        low, high = sorted((one, other))
        between = float(row[other])
        found.append((int(names[low]), int(names[high]), between))
        row = _joined(distances[low], distances[high], between, sizes[low], sizes[high], sizes)
        gone[low] = np.inf
        sizes[high] += sizes[low]
        row[high] = np.inf
        distances[high] = row
        distances[:, high] = row
        alive -= 1
    return _numbered(found, n)


def _joined(
    low: Floats, high: Floats, between: float, n_low: float, n_high: float, sizes: Floats
) -> Floats:
    """Distances of all clusters to one made of two, from those to its parts; SciPy's roundings."""
    share = 1 / (n_low + n_high + sizes)
    squares = (sizes + n_low) * share * low * low
    squares += (sizes + n_high) * share * high * high
    squares -= sizes * share * between * between
    np.maximum(squares, 0, out=squares)
    joined: Floats = np.sqrt(squares, out=squares)
    return joined


def _numbered(found: Sequence[tuple[int, int, float]], n: int) -> Indices:
    """Merges in order of distance, with the numbers of the clusters that rows stand for."""
    parents = list(range(2 * n - 1))

    def cluster(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    children = np.empty((n - 1, 2), dtype=np.intp)
    for i, (one, other, _) in enumerate(sorted(found, key=itemgetter(2))):
        pair = sorted((cluster(one), cluster(other)))
        parents[pair[0]] = parents[pair[1]] = n + i
        children[i] = pair
    return children
