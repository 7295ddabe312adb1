"""Pooling: token states (batch, tokens, hidden) to one vector a text (batch, hidden).

All modes are functions of masks, never of positions in the padded row, so that left and right
padding give the same vector. Sums are in float32 whatever the dtype of the states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from jfinteb.loaders.errors import UsageError

__all__ = ["MODES", "check_mode", "pool"]

Tensor = torch.Tensor


def _cls(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    return _pick(states, attended.int().argmax(dim=1))


def _last(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    last = attended.shape[1] - 1 - attended.int().flip(1).argmax(dim=1)
    return _pick(states, last)


def _mean(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    return _weighted(states, pooled.float())


def _mean_sqrt_len(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    count = pooled.sum(dim=1, keepdim=True).clamp(min=1).float()
    return _weighted(states, pooled.float()) * count.sqrt()


def _weighted_mean(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    place = attended.int().cumsum(dim=1)  # 1 for a text's first token, on either padding side
    return _weighted(states, place.float() * pooled)


def _max(states: Tensor, attended: Tensor, pooled: Tensor) -> Tensor:
    lowest = torch.finfo(torch.float32).min
    highest = states.masked_fill(~pooled.unsqueeze(-1), lowest).amax(dim=1)
    return highest.masked_fill(~pooled.any(dim=1, keepdim=True), 0.0)


def _pick(states: Tensor, index: Tensor) -> Tensor:
    return states[torch.arange(states.shape[0], device=states.device), index]


def _weighted(states: Tensor, weights: Tensor) -> Tensor:
    total = weights.sum(dim=1, keepdim=True).clamp(min=1e-9)
    # as a matrix product it would go another way for a single text, and give it other last bits
    return (states * weights.unsqueeze(-1)).sum(dim=1) / total


MODES: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": _cls,
    "last": _last,
    "max": _max,
    "weighted_mean": _weighted_mean,
    "mean_sqrt_len": _mean_sqrt_len,
    # the mean over tokens; that the states are the average of two layers is the encoder's part
    "first_last_avg": _mean,
}


def pool(mode: str, states: Tensor, attended: Tensor, pooled: Tensor | None = None) -> Tensor:
    """Pool token states.

    Args:
        mode: a name of `MODES`, or several joined by `+`, whose vectors are concatenated.
            `mean`, `max`: over the pooled tokens. `cls`, `last`: first and last attended token.
            `weighted_mean`: weights 1, 2, 3, … from a text's first token (SGPT, arXiv 2202.08904).
            `mean_sqrt_len`: the sum over the square root of the count (as sentence-transformers).
            `first_last_avg`: `mean`, states of first and last layer averaged (arXiv 2103.15316).
        states: (batch, tokens, hidden), any float dtype.
        attended: (batch, tokens), 1 for a token of the text, 0 for padding.
        pooled: (batch, tokens), 1 for a token that may enter the pool; None: all attended. A text
            with none pools all its attended tokens; one without any token has the zero vector.

    Returns:
        float32 (batch, hidden), or (batch, n * hidden) for n modes.

    Raises:
        UsageError: no such mode.

    >>> states = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> left = torch.tensor([[0, 0, 1, 1]])
    >>> [pool(mode, states, left).item() for mode in ("cls", "last", "mean")]
    [3.0, 4.0, 3.5]
    """
    check_mode(mode)
    attended = attended.bool()
    pooled = attended if pooled is None else pooled.bool() & attended
    pooled = torch.where(pooled.any(dim=1, keepdim=True), pooled, attended)
    # padding may hold anything, also NaN, and 0 * NaN is NaN
    states = states.float().masked_fill(~attended.unsqueeze(-1), 0.0)
    return torch.cat([MODES[part](states, attended, pooled) for part in mode.split("+")], dim=1)


def check_mode(mode: str) -> None:
    """Raise UsageError unless `mode` is one or several known modes."""
    for part in mode.split("+"):
        if part not in MODES:
            raise UsageError(f"no pooling {part!r}; expected auto or {', '.join(MODES)}")
