"""Raw vectors by what they are vectors of: a store gives back what was put, or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import EncoderSpec, Vectors
from jfinteb.loaders.task import Role

__all__ = ["Embedded", "Keys", "MemoryStore", "Store", "keys_of"]

_SIZE = 16  # bytes of a key
Keys: TypeAlias = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Embedded:
    """Raw vectors (n, dimensions) of n strings, and what their tokens were."""

    vectors: Vectors
    tokens: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]


class Store(Protocol):
    """Keeps raw vectors of one model under one spec."""

    @property
    def notes(self) -> list[str]:
        """What a reader of the run should know."""
        ...

    def missing(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of n keys are not there, shape (n,)."""
        ...

    def get(self, keys: Keys, dimensions: int) -> tuple[npt.NDArray[np.bool_], Embedded]:
        """Which of n keys are missing, shape (n,), and what is known of the others, in order."""
        ...

    def put(self, keys: Keys, embedded: Embedded) -> None:
        """Keep vectors: all of them, or, if stopped midway, none."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


def keys_of(spec: EncoderSpec, role: Role, strings: Iterable[str]) -> Keys:
    """A key for all that changes the raw vector of each string: spec, route, final string.

    Roles that share a route share keys. Where the prompt stays out of the pool it counts beside the
    final string, since two prompts can make one string and pool it differently.

    Args:
        spec: of the encoder.
        role: of the strings.
        strings: with the prompt of their role in front.
    """
    apart = [] if spec.pool_prompt else [spec.prompt(role)]
    base = hashlib.blake2b(digest_size=_SIZE)
    for part in (spec.vector_digest, spec.route(role), *apart):
        data = part.encode("utf-8", "surrogatepass")
        base.update(len(data).to_bytes(8, "little") + data)
    digests = []
    for string in strings:
        key = base.copy()
        key.update(string.encode("utf-8", "surrogatepass"))
        digests.append(key.digest())
    return np.frombuffer(b"".join(digests), dtype=np.dtype((np.void, _SIZE)))


class MemoryStore:
    """Keeps vectors as long as the process lives: for runs that ask for no cache.

    >>> store = MemoryStore()
    >>> spec = EncoderSpec(model="m", revision="r", backend="b", pooling="mean")
    >>> keys = keys_of(spec, Role.QUERY, ["円安", "円高"])
    >>> one = np.ones((1, 3), dtype=np.float32)
    >>> store.put(keys[:1], Embedded(one, np.array([4]), np.array([False])))
    >>> store.get(keys, 3)[0].tolist()
    [False, True]
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[npt.NDArray[np.float32], int, bool]] = {}
        self.notes: list[str] = []

    def missing(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """See `Store.missing`."""
        return np.array([key.tobytes() not in self._rows for key in keys], dtype=bool)

    def get(self, keys: Keys, dimensions: int) -> tuple[npt.NDArray[np.bool_], Embedded]:
        """See `Store.get`."""
        found = [self._rows.get(key.tobytes()) for key in keys]
        known = [row for row in found if row is not None]
        vectors = np.empty((len(known), dimensions), dtype=np.float32)
        for i, (vector, _, _) in enumerate(known):
            vectors[i] = vector
        return np.array([row is None for row in found], dtype=bool), Embedded(
            vectors,
            np.array([tokens for _, tokens, _ in known], dtype=np.int64),
            np.array([truncated for _, _, truncated in known], dtype=bool),
        )

    def put(self, keys: Keys, embedded: Embedded) -> None:
        """See `Store.put`."""
        rows = zip(
            keys,
            embedded.vectors.copy(),
            embedded.tokens.tolist(),
            embedded.truncated.tolist(),
            strict=True,
        )
        for key, vector, tokens, truncated in rows:
            self._rows.setdefault(key.tobytes(), (vector, tokens, truncated))

    def close(self) -> None:
        """Nothing is held open."""
