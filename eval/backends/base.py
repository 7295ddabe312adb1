"""What all backends share: roles and prompts, blank and repeated texts, dimensions, checks."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import Counts, EncoderSpec, ModelError, Vectors, as_role
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

__all__ = ["Embedded", "EncoderOptions", "TextEncoder", "finish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """What a user asks for; None means: as the model itself declares.

    `prompts` maps roles to prompts; `batch_tokens` is the number of tokens, padding included, that
    go through the model at once.
    """

    model: str
    backend: str = "transformers"
    revision: str | None = None
    pooling: str = "auto"
    layer: int = -1
    special_tokens: bool = True
    pool_prompt: bool | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    max_length: int | None = None
    truncate_dim: int | None = None
    normalize: bool | None = None
    dtype: str = "float32"
    device: str = "auto"
    batch_tokens: int | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for role in self.prompts:
            as_role(role)
        for name in ("max_length", "truncate_dim", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                flag = name.replace("_", "-")
                raise UsageError(f"{flag} is {value}, expected a whole number above 0")


@dataclass(frozen=True, slots=True)
class Embedded:
    """Raw vectors (n, dimensions) of n strings, and what their tokens were."""

    vectors: Vectors
    tokens: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]


class TextEncoder(ABC):
    """Base of the backends; a backend turns final strings into raw vectors.

    Attributes:
        counts: what has been encoded so far.
        notes: what a user should know of how the model is run; stored in every result.
        on_progress: called with the number of characters just encoded.
    """

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec = spec
        self.counts = Counts()
        self.notes: list[str] = []
        self.on_progress: Callable[[int], object] = lambda characters: None

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

    @abstractmethod
    def embed(self, strings: Sequence[str], prompt: str) -> Embedded:
        """Raw vectors of different strings, each beginning with `prompt`; never an empty list."""

    def load(self) -> None:  # noqa: B027  (many backends have nothing to load)
        """Get ready to encode, so that what is wrong shows before the first task."""

    @property
    def environment(self) -> dict[str, str]:
        """Versions and devices that the vectors came from."""
        return {}

    def encode(self, texts: Sequence[str], role: Role | str) -> Vectors:
        """Encode texts of one role; see `jfinteb.eval.encoder.Encoder`.

        The prompt of the role stands before every text. A text of white space only has the zero
        vector, in every backend. Equal texts are encoded once. Texts are taken as they are: NFC is
        counted, not forced.

        Raises:
            UsageError: no such role.
            ModelError: a vector that is not finite; the message names the row.
        """
        prompt = self.spec.prompt(as_role(role))
        strings = [prompt + text for text in texts]
        blank = [not text.strip() for text in texts]
        rows = [i for i, b in enumerate(blank) if not b]
        index = {s: i for i, s in enumerate(dict.fromkeys(strings[row] for row in rows))}
        kept = min(self.spec.truncate_dim or self.dimensions, self.dimensions)
        vectors = np.zeros((len(texts), kept), dtype=np.float32)
        if index:
            done = self.embed(list(index), prompt)
            places = [index[strings[i]] for i in rows]
            raw = done.vectors[places]
            self._check_finite(raw, rows)  # before scaling, which makes NaN of infinity
            vectors[rows] = finish(raw, kept, normalize=self.spec.normalize)
            self.counts.tokens += int(done.tokens[places].sum())
            self.counts.truncated += int(done.truncated[places].sum())
        self.counts.texts += len(texts)
        self.counts.blank += sum(blank)
        self.counts.not_nfc += sum(not unicodedata.is_normalized("NFC", t) for t in texts)
        return vectors

    def _check_finite(self, vectors: Vectors, rows: Sequence[int]) -> None:
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            first = rows[int(bad[0])]
            raise ModelError(
                f"{self.spec.model} gave NaN or infinity for row {first} ({len(bad)} rows in all); "
                "try --dtype float32"
            )


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
