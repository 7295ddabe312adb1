"""What went wrong with a request, in one line that says what to do and shows no key."""

from __future__ import annotations

import re
from typing import Any

from jfinteb.eval.backends.api.access import Access
from jfinteb.eval.backends.api.settings import ApiSettings
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UnavailableError

__all__ = ["TooLargeError", "refusal"]

_SAID = 200  # characters of a server's message that are shown
_TOO_LARGE = re.compile(
    r"context.?length|too (?:long|large|many)|batch.?size|token limit|exceed"
    r"|max\w*\W+(?:\w+\W+){0,4}(?:tokens?|batch|length|inputs?|items?)",
    re.IGNORECASE,
)
_OF_BATCH = re.compile(r"batch|inputs|array|items", re.IGNORECASE)


class TooLargeError(Exception):
    """A request that the server finds too large.

    Attributes:
        batch: whether it spoke of the number of texts, and not of a text's length.
        said: its message, redacted.
    """

    def __init__(self, said: str, *, batch: bool) -> None:
        super().__init__(said)
        self.said = said
        self.batch = batch


def refusal(
    error: Exception, access: Access, settings: ApiSettings, model: str, inputs: int
) -> JfintebError | TooLargeError:
    """Turn what the client raised, after all its attempts, into one of our errors.

    Args:
        error: from the client.
        access: whose secrets are hidden in what the server said.
        settings: of the endpoint.
        model: that was asked for.
        inputs: number of texts of the request.
    """
    import openai

    server = access.server
    if isinstance(error, openai.APITimeoutError):
        return UnavailableError(
            f"{server} gave no answer within {settings.timeout:g} seconds, {settings.retries + 1} "
            "times; give a longer timeout or fewer inputs a request"
        )
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        why = access.redacted(f"{type(cause).__name__}: {cause}").rstrip(": ")
        return UnavailableError(f"cannot reach {server} ({why[:_SAID]}); is the base-url right?")
    if isinstance(error, openai.APIStatusError):
        return _by_status(error.status_code, _said(error, access), access, model, inputs)
    what = access.redacted(f"{type(error).__name__}: {error}")[:_SAID]
    return ModelError(f"{server}: the request failed ({what})")


def _by_status(
    status: int, said: str, access: Access, model: str, inputs: int
) -> JfintebError | TooLargeError:
    server, names = access.server, " or ".join(access.key_names)
    told = f" ({said})" if said else ""
    refused = status in (400, 422) and "dimension" not in said.lower()
    if status == 413 or (refused and _TOO_LARGE.search(said)):
        return TooLargeError(said, batch=bool(_OF_BATCH.search(said)) or status == 413)
    if status == 401:  # the message may hold part of the key, and says nothing else
        have = "does not take the key in" if access.key else "wants a key; set"
        return UnavailableError(f"{server} (401) {have} {names}")
    if status == 403:
        return UnavailableError(f"{server} (403) does not let this key use {model}{told}")
    if status == 404:
        what = "deployment" if access.azure else "model"
        return UnavailableError(
            f"{server} (404) has no {what} {model!r}, or no such path{told}; is the base-url right?"
        )
    if status == 429:
        return UnavailableError(
            f"{server} (429) refuses more requests for now, or your quota is used up{told}; run "
            "again later to go on from here, with lower concurrency"
        )
    if status >= 500:
        return UnavailableError(
            f"{server} ({status}) failed again and again{told}; run again later"
        )
    return ModelError(f"{server} ({status}) refused {inputs} texts for {model}{told}")


def _said(error: Any, access: Access) -> str:
    """The server's message, redacted, in one line; a page of HTML is not shown."""
    body: Any = error.body
    for name in ("error", "message", "detail"):
        if isinstance(body, dict):
            body = body.get(name, body)
    text = access.redacted(body if isinstance(body, str) else str(body or error.response.text))
    text = " ".join(text.split())
    return "an HTML page" if text.startswith("<") else text[:_SAID]
