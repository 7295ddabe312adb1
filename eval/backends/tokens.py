"""Strings to token ids: limits, one end-of-text token, and which tokens may enter the pool."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import UsageError

__all__ = ["Tokenized", "Tokens", "length_limit"]

_UNLIMITED = 10**6  # tokenizers without a limit say 1e30
_CHUNK = 2048  # strings whose tokens are Python lists at a time
_POSITIONS = ("position_embeddings", "embed_positions", "wpe")


def length_limit(
    user: int | None, declared: int | None, tokenizer: Any, config: Any, model: torch.nn.Module
) -> int | None:
    """Tokens a text may have: the least of the user's, the tokenizer's and the model's positions.

    `declared` (sentence-transformers' own `max_seq_length`) stands in where the user says nothing.
    Position tables that begin after the padding index (RoBERTa's 514 for 512) are counted so.
    """
    limits = [user if user is not None else declared]
    limits.append(getattr(config, "max_position_embeddings", None))
    limits.append(getattr(tokenizer, "model_max_length", None))
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] in _POSITIONS and isinstance(module, torch.nn.Embedding):
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - first)
    return min((int(n) for n in limits if n and 0 < n < _UNLIMITED), default=None)


@dataclass(frozen=True)
class Tokenized:
    """Model inputs of n strings, end to end in flat arrays.

    Attributes:
        inputs: by input name, `input_ids` among them; shape (tokens,).
        pooled: whether a token may be pooled, shape (tokens,).
        lengths: tokens of each string, shape (n,).
        truncated: whether a string was longer than the limit, shape (n,).
    """

    inputs: Mapping[str, npt.NDArray[np.int32]]
    pooled: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where the tokens of each string begin, shape (n,); worked out once for all batches."""
        return np.cumsum(self.lengths) - self.lengths

    def batch(
        self, rows: npt.NDArray[np.intp], pad_values: Mapping[str, int]
    ) -> dict[str, torch.Tensor]:
        """Right-padded tensors of some rows, with the pool mask under `"pooled"`.

        Padding stands on the right for every model: positions then begin at 0 for every text, and
        pooling goes by masks, so that a text's vector does not depend on its batch.
        """
        starts = self.starts[rows, None]
        lengths = self.lengths[rows, None]
        steps = np.arange(lengths.max())
        attended = steps < lengths
        places = np.where(attended, starts + steps, 0)
        arrays: dict[str, npt.NDArray[Any]] = {
            name: np.where(attended, values[places], pad_values.get(name, 0)).astype(np.int64)
            for name, values in self.inputs.items()
        }
        arrays["attention_mask"] = attended.astype(np.int64)
        arrays["pooled"] = self.pooled[places] & attended
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Tokens:
    """A tokenizer with the rules of one encoder."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        model: str,
        limit: int | None,
        end: bool,
        special_tokens: bool,
        pool_prompt: bool,
    ) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._limit = limit
        self._special = special_tokens
        self._pool_prompt = pool_prompt
        self._end = self._missing_end() if end else None
        taken = tokenizer.num_special_tokens_to_add() + (self._end is not None)
        if limit is not None and limit <= taken:
            raise UsageError(
                f"max_length {limit} leaves no room for a text: {model} adds {taken} special "
                f"tokens; give {taken + 1} or more"
            )
        if not pool_prompt and not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"{model}: the prompt can be kept out of the pool only with a fast tokenizer, "
                f"found {type(tokenizer).__name__}; leave --pool-prompt on"
            )

    @property
    def adds_end(self) -> bool:
        """Whether an end-of-text token is added to what the tokenizer gives."""
        return self._end is not None

    @property
    def pad_values(self) -> dict[str, int]:
        """Value that stands for padding, by input name; 0 for all others."""
        pad = self._tokenizer.pad_token_id
        kinds = getattr(self._tokenizer, "pad_token_type_id", 0)
        return {"input_ids": 0 if pad is None else int(pad), "token_type_ids": int(kinds)}

    def _missing_end(self) -> int | None:
        """The end-of-text id that must be added by us; None if the tokenizer ends texts itself."""
        probe = self._tokenizer("円", return_special_tokens_mask=True)
        if probe["special_tokens_mask"] and probe["special_tokens_mask"][-1]:
            return None
        end = self._tokenizer.eos_token_id
        if end is None:
            raise ModelError(
                f"{self._model}: last-token pooling needs an end-of-text token, and the tokenizer "
                "has no eos_token; choose another --pooling"
            )
        return int(end)

    def __call__(self, strings: Sequence[str], prompt: str) -> Tokenized:
        """Tokenize strings that all begin with `prompt`."""
        parts = [
            self._tokenized(strings[start : start + _CHUNK], prompt)
            for start in range(0, len(strings), _CHUNK)
        ]
        return Tokenized(
            {name: np.concatenate([p.inputs[name] for p in parts]) for name in parts[0].inputs},
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("pooled", "lengths", "truncated")
            ),
        )

    def _tokenized(self, strings: Sequence[str], prompt: str) -> Tokenized:
        room = self._limit if self._limit is None or self._end is None else self._limit - 1
        encoded = self._encode(strings, None)
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        truncated = lengths > room if room is not None else np.zeros(len(strings), dtype=bool)
        long = np.flatnonzero(truncated).tolist()
        if long:
            cut = self._encode([strings[i] for i in long], room)
            for name, values in encoded.items():
                for i, value in zip(long, cut[name], strict=True):
                    values[i] = value
        specials = encoded.pop("special_tokens_mask")
        offsets = encoded.pop("offset_mapping", None)
        pooled = [[self._special or not flag for flag in flags] for flags in specials]
        if offsets is not None and prompt:
            for flags, special, spans in zip(pooled, specials, offsets, strict=True):
                # a token that holds any character of the text stays in the pool; special tokens
                # before the prompt leave with it, as in sentence-transformers
                ends = [
                    len(prompt) + 1 if s else end
                    for s, (_, end) in zip(special, spans, strict=True)
                ]
                in_prompt = [end <= len(prompt) for end in ends]
                first = in_prompt.index(True) if True in in_prompt else 0
                for t, inside in enumerate(in_prompt):
                    flags[t] = flags[t] and t >= first and not inside
        if self._end is not None:
            self._append_end(encoded, pooled)
        return Tokenized(
            {name: _flat(values, np.int32) for name, values in encoded.items()},
            _flat(pooled, np.bool_),
            np.array([len(flags) for flags in pooled], dtype=np.int64),
            truncated,
        )

    def _encode(self, strings: Sequence[str], limit: int | None) -> dict[str, list[Any]]:
        encoded = self._tokenizer(
            list(strings),
            truncation=limit is not None,
            max_length=limit,
            padding=False,
            return_attention_mask=False,
            return_special_tokens_mask=True,
            return_offsets_mapping=not self._pool_prompt,
            verbose=False,
        )
        return dict(encoded)

    def _append_end(self, encoded: dict[str, list[list[int]]], pooled: list[list[bool]]) -> None:
        for i, ids in enumerate(encoded["input_ids"]):
            doubled = bool(ids) and ids[-1] == self._end  # the text itself ended with the token
            if doubled:
                continue
            ids.append(self._end)  # type: ignore[arg-type]
            pooled[i].append(self._special)
            for name in encoded.keys() - {"input_ids"}:
                encoded[name][i].append(encoded[name][i][-1] if encoded[name][i] else 0)


def _flat(values: Sequence[Sequence[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    total = sum(map(len, values))
    return np.fromiter(itertools.chain.from_iterable(values), dtype=dtype, count=total)
