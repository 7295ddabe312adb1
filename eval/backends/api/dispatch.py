"""Requests under way: several at once, none after a fault, nothing paid lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

import numpy as np
import numpy.typing as npt

from jfinteb.eval.backends.api.answer import Answer
from jfinteb.eval.backends.api.refusal import TooLargeError
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError

__all__ = ["Dispatch"]

_DRAIN = 10.0  # seconds for requests under way, which are paid, once the run must stop
_TICK = 0.5  # seconds between looks for an interrupt, which not every system delivers to a wait

Rows = npt.NDArray[np.intp]


class Dispatch:
    """Sends requests and hands on each answer as it comes.

    Args:
        concurrency: requests under way at most.
        inputs: texts a request at most; falls where the server says that it takes fewer.
    """

    def __init__(self, concurrency: int, inputs: int) -> None:
        self.inputs = inputs
        self._concurrency = concurrency
        self._queue: deque[Rows] = deque()
        self._until = float("inf")

    def stop(self) -> None:
        """Send nothing more; what is under way is waited for, 10 seconds at most."""
        self._queue.clear()
        self._until = min(self._until, time.monotonic() + _DRAIN)

    def run(
        self,
        submit: Callable[[Sequence[str]], Future[Answer]],
        texts: Sequence[str],
        units: Iterable[Rows],
        check: Callable[[Answer], None],
    ) -> Iterator[tuple[Rows, Answer]]:
        """Ask for units of texts.

        A request that the server finds too large is cut in halves. After an interrupt or a fault
        nothing more is sent, and what is under way is handed on before the error goes up; a second
        interrupt does not wait.

        Args:
            submit: sends a request.
            texts: all of them.
            units: rows of `texts`, one request each.
            check: raises a JfintebError for an answer that cannot be used.

        Yields:
            Rows and their answer; a unit that was cut comes in parts.
        """
        self._queue, self._until = deque(units), float("inf")
        waiting: dict[Future[Answer], Rows] = {}
        fault: BaseException | None = None
        while (self._queue or waiting) and time.monotonic() < self._until:
            try:
                self._fill(waiting, submit, texts)
                finished = wait(waiting, _TICK, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt as interrupt:
                if isinstance(fault, KeyboardInterrupt):
                    raise
                fault, finished = interrupt, set()
                self.stop()
            for future in finished:
                unit = waiting.pop(future)
                try:
                    answer = future.result()
                    check(answer)
                except TooLargeError as error:
                    if len(unit) == 1:
                        fault = fault or too_long(error, texts[int(unit[0])])
                        self.stop()
                    elif fault is None:
                        self._halve(unit, of_batch=error.batch)
                except JfintebError as error:
                    fault = fault or error
                    self.stop()
                else:
                    yield unit, answer
        if fault is not None:
            raise fault

    def _fill(
        self,
        waiting: dict[Future[Answer], Rows],
        submit: Callable[[Sequence[str]], Future[Answer]],
        texts: Sequence[str],
    ) -> None:
        while self._queue and len(waiting) < self._concurrency:
            unit = self._queue.popleft()
            if len(unit) > self.inputs:
                self._queue.extendleft((unit[self.inputs :], unit[: self.inputs]))
            else:
                waiting[submit([texts[row] for row in unit.tolist()])] = unit

    def _halve(self, unit: Rows, *, of_batch: bool) -> None:
        """Two smaller requests; where the server takes fewer texts, all later ones are smaller."""
        middle = (len(unit) + 1) // 2
        self._queue.extendleft((unit[middle:], unit[:middle]))
        if of_batch:
            self.inputs = min(self.inputs, middle)


def too_long(error: TooLargeError, text: str) -> ModelError:
    """What a user can do about one text that the server refuses."""
    shown = repr(text[:30]) + ("…" if len(text) > 30 else "")
    said = f" ({error.said})" if error.said else ""
    return ModelError(
        f"the server finds the text {shown} of {len(text):,} characters too long{said}; give "
        "--max-length, and the tokenizer that it is to be cut with"
    )
