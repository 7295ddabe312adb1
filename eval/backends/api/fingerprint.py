"""Telling one model from another behind one name, by the vector of a fixed text.

Servers are not exact: the same text comes back with other last digits, and a hash of rounded
numbers would flip at the first component that lies on a rounding boundary (of 1,536 components some
always do). The signs of random projections flip only where a projection is close to zero: at an
angle θ between two vectors each of the 32 bits differs with probability θ/π (Charikar 2002,
Similarity estimation techniques from rounding algorithms). A server's noise of cosine 0.999999
(θ = 0.0014) flips one bit in 70 probes; another model (θ around π/2) flips half of them.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np

from jfinteb.eval.encoder import Vectors
from jfinteb.loaders.errors import UsageError

__all__ = ["PROBE", "check_pin", "distance", "fingerprint", "name_of", "pinned"]

PROBE = "2024年3月期の連結売上高は前年同期比8.4%増の1兆2,345億円。Net sales rose."
_BITS = 32
_NEAR = 4  # bits: a pinned revision is the same model up to here
_PINNED = re.compile(r"(?P<name>.+)-(?P<bits>[0-9a-f]{8})")


def fingerprint(vector: Vectors) -> str:
    """Eight hexadecimal digits: the signs of 32 projections of a vector, shape (dimensions,).

    >>> fingerprint(np.array([1.0, 0.5, -0.2])) == fingerprint(np.array([2.0, 1.0001, -0.4]))
    True
    """
    size = _BITS * len(vector)
    stream = np.frombuffer(hashlib.shake_256(b"jfinteb").digest(size // 8), dtype=np.uint8)
    signs = np.unpackbits(stream).reshape(_BITS, -1) * 2.0 - 1.0
    return np.packbits(signs @ vector.astype(np.float64) > 0).tobytes().hex()


def distance(one: str, other: str) -> int:
    """In how many of 32 bits two fingerprints differ.

    >>> distance("0000000f", "0000000e")
    1
    """
    return (int(one, 16) ^ int(other, 16)).bit_count()


def name_of(answered: str, asked: str) -> str:
    """The model's name for a revision: what the server calls it, without the folders it lies in."""
    name = answered or asked
    return name.rstrip("/").rsplit("/", 1)[-1] if name.startswith(("/", ".", "~")) else name


def pinned(revision: str | None) -> str | None:
    """Check the form of a revision that the user gives.

    Raises:
        UsageError: it is not what an earlier result had.
    """
    if revision is not None and not _PINNED.fullmatch(revision):
        raise UsageError(
            f"revision {revision!r}: an endpoint's is what an earlier result says, NAME-xxxxxxxx,"
            " eight hexadecimal digits at its end; leave it out to ask the server"
        )
    return revision


def check_pin(revision: str, found: str, server: str) -> None:
    """Compare a pinned revision with the fingerprint that the server gives now.

    Raises:
        UsageError: it is another model's.
    """
    match = _PINNED.fullmatch(revision)
    assert match is not None
    bits = distance(match["bits"], found)
    if bits > _NEAR:
        raise UsageError(
            f"{server} now gives vectors of another model than {revision} (fingerprint {found}, "
            f"{bits} of {_BITS} bits differ); leave --revision out to score the new one"
        )
