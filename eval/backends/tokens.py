"""Strings to token ids: limits, one end-of-text token, and which tokens may enter the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import UsageError

__all__ = ["Tokenized", "Tokens", "length_limit"]

_UNLIMITED = 10**6  # tokenizers without a limit say 1e30
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


@dataclass(frozen=True, slots=True)
class Tokenized:
    """Model inputs of n strings, not padded; `pooled[i][t]` tells whether token t may be pooled."""

    inputs: Mapping[str, list[list[int]]]
    pooled: list[list[bool]]
    truncated: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Tokens of each string, shape (n,)."""
        return np.array([len(ids) for ids in self.inputs["input_ids"]], dtype=np.int64)

    def batch(self, rows: Sequence[int], pad_values: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Right-padded tensors of some rows, with the pool mask under `"pooled"`.

        Padding stands on the right for every model: positions then begin at 0 for every text, and
        pooling goes by masks, so that a text's vector does not depend on its batch.
        """
        columns: dict[str, Sequence[Sequence[int]]] = {**self.inputs, "pooled": self.pooled}
        width = max(len(self.pooled[r]) for r in rows)
        return {
            name: torch.tensor(
                [[*values[r], *[pad_values.get(name, 0)] * (width - len(values[r]))] for r in rows]
            )
            for name, values in columns.items()
        }


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
        return Tokenized(encoded, pooled, truncated)

    def _encode(self, strings: Sequence[str], limit: int | None) -> dict[str, list[Any]]:
        encoded = self._tokenizer(
            list(strings),
            truncation=limit is not None,
            max_length=limit,
            padding=False,
            return_attention_mask=True,
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
            encoded["attention_mask"][i].append(1)
            pooled[i].append(self._special)
            for name in encoded.keys() - {"input_ids", "attention_mask"}:
                encoded[name][i].append(encoded[name][i][-1] if encoded[name][i] else 0)
