"""Batches side by side on a CPU: one thread each, so that no core waits for another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Generic, TypeVar

import torch

__all__ = ["Lanes", "lane_count", "lanes_of"]

N = TypeVar("N")
T = TypeVar("T")
W = TypeVar("W")

_MOST = 16  # every one has activations of its own, and Python lets one at a time through
_ROOM = 1 << 27  # cost of the pieces of work that are under way


def lane_count(device: torch.device) -> int:
    """Batches that are computed at once on a device.

    On a CPU as many as there are threads; beyond 16 two or more threads share one. Elsewhere one;
    also where torch was built with threads that are not OpenMP's, whose number is the process's.
    """
    own = "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
    if device.type != "cpu" or not own:
        return 1
    return lanes_of(torch.get_num_threads())


def lanes_of(threads: int) -> int:
    """Lanes that so many threads make: 16 at most, of equally many threads each."""
    return threads // -(-threads // _MOST)


class Lanes(Generic[N]):
    """Networks that compute a piece of work each at the same time and share the CPU's threads.

    What a piece gives does not depend on how many there are, as long as each has one thread. With a
    single network the caller's own thread computes.

    Args:
        networks: equal ones, that share no state that computing changes.
    """

    def __init__(self, networks: Sequence[N]) -> None:
        self.count = len(networks)
        self._free: SimpleQueue[N] = SimpleQueue()
        for network in networks:
            self._free.put(network)
        self._pool = None if self.count == 1 else _threads_of(self.count)

    def __call__(
        self,
        work: Iterable[W],
        compute: Callable[[N, W], T],
        cost: Callable[[W], float] = lambda piece: 0.0,
    ) -> Iterator[tuple[W, T]]:
        """Each piece of work with what `compute` gives for it, in order.

        Args:
            work: taken as it is needed, up to two pieces a lane ahead.
            compute: called with a network and a piece.
            cost: of a piece in memory, as tokens squared; pieces whose sum is more than 2^27 (two
                texts of 8,192 tokens) are not under way together.
        """
        if self._pool is None:
            for piece in work:
                yield piece, self._run(compute, piece)
            return
        waiting: deque[tuple[W, Future[T]]] = deque()
        try:
            for piece in work:
                while waiting and (
                    len(waiting) >= 2 * self.count
                    or sum(cost(each) for each, _ in waiting) + cost(piece) > _ROOM
                ):
                    yield _first(waiting)
                waiting.append((piece, self._pool.submit(self._run, compute, piece)))
            while waiting:
                yield _first(waiting)
        finally:
            for _, future in waiting:
                future.cancel()

    def close(self) -> None:
        """Let go of the threads, when they are done with what they are at."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _run(self, compute: Callable[[N, W], T], piece: W) -> T:
        network = self._free.get()
        try:
            return compute(network, piece)
        finally:
            self._free.put(network)


def _first(waiting: deque[tuple[W, Future[T]]]) -> tuple[W, T]:
    piece, future = waiting.popleft()
    return piece, future.result()


def _threads_of(count: int) -> ThreadPoolExecutor:
    """Threads that share those of torch equally.

    The number is a thread's own, but setting it also changes what threads to come begin with; so
    all are started here, and then the caller's number is set again.
    """
    before = torch.get_num_threads()
    started = threading.Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # what a thread begins with is settled at its first call
        torch.set_num_threads(max(1, before // count))
        started.wait()

    pool = ThreadPoolExecutor(count, "jfinteb-lane", begin)
    try:
        for _ in range(count):
            pool.submit(int)
        started.wait()
    except BaseException:
        started.abort()  # else those that wait already would wait for ever
        raise
    finally:
        torch.set_num_threads(before)
    return pool
