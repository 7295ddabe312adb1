"""A server's answer, believed in nothing: number, order and length of vectors are checked."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jfinteb.eval.encoder import ModelError, Vectors

__all__ = ["Answer", "read_answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors in the order of the request, finite or not.

    Attributes:
        vectors: shape (inputs, dimensions).
        model: as the server names it; may be empty.
        tokens: that the server says it read, and bills; None if it does not say.
    """

    vectors: Vectors
    model: str
    tokens: int | None


def read_answer(content: bytes, inputs: int) -> Answer:
    """Read the body of an answer to a request of some inputs.

    Vectors may be lists of numbers or base64 of little-endian float32, whatever was asked for: no
    one can be taken for the other.

    Raises:
        ModelError: it is not JSON, or not one vector of one length for every input.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        kind = "HTML" if content.lstrip()[:1] == b"<" else "something else"
        raise ModelError(
            f"the server answered {kind}, expected JSON; is the base-url right? (it often ends in "
            "/v1)"
        ) from None
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        error = body.get("error") if isinstance(body, dict) else None
        said = f": {' '.join(str(error).split())[:200]}" if error else ""
        raise ModelError(f"the server answered no `data`, expected a list of vectors{said}")
    if len(data) != inputs:
        raise ModelError(f"the server answered {len(data)} vectors for {inputs} texts")
    rows = [_vector(item) for item in data]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1 or lengths[0] == 0:
        raise ModelError(f"the server answered vectors of lengths {lengths}, expected one length")
    vectors = np.empty((inputs, lengths[0]), dtype=np.float32)
    for index, row in zip(_order(data), rows, strict=True):
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite, told later
            vectors[index] = row
    return Answer(vectors, _text(body.get("model")), _tokens(body.get("usage")))


def _order(data: list[Any]) -> list[int]:
    """The index of every vector.

    Raises:
        ModelError: they are not each of 0 … n-1 once.
    """
    found = [item.get("index") if isinstance(item, dict) else None for item in data]
    wrong = next((i for i in found if type(i) is not int or not 0 <= i < len(data)), None)
    if wrong is not None or None in found:
        raise ModelError(f"the server answered a vector of index {wrong}, of {len(data)} texts")
    if len(set(found)) != len(found):
        twice = next(i for n, i in enumerate(found) if i in found[:n])
        raise ModelError(f"the server answered index {twice} twice, of {len(data)} texts")
    return [int(i) for i in found if i is not None]


def _vector(item: Any) -> npt.NDArray[Any]:
    raw = item.get("embedding") if isinstance(item, dict) else None
    try:
        if isinstance(raw, str):
            return np.frombuffer(base64.b64decode(raw, validate=True), dtype="<f4")
        if isinstance(raw, list):
            vector = np.array(raw, dtype=np.float64)  # null, which some write for NaN, is NaN
            if vector.ndim == 1:
                return vector
    except (binascii.Error, ValueError, TypeError, OverflowError):
        pass
    found = "a list of other things" if isinstance(raw, list) else type(raw).__name__
    found = "text that is not base64 of float32" if isinstance(raw, str) else found
    raise ModelError(f"the server answered {found} as an embedding, expected numbers or base64")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _tokens(usage: Any) -> int | None:
    if not isinstance(usage, dict):
        return None
    for name in ("prompt_tokens", "total_tokens"):
        value = usage.get(name)
        if type(value) is int and value >= 0:
            return value
    return None
