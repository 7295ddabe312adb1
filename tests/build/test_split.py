"""Seeded splits: fixed sizes, nothing lost, nothing twice."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jfinteb.build.split import SEED, shuffled_parts


@pytest.mark.parametrize(
    ("n", "fractions", "sizes"),
    [
        (230, (0.7, 0.1), [161, 23, 46]),
        (360, (0.2,), [72, 288]),
        (1490, (0.2,), [298, 1192]),
        (0, (0.7, 0.1), [0, 0, 0]),
        (1, (0.7, 0.1), [0, 0, 1]),
        (5, (), [5]),
    ],
)
def test_sizes(n: int, fractions: tuple[float, ...], sizes: list[int]) -> None:
    assert [len(part) for part in shuffled_parts(range(n), *fractions)] == sizes


@given(st.lists(st.integers()), st.integers(0, 2**32))
def test_parts_are_a_permutation(items: list[int], seed: int) -> None:
    before = list(items)
    parts = shuffled_parts(items, 0.7, 0.1, seed=seed)
    assert sorted(item for part in parts for item in part) == sorted(items)
    assert items == before


def test_order_is_python_s_shuffle() -> None:
    expected = list(range(10))
    random.Random(42).shuffle(expected)
    assert expected == [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]  # of every CPython since 3.2
    assert shuffled_parts(range(10), 0.3) == [[7, 3, 2], [8, 5, 6, 9, 4, 0, 1]]
    assert SEED == 42


def test_seed_matters_and_the_global_generator_does_not() -> None:
    random.seed(1)
    one = shuffled_parts(range(50), 0.5)
    random.seed(2)
    assert shuffled_parts(range(50), 0.5) == one
    assert shuffled_parts(range(50), 0.5, seed=43) != one
