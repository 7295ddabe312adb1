"""The API backend against a server whose vectors follow from the texts."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

import numpy as np
import pytest

from jfinteb.eval.backends.api.fingerprint import PROBE, distance, fingerprint
from jfinteb.eval.backends.base import EncoderOptions
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.store import MemoryStore
from jfinteb.loaders.errors import UnavailableError, UsageError
from jfinteb.loaders.task import Role

from .proxy import Server, changed, no_keys, opened, own_server, vectors_of  # noqa: F401

TEXTS = [f"第{n}四半期の売上高は{n * 7}億円" for n in range(50)]


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_vectors_come_back_in_order(server: Server, encoding: str, concurrency: int) -> None:
    encoder = opened(server, encoding_format=encoding, concurrency=concurrency, inputs=3)
    found = encoder.encode(TEXTS, "query")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors_of(TEXTS))
    assert {request.body["encoding_format"] for request in server.requests} == {encoding}


def test_a_text_as_query_and_as_document(server: Server) -> None:
    encoder = opened(server, prompts={"query": "query: ", "document": "passage: "})
    encoder.store = MemoryStore()
    query, document = encoder.encode(["円安"], "query"), encoder.encode(["円安"], "document")
    np.testing.assert_array_equal(query, vectors_of(["query: 円安"]))
    np.testing.assert_array_equal(document, vectors_of(["passage: 円安"]))


def test_one_side_without_prompt(server: Server) -> None:
    encoder = opened(server, prompts={"query": "Instruct: find\nQuery: "})
    assert np.array_equal(encoder.encode(["円安"], "document"), vectors_of(["円安"]))
    np.testing.assert_array_equal(
        encoder.encode(["円安"], "query"), vectors_of(["Instruct: find\nQuery: 円安"])
    )


def test_blank_texts_are_not_sent(server: Server) -> None:
    found = opened(server).encode(["", "円安", "　", "\n", "円安"], "query")
    assert server.asked == {PROBE: 1, "円安": 1}
    assert not found[[0, 2, 3]].any()
    np.testing.assert_array_equal(found[[1, 4]], vectors_of(["円安"] * 2))


def test_nothing_to_send(server: Server) -> None:
    assert opened(server).encode([], "query").shape == (0, 8)
    assert opened(server).encode(["", " "], "query").tolist() == [[0.0] * 8] * 2


def test_texts_go_as_they_are(server: Server) -> None:
    texts = ["<|endoftext|>", "ガス", "ガス", "a\u2028b", '"\\', "𠮷野家👨‍👩‍👧", "</s>"]
    np.testing.assert_array_equal(opened(server).encode(texts, "query"), vectors_of(texts))


def test_requests_keep_to_both_limits(server: Server) -> None:
    texts = ["x" * n + str(n) for n in (10, 200, 30, 31, 90, 1, 2, 3, 4, 5, 6)]
    opened(server, inputs=3, request_tokens=100).encode(texts, "query")
    sent = [request.texts for request in server.requests[1:]]
    assert sorted(itertools.chain(*sent)) == sorted(texts)
    assert max(map(len, sent)) == 3
    assert all(len(part) == 1 or sum(map(len, part)) <= 100 for part in sent)
    assert ["x" * 200 + "200"] in sent


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_at_once_than_asked(server: Server, concurrency: int) -> None:
    server.delay = 0.05
    opened(server, concurrency=concurrency, inputs=2).encode(TEXTS[:20], "query")
    assert server.most == concurrency


@pytest.mark.parametrize("given", [0, 4])
def test_dimensions_are_sent_only_when_asked(server: Server, given: int) -> None:
    found = opened(server, dimensions=given).encode(["円安"], "query")
    assert [request.body.get("dimensions", 0) for request in server.requests] == [given] * 2
    assert found.shape == (1, given or 8)


def test_a_server_that_ignores_dimensions(server: Server) -> None:
    server.faults = [changed(lambda answer: None)]
    server.answer = lambda body: Server.answer(server, {**body, "dimensions": 8})  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=r"asked for 4 dimensions and gave 8; .*--truncate-dim"):
        opened(server, dimensions=4).encode(["円安"], "query")


def test_truncate_dim_cuts_then_scales(server: Server) -> None:
    encoder = opened(server, truncate_dim=2, normalize=True)
    encoder.identify()
    three = [0.6, 0.0, 0.8] + [0.0] * 5
    server.faults = [changed(lambda answer: answer["data"][0].update(embedding=three))]
    np.testing.assert_allclose(encoder.encode(["円安"], "query"), [[1.0, 0.0]], atol=1e-7)
    assert all("dimensions" not in request.body for request in server.requests)


def test_more_dimensions_than_there_are(server: Server) -> None:
    with pytest.raises(UsageError, match="truncate-dim is 9, hash-8 has 8 dimensions"):
        opened(server, truncate_dim=9).load()


def test_routes_are_a_field_of_the_request(server: Server) -> None:
    encoder = opened(server, routes={"document": "passage"}, route_field="task")
    encoder.store = MemoryStore()
    encoder.encode(["円安"], "query")
    encoder.encode(["円安"], "document")
    assert [request.body.get("task") for request in server.requests] == [None, None, "passage"]


def test_opening_asks_nothing_and_identify_asks_once(server: Server) -> None:
    encoder = opened(server)
    assert encoder.spec.revision == "unknown"
    assert not server.requests
    encoder.identify()
    encoder.load()
    assert encoder.dimensions == 8
    assert [request.texts for request in server.requests] == [[PROBE]]


SAME = [{"concurrency": 2}, {"timeout": 5}, {"deadline": 50.0}, {"retries": 1}, {"price": 0.02}]
SAME += [{"inputs": 7}, {"request_tokens": 99}, {"batch_tokens": 99}, {"tokenizer": "chars:2"}]
OTHER = [{"dimensions": 4}, {"encoding_format": "base64"}, {"max_length": 99}]
OTHER += [
    {"model_name": "x"},
    {"max_length": 99, "tokenizer": "chars:2"},
    {"routes": {"query": "q"}},
]


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_does_not_change_a_vector_is_not_in_the_spec(change: Any) -> None:
    at = "http://localhost:1/v1"
    assert opened(at, **change).spec == opened(at).spec


def test_what_changes_a_vector_is_in_the_spec() -> None:
    at = "http://localhost:1/v1"
    specs = [opened(at, **change).spec for change in ({}, *OTHER)]
    specs += [opened("http://localhost:2/v1").spec, opened("http://localhost:1/other").spec]
    assert len({spec.vector_digest for spec in specs}) == len(specs)


def test_the_revision_tells_models_of_one_name_apart(server: Server) -> None:
    first = opened(server)
    first.identify()
    name, _, bits = first.spec.revision.rpartition("-")
    assert name == "hash-8"
    assert bits == fingerprint(vectors_of([PROBE])[0])
    original = Server.answer

    def other(body: Any) -> Any:
        return original(server, {**body, "input": [f"{text}!" for text in body["input"]]})

    server.answer = other  # type: ignore[method-assign]
    second = opened(server)
    second.identify()
    assert second.spec.revision != first.spec.revision
    with pytest.raises(UsageError, match=rf"another model than {first.spec.revision}"):
        opened(server, revision=first.spec.revision).identify()


def test_a_pinned_revision_bears_noise(server: Server) -> None:
    clean = opened(server)
    clean.identify()
    name, _, bits = clean.spec.revision.rpartition("-")
    near = f"{name}-{int(bits, 16) ^ 0b101:08x}"  # two bits off
    noisy = opened(server, revision=near)
    noisy.identify()
    assert noisy.spec.revision == near
    with pytest.raises(UsageError, match="NAME-xxxxxxxx"):
        opened(server, revision="main")


def test_fingerprints_hold_under_noise_and_differ_between_models() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 1536)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    # cosine 0.999999, the noise of a server on a graphics card
    noise = rng.normal(size=vectors.shape) * 0.0014 / np.sqrt(1536)
    prints = [fingerprint(v) for v in vectors]
    flips = [
        distance(a, fingerprint(b.astype(np.float32)))
        for a, b in zip(prints, vectors + noise, strict=True)
    ]
    assert max(flips) <= 2
    assert sum(flips) <= 10  # of 6,400 bits; 0.0014 / pi of them is 2.9
    apart = [distance(a, b) for a, b in itertools.pairwise(prints)]
    assert 14 < np.mean(apart) < 18  # half of 32
    assert min(apart) > 4


def test_another_model_midway(server: Server) -> None:
    encoder = opened(server)
    encoder.encode(["円安"], "query")
    server.model = "hash-9"
    with pytest.raises(ModelError, match="answers as 'hash-9' after 'hash-8'"):
        encoder.encode(["円高"], "query")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "no setting 'colour'"),
        ({"concurrency": "4"}, "concurrency is '4', expected a whole number"),
        ({"concurrency": 0}, "concurrency is 0, expected 1 to 64"),
        ({"concurrency": True}, "concurrency is True"),
        ({"inputs": -1}, "inputs is -1, expected 1 to 2,048"),
        ({"inputs": 2049}, "inputs is 2049, expected 1 to 2,048"),
        ({"request_tokens": 300_001}, "request_tokens is 300001, expected 1 to 300,000"),
        ({"deadline": float("nan")}, "deadline is nan"),
        ({"encoding_format": "int8"}, "expected float or base64"),
        ({"tokenizer": "no/such"}, "no tokenizer 'no/such'"),
        ({"tokenizer": "chars:x"}, "expected chars:N"),
        ({"base_url": "localhost:8000"}, "is not an address"),
        ({"base_url": "http://a/v1?key=1"}, "has a [?] or #"),
        ({"api_version": "1", "base_url": ""}, "give --base-url"),
        ({"azure_deployment": "x"}, "give --api-version"),
        ({"pooling": "mean"}, "no pooling; leave --pooling out"),
        ({"trust_remote_code": True}, "leave --trust-remote-code out"),
        ({"dtype": "bfloat16"}, "leave --dtype out"),
    ],
)
def test_options_that_do_not_fit(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        opened("http://localhost:1/v1", **options)


def test_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match=r"pip install 'jfinteb\[api\]'"):
        opened("http://localhost:1/v1")


def test_without_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(UnavailableError, match=r"pip install 'jfinteb\[api\]'"):
        opened("http://localhost:1/v1", tokenizer="tiktoken:cl100k_base")


def test_azure(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key-1234")
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key-1234")
    encoder = opened(
        server,
        model="my-model",
        base_url=server.url.removesuffix("/v1"),
        azure_deployment="small",
        api_version="2024-10-21",
    )
    np.testing.assert_array_equal(encoder.encode(["円安"], "query"), vectors_of(["円安"]))
    request = server.requests[-1]
    assert request.path == "/openai/deployments/small/embeddings?api-version=2024-10-21"
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["api-key"] == "azure-key-1234"
    assert encoder.spec.settings["azure_deployment"] == "small"
    assert encoder.spec.settings["api_version"] == "2024-10-21"


def authorization(server: Server) -> str:
    headers = {name.lower(): value for name, value in server.requests[-1].headers.items()}
    return headers["authorization"]


def test_a_key_goes_only_to_its_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key-1234")
    opened(server).identify()
    assert "openai-key" not in json.dumps([r.headers for r in server.requests])
    monkeypatch.setenv("JFINTEB_API_KEY", "own-key-1234")
    opened(server).identify()
    assert authorization(server) == "Bearer own-key-1234"
    monkeypatch.delenv("JFINTEB_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    opened(server, base_url="").identify()
    assert authorization(server) == "Bearer openai-key-1234"


def test_user_and_password_of_an_address(server: Server) -> None:
    at = server.url.replace("http://", "http://us%40er:pa%3Ass@")
    encoder = opened(at)
    encoder.identify()
    assert authorization(server) == "Basic dXNAZXI6cGE6c3M="  # us@er:pa:ss
    assert encoder.spec == opened(server, revision=encoder.spec.revision).spec
    assert "pa:ss" not in repr(encoder._access)


def test_openai_without_a_key() -> None:
    encoder = opened("", model="text-embedding-3-small", tokenizer="chars:1")
    assert encoder.spec.model == "openai/text-embedding-3-small"
    assert encoder.spec.settings["server"] == "api.openai.com/v1"
    with pytest.raises(UsageError, match="needs a key; set JFINTEB_API_KEY or OPENAI_API_KEY"):
        encoder.load()


@pytest.mark.parametrize("name", ["text-embedding-3-small", "openai/text-embedding-3-small"])
def test_names_of_openai(name: str) -> None:
    encoder = opened("", model=name, tokenizer="chars:1")
    assert encoder.spec.model == "openai/text-embedding-3-small"
    assert encoder._asked == "text-embedding-3-small"


def test_a_server_with_a_name_of_its_own(server: Server) -> None:
    encoder = opened(server, model="cl-nagoya/ruri-v3-30m", model_name="ruri")
    encoder.identify()
    assert server.requests[0].body["model"] == "ruri"
    assert encoder.spec.model == "cl-nagoya/ruri-v3-30m"
    assert encoder.spec.settings["model_name"] == "ruri"
    folder = opened(server, model="/srv/models/ruri-v3-30m/")
    assert folder.spec.model == "ruri-v3-30m"  # a result does not tell where a folder lies


def test_a_gateway_gets_the_name_as_it_is(server: Server) -> None:
    opened(server, model="openai/text-embedding-3-small", tokenizer="chars:1").identify()
    assert server.requests[0].body["model"] == "openai/text-embedding-3-small"


def test_estimate_before_and_usage_after(server: Server) -> None:
    encoder = opened(server, price=20_000.0, prompts={"query": "q: "}, inputs=2)
    encoder.store = MemoryStore()
    before = encoder.estimate(["円安", "円安", "", "ユーロ高"], Role.QUERY)
    assert (before.texts, before.tokens, before.cost) == (2, 5 + 7, 12 * 0.02)
    assert str(before) == "about 12 tokens in 2 texts to send, 0.2400 at 20000 a million"
    assert not server.requests
    assert encoder.totals() == []
    encoder.identify()
    probe = len(PROBE)
    encoder.encode(["円安", "円安", "", "ユーロ高"], "query")
    assert (encoder.usage.requests, encoder.usage.texts) == (2, 3)
    assert encoder.usage.counted == encoder.usage.reported == 12 + probe
    assert encoder.usage.cost == pytest.approx((12 + probe) * 0.02)
    assert encoder.totals() == [str(encoder.usage)]
    assert encoder.estimate(["円安", "ドル高"], Role.QUERY).texts == 1  # the other one is kept


def test_a_server_that_reports_no_usage(server: Server) -> None:
    server.usage = False
    encoder = opened(server, price=1e6)
    encoder.encode(["円安"], "query")
    assert encoder.usage.silent == 2
    assert encoder.usage.cost == len(PROBE) + 2
    assert "none reported" in str(encoder.usage)


def test_inside_a_running_loop(server: Server) -> None:
    async def cell() -> Any:
        return opened(server).encode(TEXTS[:5], "query")

    np.testing.assert_array_equal(asyncio.run(cell()), vectors_of(TEXTS[:5]))


def test_half_a_character_is_refused_before_anything_is_paid(server: Server) -> None:
    with pytest.raises(ModelError, match="lone surrogate"):
        opened(server).encode(["円安", "円\ud800"], "query")
    assert server.asked == {PROBE: 1}


@pytest.mark.parametrize(("at", "inputs", "timeout"), [("", 256, 120), ("http://h/v1", 32, 600)])
def test_what_is_usual_at_a_server(at: str, inputs: int, timeout: int) -> None:
    encoder = opened(at, tokenizer="chars:1")
    assert (encoder._settings.inputs, encoder._settings.timeout) == (inputs, timeout)
    own = opened(at, tokenizer="chars:1", inputs=3, timeout=7)
    assert (own._settings.inputs, own._settings.timeout) == (3, 7)
    assert own._settings.deadline == encoder._settings.deadline


def test_options_are_those_of_all_backends(server: Server) -> None:
    options = EncoderOptions(model="m", backend="api", settings={"base_url": server.url})
    from jfinteb.eval.backends import open_encoder

    assert open_encoder(options).encode(["円安"], "query").shape == (1, 8)
