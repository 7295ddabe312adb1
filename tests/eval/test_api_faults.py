"""What servers do wrong: each fault ends in the right vectors or in one line."""

from __future__ import annotations

import base64
import email.utils
import time
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from jfinteb.eval.encoder import ModelError, NotFiniteError
from jfinteb.eval.store import MemoryStore, keys_of
from jfinteb.loaders.errors import JfintebError, UnavailableError
from jfinteb.loaders.task import Role

from .proxy import (
    Body,
    Fault,
    Server,
    changed,
    dropped,
    late,
    no_keys,  # noqa: F401
    opened,
    own_server,  # noqa: F401
    page,
    refused,
    status,
    vectors_of,
)

TEXTS = ["円安", "円高", "株価は下落した", "配当は50円"]


def reverse(answer: Body) -> None:
    answer["data"].reverse()


def in_base64(answer: Body) -> None:
    for item in answer["data"]:
        data = np.array(item["embedding"], dtype="<f4").tobytes()
        item["embedding"] = base64.b64encode(data).decode()


def embedding(value: object) -> Fault:
    return changed(lambda answer: answer["data"][1].update(embedding=value))


def index(value: object) -> Fault:
    return changed(lambda answer: answer["data"][1].update(index=value))


MENDED: dict[str, list[Fault]] = {
    "wrong order": [changed(reverse)],
    "base64 unasked": [changed(in_base64)],
    "429": [status(429, "slow down", Retry_After="0.2")],
    "429 in milliseconds": [status(429, "slow down", retry_after_ms="50")],
    "500 burst": [status(500), status(502), status(503)],
    "408": [status(408)],
    "gateway page": [page(502)],
    "dropped midway": [dropped],
    "dropped at once": [refused, refused],
    "extra fields": [changed(lambda answer: answer.update(id="x", extra={"a": [1]}))],
    "no usage": [changed(lambda answer: answer.pop("usage"))],
    "odd usage": [changed(lambda answer: answer.update(usage={"prompt_tokens": "4"}))],
}


@pytest.mark.parametrize("faults", MENDED.values(), ids=MENDED)
def test_mended(server: Server, faults: list[Fault]) -> None:
    encoder = opened(server, concurrency=1)
    encoder.identify()
    server.faults = list(faults)
    np.testing.assert_array_equal(encoder.encode(TEXTS, "query"), vectors_of(TEXTS))
    assert not server.faults


def test_a_slow_answer_is_waited_for_and_a_lost_one_asked_again(server: Server) -> None:
    encoder = opened(server, timeout=2)
    encoder.identify()
    server.faults = [late(0.3)]
    np.testing.assert_array_equal(encoder.encode(TEXTS, "query"), vectors_of(TEXTS))
    assert len(server.requests) == 2
    server.faults = [late(3)]
    np.testing.assert_array_equal(encoder.encode(TEXTS[:1], "document"), vectors_of(TEXTS[:1]))
    assert len(server.requests) == 4


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_kept_to(server: Server, form: str) -> None:
    encoder = opened(server, concurrency=1)
    encoder.identify()
    date = int(time.time()) + 3
    due = time.monotonic() + date - time.time()
    after = "2" if form == "seconds" else email.utils.formatdate(date, usegmt=True)
    server.faults = [status(429, Retry_After=after)]
    encoder.encode(TEXTS, "query")
    first, second = server.requests[-2:]  # back-off alone would have been 0.5 seconds
    assert second.at >= (first.at + 2 if form == "seconds" else due) - 0.05


@pytest.mark.skipif(
    int(version("openai").split(".")[0]) < 3, reason="older clients try again sooner than told"
)
def test_a_pause_of_minutes_is_left_to_the_user(server: Server) -> None:
    encoder = opened(server)
    encoder.identify()
    server.faults = [status(429, "tokens per day", Retry_After="3600")]
    with pytest.raises(UnavailableError, match=r"\(429\) refuses more .*tokens per day.* later"):
        encoder.encode(TEXTS, "query")
    assert len(server.requests) == 2


def test_back_off_grows_and_ends(server: Server) -> None:
    encoder = opened(server, retries=2)
    encoder.identify()
    server.faults = [status(500, "boom")] * 3
    with pytest.raises(UnavailableError, match=r"\(500\) failed again and again \(boom\)"):
        encoder.encode(TEXTS, "query")
    one, two, three = (request.at for request in server.requests[1:])
    assert two - one > 0.3  # half a second, and up to a quarter less
    assert three - two > 0.7


def test_a_deadline_ends_all_attempts(server: Server) -> None:
    encoder = opened(server, deadline=1.5, retries=50)
    encoder.identify()
    server.faults = [status(503)] * 50
    start = time.monotonic()
    with pytest.raises(UnavailableError, match=r"no answer within the deadline of 1\.5 seconds"):
        encoder.encode(TEXTS, "query")
    assert time.monotonic() - start < 5


def test_a_server_that_never_answers_in_time(server: Server) -> None:
    encoder = opened(server, timeout=0.3, retries=1)
    encoder.identify()
    server.faults = [late(2), late(2)]
    with pytest.raises(UnavailableError, match=r"no answer within 0\.3 seconds, 2 times"):
        encoder.encode(TEXTS, "query")


def test_no_server() -> None:
    with pytest.raises(UnavailableError, match=r"cannot reach 127\.0\.0\.1:9/v1 .*base-url"):
        opened("http://127.0.0.1:9/v1", retries=0).load()


CLEAR: dict[str, tuple[Fault, str]] = {
    "too few": (changed(lambda answer: answer["data"].pop()), "3 vectors for 4 texts"),
    "none": (changed(lambda answer: answer.update(data=[])), "0 vectors for 4 texts"),
    "too many": (changed(lambda a: a["data"].append(a["data"][0])), "5 vectors for 4 texts"),
    "index twice": (index(0), "index 0 twice, of 4 texts"),
    "index beyond": (index(4), "index 4, of 4 texts"),
    "index negative": (index(-1), "index -1, of 4 texts"),
    "index missing": (index(None), "index None, of 4 texts"),
    "index text": (index("1"), "index 1, of 4 texts"),
    "index true": (index(True), "index True, of 4 texts"),
    "short vector": (embedding([0.1, 0.2]), r"vectors of lengths \[2, 8\]"),
    "empty vectors": (
        changed(lambda answer: [item.update(embedding=[]) for item in answer["data"]]),
        r"vectors of lengths \[0\]",
    ),
    "other dimension": (
        changed(lambda answer: [item.update(embedding=[1.0] * 9) for item in answer["data"]]),
        "gave 9 dimensions after 8",
    ),
    "nested": (embedding([[1.0] * 8]), "a list of other things as an embedding"),
    "words": (embedding(["a"] * 8), "a list of other things as an embedding"),
    "no embedding": (embedding(None), "NoneType as an embedding"),
    "base64 of 3 bytes": (embedding("AAAA"), "not base64 of float32"),
    "not base64": (embedding("*****"), "not base64 of float32"),
    "HTML": (page(), "answered HTML, expected JSON; is the base-url right"),
    "an error with 200": (
        changed(lambda answer: (answer.clear(), answer.update(error="model is loading"))),
        "no `data`.*model is loading",
    ),
    "400": (status(400, "invalid input"), r"\(400\) refused 4 texts for hash-8 \(invalid input\)"),
    "401": (status(401, "Incorrect API key"), r"\(401\) wants a key; set JFINTEB_API_KEY"),
    "403": (status(403, "not your model"), r"\(403\) does not let .* hash-8 \(not your model\)"),
    "404": (status(404, "no such model"), r"\(404\) has no model 'hash-8', .*no such model"),
    "404 page": (page(404), r"\(404\) has no model 'hash-8', .*an HTML page.*base-url"),
}


@pytest.mark.parametrize(("fault", "message"), CLEAR.values(), ids=CLEAR)
def test_one_clear_line(server: Server, fault: Fault, message: str) -> None:
    encoder = opened(server, concurrency=1)
    encoder.identify()
    server.faults = [fault]
    with pytest.raises((ModelError, UnavailableError), match=message) as caught:
        encoder.encode(TEXTS, "query")
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 2  # what is wrong with an answer is not asked again


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, 1e39])
def test_not_finite(server: Server, value: float | None) -> None:
    encoder = opened(server, concurrency=1)
    encoder.store = store = MemoryStore()
    encoder.identify()
    server.faults = [embedding([value] + [0.0] * 7)]
    with pytest.raises(NotFiniteError, match="hash-8 gave NaN or infinity for row") as caught:
        encoder.encode(TEXTS, "query")
    sent = server.requests[-1].texts
    assert TEXTS[caught.value.row] == sent[1]
    missing = store.missing(keys_of(encoder.spec, Role.QUERY, TEXTS))
    assert [text for text, absent in zip(TEXTS, missing, strict=True) if absent] == [sent[1]]
    np.testing.assert_array_equal(encoder.encode(TEXTS, "query"), vectors_of(TEXTS))
    assert server.requests[-1].texts == [sent[1]]  # the three that were sound are not paid twice


def test_the_first_answer_is_not_finite(server: Server) -> None:
    server.faults = [changed(lambda answer: answer["data"][0].update(embedding=[float("nan")] * 8))]
    with pytest.raises(ModelError, match="NaN or infinity for a first text"):
        opened(server).load()


def too_many(most: int) -> Any:
    def check(body: Body) -> tuple[int, str] | None:
        if len(body["input"]) > most:
            return 413, f"batch size {len(body['input'])} > maximum allowed batch size {most}"
        return None

    return check


def test_requests_shrink_to_what_the_server_takes(server: Server) -> None:
    server.limits = too_many(5)
    texts = [f"文{n:03}" for n in range(100)]
    encoder = opened(server, inputs=40, concurrency=1)
    np.testing.assert_array_equal(encoder.encode(texts, "query"), vectors_of(texts))
    assert server.answered == dict.fromkeys([*texts, *server.requests[0].texts], 1)
    refusals = sum(len(request.texts) > 5 for request in server.requests)
    assert refusals == 3  # 40, 20, 10; then 5
    encoder.encode(["a", *texts], "document")
    assert sum(len(request.texts) > 5 for request in server.requests) == refusals


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "This model's maximum context length is 20 tokens, however you requested 31"),
        (400, "Requested 31 tokens, max 20 tokens per request"),
        (422, "Validation: inputs must have less than 20 tokens: too long"),
        (413, "Payload Too Large"),
    ],
)
def test_requests_with_too_many_tokens_are_cut(
    server: Server,
    code: int,
    message: str,
) -> None:
    server.limits = lambda body: (code, message) if sum(map(len, body["input"])) > 60 else None
    texts = ["長" * 30 + str(n) for n in range(7)]
    encoder = opened(server)
    np.testing.assert_array_equal(encoder.encode(texts, "query"), vectors_of(texts))


def test_a_text_that_is_too_long_is_named(server: Server) -> None:
    long = "売上高" * 20
    server.limits = lambda body: (
        (400, "maximum context length is 59 tokens") if max(map(len, body["input"])) > 59 else None
    )
    encoder = opened(server)
    encoder.store = MemoryStore()
    expected = r"text '売上高.*'… of 60 characters too long \(maximum context.*--max-length"
    with pytest.raises(ModelError, match=expected):
        encoder.encode([*TEXTS, long], "query")
    cut = opened(server, max_length=59)
    np.testing.assert_array_equal(cut.encode([long], "query"), vectors_of([long[:59]]))
    assert cut.counts.truncated == 1


def test_a_refused_number_of_dimensions_is_no_size(server: Server) -> None:
    server.faults = [status(400, "dimensions must be less than or equal to max 1536 tokens")]
    with pytest.raises(ModelError, match=r"\(400\) refused 1 texts .*dimensions must be"):
        opened(server, dimensions=9).load()


def test_after_a_fault_what_is_under_way_is_kept(server: Server) -> None:
    encoder = opened(server, inputs=1, concurrency=4)
    encoder.store = store = MemoryStore()
    encoder.identify()
    server.faults = [status(400, "no"), late(0.4), late(0.4), late(0.4)]
    texts = [f"文{n:03}" for n in range(40)]
    with pytest.raises(JfintebError, match=r"\(400\)"):
        encoder.encode(texts, "query")
    assert len(server.requests) == 1 + 4  # nothing is sent after the fault
    known = ~store.missing(keys_of(encoder.spec, Role.QUERY, texts))
    assert known.sum() == 3
