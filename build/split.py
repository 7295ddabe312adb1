"""Seeded splits, pure: the same input gives the same split on any machine and Python version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["SEED", "shuffled_parts"]

T = TypeVar("T")
SEED = 42


def shuffled_parts(items: Sequence[T], *fractions: float, seed: int = SEED) -> list[list[T]]:
    """Shuffle, then cut into consecutive parts; the last part takes what the fractions leave.

    Args:
        items: in an order of their own that does not depend on the machine.
        fractions: share of each part but the last; a part has `int(len(items) * fraction)` items.
        seed: of `random.Random`.

    >>> [len(part) for part in shuffled_parts(range(230), 0.7, 0.1)]
    [161, 23, 46]
    """
    mixed = list(items)
    random.Random(seed).shuffle(mixed)
    parts, start = [], 0
    for fraction in fractions:
        stop = start + int(len(mixed) * fraction)
        parts.append(mixed[start:stop])
        start = stop
    return [*parts, mixed[start:]]
