"""What all backends share: roles and prompts, blank and repeated texts, the store, checks."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import Counts, EncoderSpec, NotFiniteError, Vectors, as_role
from jfinteb.eval.store import Embedded, Keys, Store, keys_of
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

if TYPE_CHECKING:
    from jfinteb.eval.backends.api.usage import Estimate

__all__ = ["Embedded", "EncoderOptions", "Flags", "Rows", "TextEncoder", "finish"]

_SHARD = 1 << 16  # strings that are looked up and tokenized together
_ON_DISK = 1 << 28  # bytes of vectors from which they lie in a file, not in memory

Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """What a user asks for; None means: as the model itself declares.

    `prompts` and `routes` go by role; `settings` are a backend's own; `batch_tokens` is the number
    of tokens, padding included, that go through the model at once. `device` may name several,
    joined by commas: then a process each; `workers` are processes on one device. `truncate_dim` 0
    keeps all dimensions, also where the model declares fewer.
    """

    model: str
    backend: str = "transformers"
    revision: str | None = None
    pooling: str = "auto"
    layer: int = -1
    special_tokens: bool = True
    pool_prompt: bool | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)
    max_length: int | None = None
    truncate_dim: int | None = None
    normalize: bool | None = None
    dtype: str = "float32"
    device: str = "auto"
    workers: int = 1
    batch_tokens: int | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for role in (*self.prompts, *self.routes):
            as_role(role)
        for name in ("max_length", "truncate_dim", "batch_tokens", "workers"):
            value = getattr(self, name)
            if value is not None and value < (0 if name == "truncate_dim" else 1):
                flag = name.replace("_", "-")
                raise UsageError(f"{flag} is {value}, expected a whole number above 0")

    def dimensions_kept(self, declared: int | None = None) -> int | None:
        """The first dimensions that are kept, by the user's word or else the model's; None: all."""
        return declared if self.truncate_dim is None else self.truncate_dim or None


class TextEncoder(ABC):
    """Base of the backends; a backend turns final strings into raw vectors.

    It implements `embed`, or `stream` where it forms batches or works concurrently on its own.

    Attributes:
        unit: strings that `stream` gives to `embed` at once, unless overridden.
        leaves_cores: whether the CPU is idle while this encodes.
        cacheable: whether the spec and the environment tell all that changes a vector, and vectors
            cost enough to be kept on disk.
        counts: what has been encoded so far.
        notes: what a user should know of how the model is run; stored in every result.
        on_progress: called with the number of characters just encoded.
        store: where raw vectors are kept, if anywhere.
    """

    unit: ClassVar[int] = 256
    cacheable: bool = True
    leaves_cores: bool = False

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec = spec
        self.counts = Counts()
        self.notes: list[str] = []
        self.on_progress: Callable[[int], object] = lambda characters: None
        self.store: Store | None = None

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Length of a raw vector, before `truncate_dim`."""

    def check_dimensions(self) -> None:
        """Raise UsageError where more dimensions are asked for than a vector has."""
        kept = self.spec.truncate_dim
        if kept is not None and kept > self.dimensions:
            raise UsageError(
                f"truncate-dim is {kept}, {self.spec.model} has {self.dimensions} dimensions"
            )

    def embed(self, strings: Sequence[str], role: Role) -> Embedded:
        """Raw vectors of some strings, which differ and begin with the prompt of their role."""
        raise NotImplementedError

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Raw vectors of the missing strings, unit by unit; a unit is stored whole or not at all.

        Which strings share a unit follows from `strings` alone, not from what is missing: an
        interrupted run goes on with the same batches, and so to the same bits.

        Args:
            strings: that differ and begin with the prompt of their role; never empty.
            missing: shape (len(strings),), at least one True.
            role: of the strings.

        Yields:
            Rows of `strings` and their vectors; every missing row once.
        """
        for start in range(0, len(strings), self.unit):
            rows = start + np.flatnonzero(missing[start : start + self.unit])
            if len(rows):
                yield rows, self.embed([strings[row] for row in rows.tolist()], role)

    def identify(self) -> None:  # noqa: B027  (a folder or commit tells it beforehand)
        """Find out which model it is, where only asking it tells; settles `spec`."""

    def estimate(self, texts: Sequence[str], role: Role) -> Estimate | None:
        """What encoding would cost, where it costs money."""
        return None

    def totals(self) -> list[str]:
        """What has been sent and paid, in words."""
        return []

    def load(self) -> None:  # noqa: B027  (many backends have nothing to load)
        """Get ready to encode, so that what is wrong shows before the first task."""

    def close(self) -> None:  # noqa: B027  (nor to let go of)
        """Let go of what `load` got hold of: processes, connections."""

    def keep_in(self, folder: Path | None) -> None:  # noqa: B027  (few keep more than vectors)
        """Where what a backend makes of a model may be kept, beside vectors; None: nowhere."""

    @property
    def environment(self) -> dict[str, str]:
        """Versions and devices that the vectors came from."""
        return {}

    def to_encode(self, texts: Sequence[str], role: Role) -> list[str]:
        """The texts whose vectors are not kept yet, each once."""
        known = [text for text in dict.fromkeys(texts) if text.strip()]
        if self.store is None or not known:
            return known
        prompt = self.spec.prompt(role)
        missing = self.store.missing(keys_of(self.spec, role, (prompt + text for text in known)))
        return [text for text, absent in zip(known, missing, strict=True) if absent]

    def encode(self, texts: Sequence[str], role: Role | str) -> Vectors:
        """Encode texts of one role; see `jfinteb.eval.encoder.Encoder`.

        The prompt of the role stands before every text. A text of white space only has the zero
        vector, in every backend. Equal texts are encoded once. Texts are taken as they are: NFC is
        counted, not forced. Vectors of 256 MB and more lie in a temporary file, mapped to memory.

        Raises:
            UsageError: no such role.
            NotFiniteError: a vector that is not finite; the message names the row.
        """
        role = as_role(role)
        kept = min(self.spec.truncate_dim or self.dimensions, self.dimensions)
        vectors = _zeros(len(texts), kept)
        rows = np.array([i for i, text in enumerate(texts) if text.strip()], dtype=np.intp)
        self.counts.texts += len(texts)
        self.counts.blank += len(texts) - len(rows)
        self.counts.not_nfc += sum(not unicodedata.is_normalized("NFC", t) for t in texts)
        if not len(rows):
            return vectors
        prompt = self.spec.prompt(role)
        keys = keys_of(self.spec, role, (prompt + texts[row] for row in rows.tolist()))
        _, at, twins = np.unique(keys, return_index=True, return_inverse=True)
        firsts, copies = np.sort(at), np.bincount(twins.ravel())
        source = rows[at[twins.ravel()]]  # of every row, the row that is encoded in its place
        times = copies[twins.ravel()[firsts]]
        for start in range(0, len(firsts), _SHARD):
            shard = firsts[start : start + _SHARD]
            self._encode_shard(
                texts, role, rows[shard], keys[shard], times[start : start + _SHARD], vectors
            )
        for start in range(0, len(rows), _SHARD):
            part = slice(start, start + _SHARD)
            again = source[part] != rows[part]
            vectors[rows[part][again]] = vectors[source[part][again]]
        return vectors

    def _encode_shard(
        self,
        texts: Sequence[str],
        role: Role,
        rows: Rows,
        keys: Keys,
        times: npt.NDArray[np.intp],
        out: Vectors,
    ) -> None:
        """Fill `out[rows]`, from the store or the model; `times` is how often each text stands."""
        missing = np.ones(len(rows), dtype=bool)
        if self.store is not None:
            missing, known = self.store.get(keys, self.dimensions)
            self._take(known, np.flatnonzero(~missing), rows, times, out)
            self.counts.cached += int(times[~missing].sum())
            self.on_progress(sum(len(texts[row]) for row in rows[~missing]))
        if not missing.any():
            return
        prompt = self.spec.prompt(role)
        strings = [prompt + texts[row] for row in rows]
        for unit, done in self.stream(strings, missing, role):
            self._check_finite(done.vectors, rows[unit])
            if self.store is not None:
                self.store.put(keys[unit], done)
            self._take(done, unit, rows, times, out)
            self.on_progress(sum(len(texts[row]) for row in rows[unit]))

    def _take(
        self, done: Embedded, unit: Rows, rows: Rows, times: npt.NDArray[np.intp], out: Vectors
    ) -> None:
        out[rows[unit]] = finish(done.vectors, out.shape[1], normalize=self.spec.normalize)
        self.counts.tokens += int(done.tokens @ times[unit])
        self.counts.truncated += int(done.truncated @ times[unit])

    def _check_finite(self, vectors: Vectors, rows: Rows) -> None:
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise NotFiniteError(self.spec.model, int(rows[bad].min()), dtype=self.spec.dtype)


def _zeros(rows: int, dimensions: int) -> Vectors:
    """A zeroed float32 array, in an unnamed temporary file where it is large."""
    if rows * dimensions * 4 < _ON_DISK:
        return np.zeros((rows, dimensions), dtype=np.float32)
    try:
        with tempfile.TemporaryFile(prefix="jfinteb-vectors-") as file:
            if hasattr(os, "posix_fallocate"):  # a full disk would kill the process later on
                os.posix_fallocate(file.fileno(), 0, rows * dimensions * 4)
            return np.memmap(file, dtype=np.float32, mode="w+", shape=(rows, dimensions))
    except OSError as error:
        raise UsageError(
            f"no room for {rows * dimensions * 4 / 1e6:,.0f} MB of vectors in "
            f"{tempfile.gettempdir()} ({error.strerror or error}); name another folder in TMPDIR"
        ) from error


def finish(vectors: Vectors, dimensions: int, *, normalize: bool) -> Vectors:
    """Cut to the first dimensions, then scale to length 1 if asked; zero stays zero.

    >>> finish(np.array([[0.6, 0.0, 0.8]], dtype=np.float32), 2, normalize=True).tolist()
    [[1.0, 0.0]]
    """
    cut = vectors[:, :dimensions].astype(np.float32, copy=False)
    if not normalize:
        return cut
    norms = np.linalg.norm(cut.astype(np.float64), axis=1, keepdims=True)  # no overflow
    unit: npt.NDArray[np.float64] = np.divide(cut, norms, out=np.zeros(cut.shape), where=norms != 0)
    return unit.astype(np.float32)
