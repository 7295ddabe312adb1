"""JSON Lines, plain or packed. What is packed is read within bounds: it may be a bomb."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from jfinteb.loaders.errors import DataError
from jfinteb.loaders.task import Task

__all__ = ["SUFFIXES", "json_lines", "unpacked_sha256"]

_OPENERS: Mapping[str, Callable[..., IO[Any]]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}
SUFFIXES = tuple(_OPENERS)
_LONGEST = 16 * 2**20  # characters of a line; those of real rows have some thousands
_MOST = 2**27  # characters of a file; the largest real one has 54 million
_TIMES, _FREE = 40, 2**26  # real files unpack to ten times their size; small ones may differ
_PIECE = 2**20


def json_lines(path: Path, task: Task | str, *keys: str) -> Iterator[dict[str, Any]]:
    """Objects of a JSON Lines file, each with all of `keys`.

    Raises:
        DataError: a line that is not a JSON object in UTF-8, or lacks a key; a file that unpacks to
            far more than rows would.
    """
    name = task if isinstance(task, str) else task.name
    most, read = _most(path), 0
    with _opened(path, name, "rt", encoding="utf-8") as stream:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST), ""), start=1):
            read += len(line)
            if len(line) == _LONGEST or read > most:
                raise DataError(
                    f"{name}: {path.name} line {number} goes beyond "
                    f"{_LONGEST if read <= most else most:,} characters, which no real file does; "
                    "get it again"
                )
            row = json.loads(line)
            lacking = [k for k in keys if not isinstance(row, dict) or k not in row]
            if lacking:
                raise DataError(
                    f"{name}: {path.name} line {number} has no {lacking[0]!r}, "
                    f"expected an object with {', '.join(keys)}"
                )
            yield row
        if read == 0:
            raise DataError(f"{name}: {path.name} is empty, expected rows; get it again")


def unpacked_sha256(path: Path, name: str) -> str:
    """SHA-256 of what a file holds, the same for a file and for its packed copies.

    Raises:
        DataError: as `json_lines`; `name` is the task's, for the message.
    """
    digest, most, read = hashlib.sha256(), _most(path), 0
    with _opened(path, name, "rb") as stream:
        while block := stream.read(_PIECE):
            digest.update(block)
            read += len(block)
            if read > 4 * most:  # bytes of a character
                raise DataError(f"{name}: {path.name} unpacks to more than {read:,} bytes")
    return digest.hexdigest()


def _most(path: Path) -> int:
    """Characters that a file may hold."""
    return min(_MOST, max(_FREE, _TIMES * path.stat().st_size))


@contextmanager
def _opened(path: Path, name: str, mode: str, **options: str) -> Iterator[IO[Any]]:
    with _OPENERS.get(path.suffix, open)(path, mode, **options) as stream:
        try:
            yield stream
        except (
            ValueError,
            EOFError,
            RecursionError,  # JSON nested too deep
            lzma.LZMAError,
            gzip.BadGzipFile,
            zlib.error,
        ) as error:
            raise DataError(f"{name}: {path.name} is not JSON Lines in UTF-8: {error}") from error
