"""The file of a cache: its layout, and what can be told of it without a model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from jfinteb.eval.encoder import EncoderSpec
from jfinteb.eval.exports import clear_exports, exports_in
from jfinteb.loaders.errors import DataError, UsageError

__all__ = [
    "ROW",
    "CachedSpec",
    "Row",
    "checksum",
    "clear",
    "connect",
    "describe",
    "describe_folder",
    "error_name",
    "file_stem",
    "is_damage",
    "is_sound",
]

_APPLICATION = 0x4A464331  # "JFC1" in the file's header: ours, and of this layout
_MEMORY = re.compile(r"[0-9a-f]{32}\.json")
_NAME = re.compile(r"(?P<model>.+)-[0-9a-f]{8}\.(?P<kind>sqlite|damaged-\d+)")
_PATIENCE = 60.0  # seconds to wait for another process's batch
_SCHEMA = """
CREATE TABLE specs (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    environment TEXT NOT NULL,
    made TEXT NOT NULL
);
CREATE TABLE vectors (
    spec INTEGER NOT NULL,
    key BLOB NOT NULL,
    tokens INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    vector BLOB NOT NULL,
    checksum BLOB NOT NULL
);
CREATE UNIQUE INDEX vectors_by_key ON vectors (spec, key);
"""

ROW = "key, tokens, truncated, vector, checksum"
Row: TypeAlias = tuple[bytes, int, int, bytes, bytes]


def file_stem(spec: EncoderSpec) -> str:
    """Name of a model's file; models that differ in name alone by odd characters stay two."""
    mark = hashlib.sha256(f"{spec.backend} {spec.model}".encode()).hexdigest()[:8]
    return f"{_plain(spec.model)}-{mark}"


def _plain(model: str) -> str:
    return re.sub(r"[^\w.\-]+", "-", model.replace("/", "__"))[:80]


def connect(path: Path) -> sqlite3.Connection:
    """Open a cache file, laid out if it is new.

    Raises:
        UsageError: it is something else.
        sqlite3.Error: it is damaged or cannot be used.
    """
    with FileLock(f"{path}.lock"):  # two processes may not switch a new file to WAL at once
        return _opened(path)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if _number(connection, "application_id") == _APPLICATION:
            return connection
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise UsageError(
                f"{path} is not a vector cache of this version; move it away, or give --cache "
                "another folder"
            )
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def checksum(key: bytes, tokens: int, truncated: int, vector: bytes) -> bytes:
    """Eight bytes of BLAKE2b over a row."""
    digest = hashlib.blake2b(key, digest_size=8)
    digest.update(tokens.to_bytes(8, "little", signed=True) + bytes([bool(truncated)]))
    digest.update(vector)
    return digest.digest()


def error_name(error: sqlite3.Error) -> str:
    """SQLite's name of an error; Python 3.10 tells only its message."""
    return f"{getattr(error, 'sqlite_errorname', '')} {error}"


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is not what was written."""
    return any(
        sign in error_name(error)
        for sign in (
            *("SQLITE_CORRUPT", "SQLITE_NOTADB", "malformed", "not a database"),
            *("no such table", "no such column"),
        )
    )


@dataclass(frozen=True, slots=True)
class CachedSpec:
    """What a file holds of one spec: `bytes` are of the vectors alone."""

    model: str
    spec: Mapping[str, Any]
    environment: Mapping[str, str]
    made: str
    vectors: int
    bytes: int
    damaged: int | None


def describe_folder(folder: Path, *, verify: bool) -> tuple[list[CachedSpec], list[str]]:
    """What a cache folder holds, and what is wrong with each file that cannot be read."""
    held: list[CachedSpec] = []
    unreadable: list[str] = []
    for path in sorted(folder.glob("*.sqlite")):
        try:
            held += describe(path, verify=verify)
        except DataError as error:
            unreadable.append(str(error))
    unreadable += [
        f"{path} was damaged and set aside; clear it when you are done with it"
        for path in sorted(folder.glob("*.damaged-*"))
    ]
    return held, unreadable


def clear(folder: Path, model: str) -> tuple[list[str], int]:
    """Delete the files and exports of a model, or of `"all"`, also such as were damaged.

    Returns:
        Names of the files and exports, and the bytes that they took.

    Raises:
        UsageError: nothing of that model is kept.
    """
    chosen = [
        path
        for path in sorted(folder.glob("*"))
        if (name := _NAME.fullmatch(path.name)) and (name["kind"] != "sqlite" or _is_ours(path))
        if model == "all" or name["model"] == _plain(model)
    ]
    exports = [
        each for each in exports_in(folder) if model == "all" or _plain(each.model) == _plain(model)
    ]
    if not chosen and not exports and model != "all":
        raise UsageError(f"nothing is kept of {model!r} in {folder}; see `jfinteb cache`")
    size = clear_exports(exports)
    if model == "all":
        size += _forget(folder)
    for path in chosen:
        for part in (path, *(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", ".lock"))):
            with contextlib.suppress(FileNotFoundError):
                size += part.stat().st_size
                part.unlink()
    names = [f"export {each.folder.name} of {each.model or 'a model'}" for each in exports]
    return [*(path.name for path in chosen), *names], size


def _forget(folder: Path) -> int:
    """Delete what is remembered of models beside their vectors; returns bytes."""
    size = 0
    for name in ("settled", "verified"):
        for path in sorted((folder / name).glob("*.json")):
            if _MEMORY.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                size += path.stat().st_size
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not there, or something else is in it
            (folder / name).rmdir()
    return size


def _is_ours(path: Path) -> bool:
    """Whether a database says that it is a cache."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        ) as c:
            return _number(c, "application_id") == _APPLICATION
    except sqlite3.Error:
        return False


def describe(path: Path, *, verify: bool = False) -> list[CachedSpec]:
    """What a cache file holds, by spec.

    Args:
        path: of the file.
        verify: read every vector and compare its checksum.

    Raises:
        DataError: it cannot be read.
    """
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(connection):
            if _number(connection, "application_id") != _APPLICATION:
                raise DataError(f"{path} is not a vector cache of this version")
            found = []
            for number, spec, environment, made in connection.execute(
                "SELECT id, spec, environment, made FROM specs ORDER BY id"
            ).fetchall():
                count, size = connection.execute(
                    "SELECT count(*), total(length(vector)) FROM vectors WHERE spec = ?", (number,)
                ).fetchone()
                if not count:
                    continue  # looked up by a dry run
                values = json.loads(spec)
                damaged = _damaged(connection, number) if verify else None
                found.append(
                    CachedSpec(
                        values["model"],
                        values,
                        json.loads(environment),
                        made,
                        count,
                        int(size),
                        damaged,
                    )
                )
            return found
    except sqlite3.DatabaseError as error:
        raise DataError(
            f"{path} cannot be read ({error}); remove it, it is only a cache"
        ) from error


def _damaged(connection: sqlite3.Connection, spec: int) -> int:
    rows = connection.execute(f"SELECT {ROW} FROM vectors WHERE spec = ?", (spec,))  # noqa: S608 (a constant)
    return sum(not is_sound(row) for row in rows)


def is_sound(row: Sequence[Any]) -> bool:
    """Whether a row is what was written: its types, and its checksum."""
    kinds = tuple(map(type, row))
    return kinds == (bytes, int, int, bytes, bytes) and row[4] == checksum(*row[:4])
