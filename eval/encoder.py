"""What an encoder is: texts and their role in, one float32 vector a text out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from jfinteb.loaders.errors import JfintebError, UsageError
from jfinteb.loaders.task import Role

__all__ = ["Counts", "Encoder", "EncoderSpec", "ModelError", "NotFiniteError", "Vectors", "as_role"]

Vectors: TypeAlias = npt.NDArray[np.float32]

# Raised when the same spec starts to give other vectors (blank texts, prompts, truncation, …).
_POLICY = 2
_AFTER_OR_BESIDE = ("prompts", "routes", "truncate_dim", "normalize", "precision")


class ModelError(JfintebError):
    """A model that cannot be opened, or whose vectors cannot be used."""


class NotFiniteError(ModelError):
    """A vector with NaN or infinity; `row` is its row among the texts that were asked for."""

    def __init__(self, model: str, row: int, *, dtype: str, split: str | None = None) -> None:
        where = f"row {row}" if split is None else f"row {row} of {split}"
        advice = "" if dtype == "float32" else f" in {dtype}; try --dtype float32"
        super().__init__(f"{model} gave NaN or infinity for {where}{advice}")
        self.dtype = dtype
        self.model = model
        self.row = row


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """Everything that changes a vector.

    Attributes:
        model: hub id, or the folder's name for a local model.
        revision: hub commit, or a fingerprint of the local files.
        backend: `"transformers"`, `"lexical"`, …
        pooling: how token states become one vector; see `jfinteb.eval.pooling`.
        layer: hidden layer that is pooled; -1 is the last.
        special_tokens: whether special tokens are in the pool.
        pool_prompt: whether the prompt's tokens are in the pool.
        prompts: role -> text put before every text of that role.
        max_length: tokens at most, special tokens and prompt included; None: no limit.
        truncate_dim: dimensions kept (before normalising); None: all.
        normalize: whether vectors are scaled to length 1.
        dtype: of the model's weights and activations; pooling and scores are float32.
        remote_code: whether code of the model's repository was allowed to run.
        routes: role -> the model's own adapter or path for texts of that role, where it has some.
        settings: what else a backend was told that changes a vector, by name.
        precision: of the finished vectors: float32, int8 or binary; see `jfinteb.eval.precision`.
    """

    model: str
    revision: str
    backend: str
    pooling: str
    layer: int = -1
    special_tokens: bool = True
    pool_prompt: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    max_length: int | None = None
    truncate_dim: int | None = None
    normalize: bool = False
    dtype: str = "float32"
    remote_code: bool = False
    routes: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    precision: str = "float32"

    def prompt(self, role: Role) -> str:
        """The text that stands before every text of this role; often empty."""
        return self.prompts.get(role.value, "")

    def route(self, role: Role) -> str:
        """The model's own adapter or path for texts of this role; often empty."""
        return self.routes.get(role.value, "")

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the prompt and route of every role spelled out."""
        return asdict(self) | {
            "prompts": {r.value: self.prompt(r) for r in Role},
            "routes": {r.value: self.route(r) for r in Role},
        }

    @property
    def digest(self) -> str:
        """SHA-256 over all fields: two specs that differ in anything have two digests."""
        return _digest(self.to_json())

    @property
    def vector_digest(self) -> str:
        """SHA-256 over what changes a model's raw vector of a final string.

        Prompts and routes are told by the string and its role; cutting, scaling and precision come
        after the raw vector.
        """
        return _digest({k: v for k, v in self.to_json().items() if k not in _AFTER_OR_BESIDE})


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps({**values, "policy": _POLICY}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True)
class Counts:
    """What has been encoded. A text that stands twice counts twice.

    Attributes:
        texts: number of texts.
        tokens: tokens that entered the model, prompt and special tokens included.
        truncated: texts that were longer than the limit.
        blank: texts of white space only (full-width space included); their vector is zero.
        not_nfc: texts that are not in Unicode NFC; tokenizers may cut them unlike their NFC form.
        cached: texts whose vector had been kept from an earlier task or run.
    """

    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    blank: int = 0
    not_nfc: int = 0
    cached: int = 0


class Encoder(Protocol):
    """Anything that can be scored."""

    @property
    def spec(self) -> EncoderSpec:
        """Everything that changes a vector."""
        ...

    def encode(self, texts: Sequence[str], role: Role | str) -> Vectors:
        """Encode texts of one role.

        Returns:
            float32, shape (len(texts), dimensions), row i for text i, all finite.
        """
        ...


def as_role(role: Role | str) -> Role:
    """The role of that name.

    Raises:
        UsageError: no such role; the message lists what exists.

    >>> as_role("query")
    <Role.QUERY: 'query'>
    """
    try:
        return Role(role)
    except ValueError:
        known = ", ".join(r.value for r in Role)
        raise UsageError(f"no role {str(role)!r}; roles of a text: {known}") from None
