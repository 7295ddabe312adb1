"""One model on several devices of a machine, or in several processes of its CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from jfinteb.eval.backends.base import Embedded, EncoderOptions, Flags, Rows, TextEncoder
from jfinteb.eval.backends.lanes import lanes_of
from jfinteb.eval.backends.transformers import TransformersEncoder, device_of
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.errors import JfintebError
from jfinteb.loaders.processes import CONTEXT, cores, process_pool
from jfinteb.loaders.task import Role

__all__ = ["ParallelEncoder"]

_AHEAD = 2  # pieces of work a worker, so that none idles


class ParallelEncoder(TextEncoder):
    """Batches of one transformers model, formed here, go to a process a device.

    Each process opens the model by itself. Batches are those of a single process, and several are
    computed at once where a process has several threads of a CPU.

    Args:
        options: of the model; `device` is what a single process would use.
        devices: of the processes; equal ones share the cores.
    """

    def __init__(self, options: EncoderOptions, devices: Sequence[str]) -> None:
        self._options = options
        self._whole = TransformersEncoder(replace(options, device=devices[0]))
        self._devices = [device_of(d).type if d == "auto" else d for d in devices]
        super().__init__(self._whole.spec)
        self.leaves_cores = "cpu" not in self._devices
        self.notes = [
            *self._whole.notes,
            f"encoded by {len(devices)} processes ({', '.join(self._devices)})",
        ]
        self._pool: ProcessPoolExecutor | None = None

    @property
    def dimensions(self) -> int:
        """Those of the model."""
        return self._whole.dimensions

    @property
    def adds_end(self) -> bool:
        """See `TransformersEncoder.adds_end`."""
        return self._whole.adds_end

    @property
    def environment(self) -> dict[str, str]:
        """As of a single process: how many there were changes no vector."""
        return self._whole.environment

    def keep_in(self, folder: Path | None) -> None:
        """See `TransformersEncoder.keep_in`."""
        self._whole.keep_in(folder)

    def check_files(self) -> None:
        """See `TransformersEncoder.check_files`."""
        self._whole.check_files()

    def load(self) -> None:
        """Start the processes and let each read the weights.

        Raises:
            ModelError: one of them cannot.
        """
        if self._pool is not None:
            return
        places, all_open = CONTEXT.Queue(), CONTEXT.Barrier(len(self._devices))
        for device in self._devices:
            places.put(device)
        self._pool = process_pool(
            len(self._devices),
            _open,
            self._options,
            places,
            self._threads(),
            all_open,
            self._whole.kept,
        )
        for notes in self._results([self._pool.submit(_ready) for _ in self._devices]):
            self.notes += [note for note in notes if note not in self.notes]
        try:
            self._whole.check_files()  # as the processes have found them too, then
        except ModelError:
            self.close()
            raise

    def stream(
        self, strings: Sequence[str], missing: Flags, role: Role
    ) -> Iterator[tuple[Rows, Embedded]]:
        """Tokenize here to form batches, then have them encoded, in whatever order they end."""
        self.load()
        assert self._pool is not None
        lengths = self._whole.lengths(strings, role)
        todo = self._whole.units(lengths, strings, missing)
        at_once = lanes_of(self._threads() or 1)
        size = 4 * at_once if at_once > 1 else 1  # batches of which a worker computes some at once
        waiting: dict[Future[list[Embedded]], list[Rows]] = {}
        try:
            while True:
                while len(waiting) < len(self._devices) * _AHEAD:
                    piece = list(islice(todo, size))
                    if not piece:
                        break
                    texts = [[strings[row] for row in rows.tolist()] for rows in piece]
                    waiting[self._pool.submit(_encode, texts, role)] = piece
                if not waiting:
                    return
                for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield from zip(waiting.pop(done), self._results([done])[0], strict=True)
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _threads(self) -> int | None:
        """Threads a process; None where the CPU does not do the work."""
        on_cpu = self._devices.count("cpu")
        return max(1, cores() // on_cpu) if on_cpu else None

    def _results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise ModelError(
                f"{self.spec.model}: an encoding process ended by itself, perhaps for lack of "
                "memory; what it had finished is kept, run again with fewer --workers"
            ) from error


_encoder: TransformersEncoder | None = None
_fault: JfintebError | None = None
_all_open: Any = None


def _open(
    options: EncoderOptions, places: Any, threads: int | None, all_open: Any, kept: Path | None
) -> None:
    """Open the model in a new process; a fault is told by `_ready`, since a pool hides it here."""
    global _encoder, _fault, _all_open
    import torch

    _all_open = all_open
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        _encoder = TransformersEncoder(replace(options, device=places.get()))
        _encoder.keep_in(kept)
        _encoder.load()
    except JfintebError as error:
        _fault = error


def _ready() -> list[str]:
    """What there is to say of the model; waits, so that each process is asked once."""
    _all_open.wait()
    return _sound().notes


def _sound() -> TransformersEncoder:
    if _fault is not None:
        raise ModelError(str(_fault))
    assert _encoder is not None
    return _encoder


def _encode(groups: Sequence[Sequence[str]], role: Role) -> list[Embedded]:
    """Some batches, in a worker."""
    return _sound().batches(groups, role)
