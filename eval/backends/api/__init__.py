"""OpenAI-compatible endpoints: OpenAI, Azure, vLLM, TEI, Ollama, infinity; extra `api`."""

from __future__ import annotations

from jfinteb.eval.backends.api.encoder import ApiEncoder

__all__ = ["ApiEncoder"]
