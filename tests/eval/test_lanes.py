"""Batches side by side: order, limits, faults, and networks that keep state."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from jfinteb.eval.backends.lanes import Lanes, lane_count
from jfinteb.eval.backends.weights import stop_by, twins
from jfinteb.eval.store import MemoryStore

from .conftest import OpenTiny

CPU = torch.device("cpu")


@pytest.fixture
def threads() -> Iterator[Any]:
    """Sets torch's number of threads until the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_results_come_in_order_and_work_is_not_taken_far_ahead() -> None:
    lanes, taken = Lanes(["a", "b"]), []

    def work() -> Iterator[int]:
        for piece in range(12):
            taken.append(piece)
            yield piece

    def compute(network: str, piece: int) -> int:
        time.sleep(0.02 if piece % 2 else 0.0)  # odd ones end later than those after them
        return piece * piece

    seen = []
    for piece, result in lanes(work(), compute):
        assert result == piece * piece
        seen.append(piece)
        assert len(taken) - len(seen) <= 4
    assert seen == list(range(12))
    lanes.close()


def test_networks_compute_at_once_and_each_one_batch_at_a_time() -> None:
    both, busy, seen = threading.Barrier(2, timeout=30), set(), set()

    def compute(network: str, piece: int) -> None:
        assert network not in busy
        busy.add(network)
        both.wait()  # passes only with two of them in here
        seen.add(network)
        busy.remove(network)

    lanes = Lanes(["a", "b"])
    assert len(list(lanes(range(8), compute))) == 8
    assert seen == {"a", "b"}
    lanes.close()


def test_a_fault_ends_the_work_where_it_stands_and_the_lanes_go_on() -> None:
    lanes, begun = Lanes(["a", "b"]), []

    def compute(network: str, piece: int) -> int:
        begun.append(piece)
        if piece == 2:
            raise ValueError("two")
        return piece

    found = lanes(range(1000), compute)
    assert [next(found), next(found)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="two"):
        next(found)
    assert max(begun) <= 6
    assert list(lanes([7, 8], compute)) == [(7, 7), (8, 8)]
    lanes.close()


def test_threads_are_shared_out_and_those_of_the_caller_stay(threads: Any) -> None:
    threads(4)
    assert lane_count(CPU) == 4
    lanes = Lanes(["a", "b"])
    assert [n for _, n in lanes(range(4), lambda *_: torch.get_num_threads())] == [2] * 4
    assert torch.get_num_threads() == 4
    with ThreadPoolExecutor(1) as later:  # what it begins with is the process's number
        assert later.submit(torch.get_num_threads).result() == 4
    lanes.close()


@pytest.mark.parametrize(("number", "expected"), [(1, 1), (3, 3), (16, 16), (24, 12), (64, 16)])
def test_there_are_as_many_lanes_as_threads_and_not_too_many(
    threads: Any, number: int, expected: int
) -> None:
    threads(number)
    assert lane_count(CPU) == expected
    assert lane_count(torch.device("meta")) == 1


def test_lanes_are_one_where_threads_are_the_whole_process_s(
    monkeypatch: pytest.MonkeyPatch, threads: Any
) -> None:
    threads(4)
    told = torch.__config__.parallel_info()
    other = told.replace(
        "ATen parallel backend: OpenMP", "ATen parallel backend: native thread pool"
    )
    assert other != told
    monkeypatch.setattr(torch.__config__, "parallel_info", lambda: other)
    assert lane_count(CPU) == 1


def test_what_takes_much_memory_is_not_under_way_together() -> None:
    lanes, under_way, most = Lanes(["a", "b", "c"]), [], []

    def compute(network: str, piece: int) -> int:
        under_way.append(piece)
        time.sleep(0.01)
        most.append(sum(under_way))
        under_way.remove(piece)
        return piece

    texts = [8192**2] * 4 + [4096**2] * 8 + [10**9] * 2  # one that is too large runs alone
    assert [found for _, found in lanes(texts, compute, float)] == texts
    assert max(m for m in most if m < 10**9) <= 2 * 8192**2
    assert max(most) == 10**9
    lanes.close()


MEETING = threading.Barrier(2, timeout=30)


class Forgetful(torch.nn.Module):
    """Keeps its input while it waits for the other thread, as caches of networks do."""

    def __init__(self, held: object = None) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(2, 2)
        self.register_buffer("table", torch.zeros(3))
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = x
        self.table += x.sum()
        MEETING.wait()
        return self.seen


def test_networks_side_by_side_share_weights_and_no_state() -> None:
    network = Forgetful()
    one, other = twins(network, 2)
    assert one is network and isinstance(other, Forgetful)
    assert other.weight.weight is network.weight.weight
    assert other.table.data_ptr() != network.table.data_ptr()
    lanes = Lanes([one, other])
    with torch.no_grad():
        given = [torch.full((1,), float(i)) for i in range(6)]
        found = [y for _, y in lanes(given, lambda net, x: net(x))]
    assert torch.equal(torch.cat(found), torch.cat(given))
    lanes.close()


class Single:
    """Cannot be copied, for a reason of its own."""

    def __deepcopy__(self, memo: object) -> object:
        raise ValueError("there can be only one")


def test_a_network_that_cannot_be_copied_computes_alone() -> None:
    for held in (threading.Lock(), Single()):
        network = Forgetful(held)
        assert twins(network, 3) == [network]
    network = Forgetful()
    network.weight.forward = lambda x: x  # bound to what it was put into, or to nothing
    assert twins(network, 3) == [network]


def test_large_buffers_are_not_copied_for_every_thread() -> None:
    network = Forgetful()
    network.register_buffer("bias", torch.empty(25_000_000, device="meta"))  # 100 MB
    assert len(twins(network, 8)) == 3


def test_a_batch_is_given_up_at_its_next_layer() -> None:
    class Slow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Identity() for _ in range(100))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                time.sleep(0.1)
                x = layer(x)
            return x

    stopped, network = threading.Event(), Slow()
    stop_by(network, stopped)
    lanes = Lanes(twins(network, 2))
    found = lanes([torch.ones(1)] * 4, lambda net, x: net(x))
    threading.Timer(0.3, stopped.set).start()
    start = time.monotonic()
    with pytest.raises(RuntimeError):
        next(found)
    lanes.close()
    assert time.monotonic() - start < 5  # ten seconds for the batch


@pytest.fixture(scope="module")
def wide(tiny: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose matrix products differ in their last bits when two threads share one."""
    folder = tmp_path_factory.mktemp("wide")
    config = AutoConfig.from_pretrained(tiny["bert"])
    config.update({"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6})
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny["bert"]).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("backend", ["transformers", "openvino"])
def test_a_vector_has_the_same_bits_on_any_number_of_threads(
    backend: str, wide: Path, open_tiny: OpenTiny, sentences: list[str], threads: Any
) -> None:
    if backend == "openvino":
        pytest.importorskip("openvino")
    found = []
    for number in (1, 2, 3):
        threads(number)
        encoder: Any = open_tiny(wide, backend=backend)
        found.append(encoder.encode(sentences, "query"))
        assert encoder._lanes.count == number
        encoder.close()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def rows_go_alone() -> bool:
    """Whether rows of a product have the same bits however many there are, from 64 on."""
    left, right = torch.randn(512, 384), torch.randn(1536, 384)
    whole = torch.nn.functional.linear(left, right)
    return all(
        torch.equal(torch.nn.functional.linear(left[:n], right), whole[:n])
        for n in (64, 65, 100, 256)
    )


@pytest.mark.parametrize("pooling", ["mean", "cls+max+weighted_mean+mean_sqrt_len"])
def test_a_vector_has_the_same_bits_whatever_it_is_encoded_with(
    pooling: str, wide: Path, open_tiny: OpenTiny, sentences: list[str], threads: Any
) -> None:
    threads(1)
    if not rows_go_alone():
        pytest.skip("products of this machine depend on how many rows they have")
    threads(2)
    plain = open_tiny(wide, pooling=pooling).encode(sentences, "query")
    for budget in (1, 100, 20_000):
        found = open_tiny(wide, pooling=pooling, batch_tokens=budget).encode(sentences, "query")
        assert np.array_equal(found, plain)
    alone = open_tiny(wide, pooling=pooling)
    for row in range(0, len(sentences), 5):
        assert np.array_equal(alone.encode([sentences[row]], "query")[0], plain[row])


def test_what_was_kept_when_a_run_was_stopped_is_whole(
    wide: Path, open_tiny: OpenTiny, sentences: list[str], threads: Any
) -> None:
    """Stopped in the middle of several batches at once, by a store that is full."""
    threads(3)
    plain = open_tiny(wide).encode(sentences, "query")

    class Full(MemoryStore):
        def put(self, keys: Any, embedded: Any) -> None:
            if len(self._rows) > 5:
                raise OSError("no space left")
            super().put(keys, embedded)

    full = Full()
    encoder: Any = open_tiny(wide)
    encoder.store = full
    with pytest.raises(OSError, match="no space left"):
        encoder.encode(sentences, "query")
    encoder.close()
    encoder.store = MemoryStore()
    encoder.store._rows = full._rows
    assert np.array_equal(encoder.encode(sentences, "query"), plain)
    assert 0 < encoder.counts.cached < len(sentences)
    encoder.close()
