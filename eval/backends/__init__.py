"""Backends: ways to get vectors. Each is a module with one `TextEncoder`."""

from __future__ import annotations

from jfinteb.eval.backends.base import EncoderOptions, TextEncoder
from jfinteb.loaders.errors import UsageError

__all__ = ["BACKENDS", "EncoderOptions", "TextEncoder", "open_encoder"]

BACKENDS = ("transformers", "openvino", "sentence-transformers", "api", "custom", "mteb", "lexical")


def open_encoder(options: EncoderOptions) -> TextEncoder:
    """The encoder that the options describe; weights are loaded at the first text, or by `load()`.

    The backend `auto` is chosen by the model: `lexical` is the baseline, `module:factory` the
    user's own code, and a model whose sentence-transformers modules pooling alone does not cover
    is run by that library, unless a pooling is asked for. All others go to transformers.

    Raises:
        UsageError: no such backend, or an option that it does not have.
        ModelError: the model cannot be opened.
        UnavailableError: it cannot be had: gated, unknown, no network.
    """
    backend, because = options.backend, list[str]()
    if backend == "auto":
        backend, because = _chosen(options)
    if backend not in ("transformers", "api") and (options.workers > 1 or "," in options.device):
        raise UsageError(
            f"the {backend} backend runs in one process; leave --workers out and give one --device"
        )
    if backend == "lexical":
        from jfinteb.eval.backends.lexical import LexicalEncoder

        return LexicalEncoder(options)
    if backend == "api":
        from jfinteb.eval.backends.api import ApiEncoder

        return ApiEncoder(options)
    if backend == "custom":
        from jfinteb.eval.backends.custom import CustomEncoder

        return CustomEncoder(options)
    if backend == "mteb":
        from jfinteb.eval.backends.mteb import MtebEncoder

        return MtebEncoder(options)
    if backend == "sentence-transformers":
        from jfinteb.eval.backends.sentence_transformers import SentenceTransformersEncoder

        return SentenceTransformersEncoder(options, because)
    if backend == "openvino":
        from jfinteb.eval.backends.openvino import OpenVinoEncoder

        return OpenVinoEncoder(options)
    if backend == "transformers":
        devices = options.device.split(",") * options.workers
        if len(devices) > 1:
            from jfinteb.eval.backends.parallel import ParallelEncoder

            return ParallelEncoder(options, devices)
        from jfinteb.eval.backends.transformers import TransformersEncoder

        return TransformersEncoder(options)
    raise UsageError(f"no backend {backend!r}; backends: auto, {', '.join(BACKENDS)}")


def _chosen(options: EncoderOptions) -> tuple[str, list[str]]:
    """The backend of a model, and the modules that speak for it."""
    from jfinteb.eval.backends.custom import is_factory

    if options.model in ("lexical", "jfinteb/lexical"):
        return "lexical", []
    if is_factory(options.model):
        return "custom", []
    if options.pooling == "auto":
        from jfinteb.eval.backends.sentence_transformers import needed_by

        because = needed_by(options)
        if because:
            return "sentence-transformers", because
    return "transformers", []
