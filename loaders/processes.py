"""Worker processes, which neither outlive this one nor answer to its keyboard."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

__all__ = ["CONTEXT", "cores", "process_pool"]

# threads of torch and of tokenizers do not survive a fork
CONTEXT = multiprocessing.get_context("spawn")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def process_pool(
    processes: int, begin: Callable[..., object] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """A pool of spawned processes.

    Args:
        processes: how many.
        begin: called in each of them before anything else.
        *arguments: of `begin`.
    """
    return ProcessPoolExecutor(processes, CONTEXT, _begin, (begin, *arguments))


def _begin(begin: Callable[..., object] | None, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and decides
    threading.Thread(target=_follow, daemon=True).start()
    if begin is not None:
        begin(*arguments)


def _follow() -> None:
    """End with the parent, which, when killed, cannot tell its workers that there is no more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
