"""Backends: ways to get vectors. Each is a module with one `TextEncoder`."""

from __future__ import annotations

from jfinteb.eval.backends.base import EncoderOptions, TextEncoder
from jfinteb.loaders.errors import UsageError

__all__ = ["BACKENDS", "EncoderOptions", "TextEncoder", "open_encoder"]

BACKENDS = ("transformers", "lexical")


def open_encoder(options: EncoderOptions) -> TextEncoder:
    """The encoder that the options describe; weights are loaded at the first text, or by `load()`.

    Raises:
        UsageError: no such backend, or an option that it does not have.
        ModelError: the model cannot be opened.
        UnavailableError: it cannot be had: gated, unknown, no network.
    """
    if options.backend == "lexical":
        from jfinteb.eval.backends.lexical import LexicalEncoder

        return LexicalEncoder(options)
    if options.backend == "transformers":
        from jfinteb.eval.backends.transformers import TransformersEncoder

        return TransformersEncoder(options)
    raise UsageError(f"no backend {options.backend!r}; backends: {', '.join(BACKENDS)}")
