"""Errors that a user can mend: one line that says what was found, expected and to be done."""

from __future__ import annotations

__all__ = ["DataError", "JfintebError", "UnavailableError", "UsageError"]


class JfintebError(Exception):
    """Base of all errors that jfinteb raises on purpose; its text is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class UsageError(JfintebError):
    """The caller asked for something that does not exist or does not fit."""


class DataError(JfintebError):
    """Data that is there, but is not what its card declares."""


class UnavailableError(JfintebError):
    """Data or a model that cannot be had now: gated, missing, or no network."""
