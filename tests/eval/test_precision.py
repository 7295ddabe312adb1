"""int8 and binary: by hand, and against sentence-transformers' quantisation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jfinteb.eval.precision import CALIBRATES, PRECISIONS, quantize, quantized, ranges_of
from jfinteb.eval.ranking import SIMILARITIES, rank
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Kind

Array = np.ndarray[Any, Any]


def vectors(rows: int, dimensions: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, dimensions)).astype(np.float32)


def library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pytest.importorskip("sentence_transformers.quantization", reason="test extra")


def test_int8_by_hand() -> None:
    corpus = np.array([[0.0, -63.75, 7.0], [255.0, 63.75, 7.0]], dtype=np.float32)
    ranges = ranges_of(corpus)
    assert ranges.tolist() == [[0, -63.75, 7], [255, 63.75, 7]]
    # steps of 1 and of 0.5; what lies outside is held to the ends, and never wraps round; a
    # dimension of one value has steps of 1
    rows = [[0.9, -63.75, 7], [1, 0, 8.5], [254.5, 63.75, 6], [400, -90, 900]]
    asked = np.array(rows, dtype=np.float32)
    expected = [[-128, -128, -128], [-127, -1, -127], [126, 127, -128], [127, -128, 127]]
    got = quantize(asked, "int8", ranges)
    assert got.dtype == np.float32
    assert got.tolist() == expected


def test_binary_by_hand() -> None:
    asked = np.array([[0.5, -0.5, 0.0, 1e-30, -1e-30]], dtype=np.float32)
    got = quantize(asked, "binary")
    assert got.dtype == np.float32
    assert got.tolist() == [[1, -1, -1, 1, -1]]


@pytest.mark.parametrize("dimensions", [1, 8, 13, 64])
def test_as_sentence_transformers(dimensions: int) -> None:
    corpus, queries = vectors(500, dimensions), 2 * vectors(100, dimensions, seed=1)
    theirs = library().quantize_embeddings
    ranges = np.stack([corpus.min(axis=0), corpus.max(axis=0)])
    assert np.array_equal(ranges_of(corpus), ranges)
    for asked in (corpus, np.clip(queries, *ranges)):
        expected = theirs(asked, "int8", ranges=ranges)
        assert np.array_equal(quantize(asked, "int8", ranges), expected.astype(np.float32))
    packed = theirs(queries, "ubinary")
    bits = np.unpackbits(packed, axis=-1)[:, :dimensions]
    assert np.array_equal(quantize(queries, "binary"), 2.0 * bits - 1)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_on_signs_every_similarity_ranks_by_hamming_distance(similarity: str) -> None:
    corpus, queries = quantize(vectors(300, 24), "binary"), quantize(vectors(40, 24, 1), "binary")
    documents = [f"d{i:03}" for i in range(300)]
    asked = [f"q{i}" for i in range(40)]
    distance = (queries[:, None, :] != corpus[None, :, :]).sum(axis=-1)
    ranked = rank(queries, corpus, asked, documents, similarity, 10)
    for found, row in zip(ranked, distance, strict=True):
        assert [row[int(name[1:])] for name in found] == np.sort(row)[:10].tolist()


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_products_of_signs_are_exact(dimensions: int, seed: int) -> None:
    a, b = (quantize(vectors(1, dimensions, seed + n), "binary")[0] for n in (0, 1))
    hamming = int((a != b).sum())
    assert float(a @ b) == dimensions - 2 * hamming
    assert float(((a - b) ** 2).sum()) == 4 * hamming


@pytest.mark.parametrize(
    ("kind", "splits", "calibrates"),
    [
        (Kind.RETRIEVAL, ("corpus", "validation", "test"), "corpus"),
        (Kind.CLASSIFICATION, ("train", "validation", "test"), "train"),
        (Kind.CLUSTERING, ("validation", "test"), "validation"),
    ],
)
def test_one_split_calibrates_all(kind: Kind, splits: tuple[str, ...], calibrates: str) -> None:
    assert CALIBRATES[kind] == calibrates
    given_ = {split: (i + 1) * vectors(50, 6, i) for i, split in enumerate(reversed(splits))}
    got = quantized(given_, kind, "int8")
    low, high = given_[calibrates].min(axis=0), given_[calibrates].max(axis=0)
    for split, asked in given_.items():
        exact = (asked.astype(np.float64) - low) / (high - low) * 255
        off = got[split] - (np.clip(np.floor(exact), 0, 255) - 128)
        # float32 may fall on the other side of a whole number
        near = np.abs(exact - np.round(exact)) < 1e-3
        assert not off[~near].any()
        assert np.abs(off).max() <= 1
    assert got[calibrates].min() == -128
    assert got[calibrates].max() >= 126
    # a row's values do not depend on the rows beside it
    alone = quantized({calibrates: given_[calibrates], "test": given_["test"][:1]}, kind, "int8")
    assert np.array_equal(alone["test"], got["test"][:1])


def test_float32_is_left_alone() -> None:
    asked = {"train": vectors(3, 4), "test": vectors(3, 4, 1)}
    got = quantized(asked, Kind.CLASSIFICATION, "float32")
    assert all(got[split] is asked[split] for split in asked)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_many_rows_and_none(precision: str) -> None:
    asked = vectors(40_000, 2)
    ranges = ranges_of(asked) if precision == "int8" else None
    got = quantize(asked, precision, ranges)
    assert got.shape == asked.shape
    assert np.array_equal(got[-5:], quantize(asked[-5:], precision, ranges))
    assert quantize(asked[:0], precision, ranges).shape == (0, 2)


def test_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="no precision 'int4'; expected float32, int8, binary"):
        quantize(vectors(1, 2), "int4")
    for ranges in (None, ranges_of(vectors(2, 3))):
        with pytest.raises(ValueError, match=r"ranges of shape \(2, 2\)"):
            quantize(vectors(1, 2), "int8", ranges)
