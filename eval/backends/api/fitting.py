"""Cutting texts where the server's limit is, before they are sent and paid.

A text is cut at the end of the last whole character (grapheme: kana with its mark, flag, family)
that its first tokens cover, and goes as text, never as token ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped,unused-ignore]

from jfinteb.eval.backends.api.tokenizers import TokenCounter
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import UsageError

__all__ = ["Fitted", "fit"]

_CHUNK = 2048
_GRAPHEME = regex.compile(r"\X")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Strings as they are sent, with their tokens and whether they were cut."""

    strings: list[str]
    tokens: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]


def fit(counter: TokenCounter, strings: Sequence[str], limit: int | None, prompt: str) -> Fitted:
    """Cut strings that have more than `limit` tokens; None: none is cut.

    Args:
        counter: of tokens.
        strings: that all begin with `prompt`.
        limit: tokens at most, prompt and special tokens included.
        prompt: of which nothing may be cut.

    Raises:
        UsageError: the limit leaves no room for a character after the prompt.
        ModelError: a string that UTF-8, and so no request, can hold.
    """
    sent = list(strings)
    for text in sent:
        if not text.isascii():
            _check_unicode(text)
    parts = [counter.count(sent[start : start + _CHUNK]) for start in range(0, len(sent), _CHUNK)]
    tokens = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    truncated = tokens > limit if limit is not None else np.zeros(len(sent), dtype=bool)
    for row in np.flatnonzero(truncated).tolist():
        assert limit is not None
        sent[row], tokens[row] = _cut(counter, sent[row], limit)
        if len(sent[row]) <= len(prompt):
            raise UsageError(
                f"max-length {limit} leaves no room for a character of {strings[row][:30]!r} "
                f"after the prompt {prompt!r}; give more"
            )
    return Fitted(sent, tokens, truncated)


def _cut(counter: TokenCounter, text: str, limit: int) -> tuple[str, int]:
    """The text up to a whole character, and its tokens; a shorter text may count more tokens."""
    end = counter.covered(text, limit)
    while end > 0:
        end = _whole(text, end)
        tokens = int(counter.count([text[:end]])[0])
        if tokens <= limit:
            return text[:end], tokens
        end -= 1
    return "", 0


def _whole(text: str, end: int) -> int:
    """The last boundary between graphemes that is not beyond `end`."""
    last = 0
    for match in _GRAPHEME.finditer(text):
        if match.end() > end:
            break
        last = match.end()
    return last


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text[: error.start][-20:]
        raise ModelError(
            f"the text that goes on after {shown!r} has half a character (a lone surrogate), which "
            "no request can hold; mend the text"
        ) from None
