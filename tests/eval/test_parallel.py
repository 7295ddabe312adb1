"""Several processes give what one gives, in order, and say when one of them dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from jfinteb.eval.backends import EncoderOptions, TextEncoder, open_encoder
from jfinteb.eval.backends.parallel import ParallelEncoder
from jfinteb.eval.cli import main
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.store import MemoryStore
from jfinteb.loaders.errors import UsageError

from .conftest import OpenTiny


@pytest.fixture(scope="module")
def both(open_tiny: OpenTiny) -> tuple[TextEncoder, TextEncoder]:
    """One process and two, of one model."""
    several = open_tiny("bert", workers=2, batch_tokens=64)
    assert isinstance(several, ParallelEncoder)
    return open_tiny("bert", batch_tokens=64), several


@pytest.mark.parametrize("n", [0, 1, 2, 7, 32])
def test_vectors_in_order_whatever_the_number_of_texts(
    n: int, both: tuple[TextEncoder, TextEncoder], sentences: list[str]
) -> None:
    one, two = both
    texts = [*sentences[:n], "", *sentences[:1]]
    vectors = two.encode(texts, "query")
    assert vectors.shape == (n + 2, 32)
    assert np.abs(vectors - one.encode(texts, "query")).max() < 1e-6
    assert two.counts == one.counts
    assert two.spec == one.spec and two.environment == one.environment


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_processes_on_a_cpu_share_its_cores(
    device: str, open_tiny: OpenTiny, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the CPU is only what `auto` comes to; each computes several batches at once."""
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("auto is not the CPU here")
    monkeypatch.setattr("jfinteb.eval.backends.parallel.cores", lambda: 6)
    encoder = open_tiny("bert", workers=2, device=device, batch_tokens=64)
    assert isinstance(encoder, ParallelEncoder)
    assert encoder._threads() == 3 and not encoder.leaves_cores
    vectors = encoder.encode(sentences, "query")
    encoder.close()
    plain = open_tiny("bert", batch_tokens=64).encode(sentences, "query")
    assert np.array_equal(vectors, plain)  # one thread a batch, here and there


def test_only_what_is_missing_goes_to_the_processes(
    both: tuple[TextEncoder, TextEncoder], sentences: list[str]
) -> None:
    one, two = both
    store = MemoryStore()
    one.store, two.store = store, store
    first = one.encode(sentences[:20], "query")
    cached = two.counts.cached
    again = two.encode(sentences, "query")
    assert np.array_equal(again[:20], first)
    assert two.counts.cached == cached + 20
    one.store = two.store = None


def test_a_killed_process_is_one_line(open_tiny: OpenTiny, sentences: list[str]) -> None:
    encoder = open_tiny("bert", workers=2, batch_tokens=64)
    assert isinstance(encoder, ParallelEncoder)
    encoder.load()
    assert encoder._pool is not None
    os.kill(next(iter(encoder._pool._processes)), signal.SIGKILL)
    with pytest.raises(ModelError, match="an encoding process ended by itself") as caught:
        encoder.encode(sentences * 3, "query")
    assert "\n" not in str(caught.value)
    encoder.close()


def test_a_device_that_is_not_there_is_told_before_the_first_text(tiny: dict[str, Path]) -> None:
    def opened(device: str) -> TextEncoder:
        return open_encoder(EncoderOptions(model=str(tiny["bert"]), device=device))

    with pytest.raises(UsageError, match="device 'cuda:99' is not usable here"):
        opened("cuda:99,cpu")
    encoder = opened("cpu,cuda:99")
    with pytest.raises(ModelError, match="device 'cuda:99' is not usable here"):
        encoder.load()
    encoder.close()


def test_a_run_with_two_workers(
    tiny: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--model", str(tiny["bert"]), "--suite", "sample", "--tasks", "pfmt"]
    assert main([*run, "--output", str(tmp_path), "--workers", "2", "--device", "cpu"]) == 0
    assert "encoded by 2 processes (cpu, cpu)" in capsys.readouterr().out
