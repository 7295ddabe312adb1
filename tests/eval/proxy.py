"""An embedding server that can be told to fail, alone or in front of a real one.

Alone it gives every text a vector that follows from the text: `vector_of(text)`. Faults are taken
from a list, one a request; with the list empty every request is answered.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import pytest

from jfinteb.eval.backends.api import ApiEncoder
from jfinteb.eval.backends.base import EncoderOptions

pytest.importorskip("openai", reason="extra api")

Body: TypeAlias = dict[str, Any]
Fault: TypeAlias = Callable[["Handler", Body], None]

DIMENSIONS = 8


def vector_of(text: str, dimensions: int = DIMENSIONS) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Eight numbers between -1 and 1, exact in float32 and in three decimals of binary."""
    digest = hashlib.sha256(text.encode()).digest()
    return (np.frombuffer(digest[:dimensions], dtype=np.uint8).astype(np.float32) - 128) / 128


@dataclass
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Body
    at: float

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


@dataclass
class Server:
    """The server; use it in a `with`.

    Attributes:
        faults: what the next requests meet, first to last.
        requests: all that came, also those that met a fault.
        answered: how often each text was sent back with its vector.
        most: largest number of requests that were there at once.
        limits: a check that may refuse a request: returns status and message, or None.
        upstream: address of a real server that answers in its place.
    """

    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    most: int = 0
    delay: float = 0.0
    model: str = "hash-8"
    usage: bool = True
    limits: Callable[[Body], tuple[int, str] | None] = lambda body: None
    upstream: str | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.now = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def asked(self) -> Counter[str]:
        """How often each text was asked for."""
        return Counter(text for request in self.requests for text in request.texts)

    def __enter__(self) -> Server:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.ours = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def answer(self, body: Body) -> Body:
        if self.upstream is not None:
            data = json.dumps(body).encode()
            request = urllib.request.Request(
                f"{self.upstream}/embeddings", data, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                return dict(json.load(response))
        vectors = [vector_of(text, body.get("dimensions", DIMENSIONS)) for text in body["input"]]
        in_base64 = body.get("encoding_format") == "base64"
        data_ = [
            {
                "object": "embedding",
                "index": i,
                "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode()
                if in_base64
                else v.tolist(),
            }
            for i, v in enumerate(vectors)
        ]
        tokens = sum(len(text) for text in body["input"])
        usage = {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}} if self.usage else {}
        return {"object": "list", "model": self.model, "data": data_, **usage}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    @property
    def ours(self) -> Server:
        return self.server.ours  # type: ignore[attr-defined, no-any-return]

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        server = self.ours
        with server.lock:
            server.requests.append(
                Request(self.path, dict(self.headers.items()), body, time.monotonic())
            )
            fault = server.faults.pop(0) if server.faults else None
            server.now += 1
            server.most = max(server.most, server.now)
        try:
            time.sleep(server.delay)
            refused = server.limits(body)
            if refused is not None:
                self.send(refused[0], {"error": {"message": refused[1], "type": "invalid"}})
            elif fault is not None:
                fault(self, server.answer(body))
            else:
                answer = server.answer(body)
                with server.lock:
                    server.answered.update(body["input"])
                self.send(200, answer)
        finally:
            with server.lock:
                server.now -= 1

    def send(self, status: int, body: Body | str, **headers: str) -> None:
        html = isinstance(body, str)
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if html else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # whoever asked has gone

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def status(code: int, message: str = "no", **headers: str) -> Fault:
    """Refuse with a status."""
    return lambda handler, answer: handler.send(code, {"error": {"message": message}}, **headers)


def page(code: int = 200) -> Fault:
    """A page of HTML."""
    return lambda handler, answer: handler.send(code, "<html><body>Bad gateway</body></html>")


def changed(change: Callable[[Body], object]) -> Fault:
    """Answer with a body that `change` has spoiled."""

    def fault(handler: Handler, answer: Body) -> None:
        change(answer)
        handler.send(200, answer)

    return fault


def late(seconds: float) -> Fault:
    """Answer, after a while."""

    def fault(handler: Handler, answer: Body) -> None:
        time.sleep(seconds)
        handler.send(200, answer)

    return fault


def dropped(handler: Handler, answer: Body) -> None:
    """Break the connection in the middle of the answer."""
    data = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    _reset(handler)


def refused(handler: Handler, answer: Body) -> None:
    """Break the connection without a word."""
    _reset(handler)


def _reset(handler: Handler) -> None:
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    handler.connection.close()


KEYS = ("JFINTEB_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")
PLACES = ("OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no address from the environment of whoever runs the tests."""
    for name in (*KEYS, *PLACES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="server")
def own_server() -> Iterator[Server]:
    """A server of its own for every test."""
    with Server() as running:
        yield running


def opened(at: Server | str, *, model: str = "hash-8", **options: Any) -> ApiEncoder:
    """An encoder for a server; whatever is not one of EncoderOptions is a setting."""
    names = {field.name for field in fields(EncoderOptions)}
    settings = {name: value for name, value in options.items() if name not in names}
    rest = {name: value for name, value in options.items() if name in names}
    settings.setdefault("base_url", at if isinstance(at, str) else at.url)
    return ApiEncoder(EncoderOptions(model=model, backend="api", settings=settings, **rest))


def vectors_of(texts: Iterable[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.stack([vector_of(text) for text in texts])
