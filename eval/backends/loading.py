"""What sentence-transformers leaves open when it loads a model: limits, counts, missing tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from jfinteb.eval.backends.tokens import length_limit
from jfinteb.eval.encoder import ModelError

__all__ = ["lengths_of", "no_random_weights", "shorten"]


def shorten(module: Any, limit: int | None) -> None:
    """Hold a transformer's texts to its positions, and to what the user asks for."""
    tokenizer, model = getattr(module, "tokenizer", None), getattr(module, "auto_model", None)
    if (
        tokenizer is None
        or not isinstance(model, torch.nn.Module)
        or hasattr(module, "sub_modules")
    ):
        return
    own = getattr(module, "max_seq_length", None)
    found = length_limit(limit, own, tokenizer, model.config, model)
    if found is not None:
        module.max_seq_length = found


def lengths_of(tokenizer: Any, strings: list[str]) -> list[int]:
    """Tokens of each string, special ones included; characters where nothing tells them."""
    if callable(tokenizer):
        return [len(ids) for ids in tokenizer(strings, padding=False, verbose=False)["input_ids"]]
    if hasattr(tokenizer, "encode_batch"):  # of the tokenizers library: static embeddings
        encoded = tokenizer.encode_batch(strings, add_special_tokens=False)
        return [len(each.ids) for each in encoded]
    return [len(text) for text in strings]


@contextmanager
def no_random_weights(name: str) -> Iterator[None]:
    """Ask of every transformers model that is loaded meanwhile which tensors were not in its file.

    sentence-transformers loads models itself and only logs what was missing from them.
    """
    original = PreTrainedModel.__dict__["from_pretrained"].__func__

    def watched(cls: Any, *args: Any, **options: Any) -> Any:
        asked = options.pop("output_loading_info", False)
        model, info = original(cls, *args, output_loading_info=True, **options)
        missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
        if missing:
            raise ModelError(
                f"{name}: {len(missing)} tensors of {type(model).__name__} are not in the weights, "
                f"first {missing[0]}; they would be random"
            )
        return (model, info) if asked else model

    PreTrainedModel.from_pretrained = classmethod(watched)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = classmethod(original)
