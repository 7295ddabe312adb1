"""The most memory that was in use while something ran."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Peak"]


class Peak:
    """Samples a number of bytes in a thread and keeps the largest in `bytes`.

    Args:
        now: bytes in use at this moment.
        seconds: between two samples.
    """

    def __init__(self, now: Callable[[], int], seconds: float) -> None:
        self.bytes = 0
        self._now = now
        self._seconds = seconds

    def __enter__(self) -> Peak:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(self._seconds):
            self.bytes = max(self.bytes, self._now())
