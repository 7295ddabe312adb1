"""One server and the requests to it: the official client on an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from jfinteb.eval.backends.api.access import Access
from jfinteb.eval.backends.api.answer import Answer, read_answer
from jfinteb.eval.backends.api.refusal import TooLargeError, refusal
from jfinteb.eval.backends.api.settings import ApiSettings
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError, UnavailableError, UsageError

__all__ = ["Endpoint", "check_client"]

_NO_KEY = "none"  # the client insists on a key; local servers do not look at it
_STOP = 5.0  # seconds that cancelled requests have to close their connections


def check_client() -> None:
    """Find out whether the client library is there.

    Raises:
        UsageError: it is not; the message names the extra.
    """
    try:
        import openai  # noqa: F401
    except ImportError:
        raise UsageError(
            "the api backend needs the openai package; pip install 'jfinteb[api]'"
        ) from None


class Endpoint:
    """A connection to a server, open from `with` to its end.

    The loop runs in a thread of its own, so that the caller can be anywhere (also in a notebook,
    which has a loop already), and a waiting request can be dropped at once. Attempts, back-off with
    jitter and `Retry-After` are the client's; the deadline over all attempts is ours.
    """

    def __init__(self, access: Access, settings: ApiSettings, model: str) -> None:
        self._access = access
        self._settings = settings
        self._model = model

    def __enter__(self) -> Endpoint:
        if self._access.paid and not self._access.key and not self._access.headers:
            names = " or ".join(self._access.key_names)
            raise UsageError(f"{self._access.server} needs a key; set {names} in the environment")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="jfinteb-api", daemon=True
        )
        self._thread.start()
        self._client = self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stopping = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        with contextlib.suppress(Exception):
            stopping.result(_STOP)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP)
        if not self._thread.is_alive():
            self._loop.close()

    def submit(self, texts: Sequence[str], route: str) -> Future[Answer]:
        """Ask for the vectors of some texts.

        The future raises TooLargeError where fewer or shorter texts would do, or a JfintebError.
        """
        return asyncio.run_coroutine_threadsafe(self._ask(list(texts), route), self._loop)

    async def _ask(self, texts: list[str], route: str) -> Answer:
        fault: JfintebError | TooLargeError
        settings = self._settings
        body: dict[str, Any] = {"encoding_format": settings.encoding_format}
        if settings.dimensions:
            body["dimensions"] = settings.dimensions
        if route:
            body["extra_body"] = {settings.route_field: route}
        embeddings = self._client.embeddings.with_raw_response
        request = embeddings.create(input=texts, model=self._model, **body)
        try:
            response = await asyncio.wait_for(request, settings.deadline)
            return read_answer(response.content, len(texts))
        except asyncio.TimeoutError:
            fault = UnavailableError(
                f"{self._access.server} gave no answer within the deadline of "
                f"{settings.deadline:g} seconds; give fewer inputs a request, or run again "
                "to go on from here"
            )
        except ModelError as error:
            fault = ModelError(f"{self._access.server}: {self._access.redacted(str(error))}")
        except Exception as error:  # what a server can make a client raise has no end
            fault = refusal(error, self._access, settings, self._model, len(texts))
        # raised here and not above, or the first error would hang on it with all the server said
        raise fault

    def _open(self) -> Any:
        import openai

        access, settings = self._access, self._settings
        common: dict[str, Any] = {
            "api_key": access.key or _NO_KEY,
            "timeout": settings.timeout,
            "max_retries": settings.retries,
            "default_headers": dict(access.headers),
        }
        if not access.azure:
            return openai.AsyncOpenAI(base_url=access.url, **common)
        return openai.AsyncAzureOpenAI(
            azure_endpoint=access.url,
            azure_deployment=settings.azure_deployment or None,
            api_version=access.api_version,
            **common,
        )

    async def _stop(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.close()
