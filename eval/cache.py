"""The cache of raw vectors: one SQLite file a model, shared by tasks, runs and processes.

A vector is found by the digest of all that changes it: spec, versions and device (table `specs`),
route, prompt and text (the key). Every row carries a checksum. SQLite's transactions make a batch
whole or absent, whenever a process dies; what fails its checksum is dropped, counted and encoded
again.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from jfinteb.eval.backends.base import TextEncoder
from jfinteb.eval.cache_file import (
    ROW,
    Row,
    checksum,
    connect,
    error_name,
    file_stem,
    is_damage,
    is_sound,
)
from jfinteb.eval.encoder import EncoderSpec
from jfinteb.eval.store import Embedded, Keys, MemoryStore, Store
from jfinteb.loaders.errors import UsageError

__all__ = ["DiskStore", "cache_folder", "give_stores"]

_LOOKUP = 500  # keys a query


def cache_folder() -> Path:
    """`JFINTEB_CACHE`, or the user's cache folder."""
    named = os.environ.get("JFINTEB_CACHE")
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError as error:
            raise UsageError(f"JFINTEB_CACHE is {named!r}: {error}") from error
    return user_cache_path("jfinteb", appauthor=False) / "vectors"


def give_stores(encoders: Sequence[TextEncoder], folder: Path | None) -> list[Store]:
    """Give every encoder its store; those of the same raw vectors share one.

    Args:
        encoders: of one run.
        folder: of the cache; None: several encoders still share what one encoded, in memory.
    """
    stores: dict[str, Store] = {}
    for encoder in encoders:
        digest = encoder.spec.vector_digest
        if digest not in stores:
            if folder is not None and encoder.cacheable:
                stores[digest] = DiskStore(folder, encoder.spec, encoder.environment)
            elif len(encoders) > 1:
                stores[digest] = MemoryStore()
        encoder.store = stores.get(digest)
    return list(stores.values())


class DiskStore:
    """A `Store` in a file of the cache folder; see `jfinteb.eval.store`.

    Args:
        folder: of the cache; made if need be.
        spec: of the encoder; what comes after the raw vector (cut, scale) does not count.
        environment: versions and devices that the vectors come from.

    Attributes:
        notes: what went wrong and was mended: damaged rows, a damaged file, a full disk.

    Raises:
        UsageError: the folder or the file cannot be used.
    """

    def __init__(self, folder: Path, spec: EncoderSpec, environment: Mapping[str, str]) -> None:
        self.path = folder / f"{file_stem(spec)}.sqlite"
        self.damaged = 0
        self._spec = spec
        self._environment = json.dumps(dict(environment), sort_keys=True)
        self._notes: list[str] = []
        self._full = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot make the cache folder {folder} ({error.strerror or error}); give --cache "
                "another folder, or --no-cache"
            ) from error
        self._open()

    @property
    def notes(self) -> list[str]:
        """What a reader of the run should know."""
        lost = [f"cache: {self.damaged} damaged vectors were encoded again"] if self.damaged else []
        return [*self._notes, *lost]

    def missing(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of n keys are not there, shape (n,), without reading a vector."""
        found: set[bytes] = set()
        with self._mended():
            for part in _parts(keys):
                found |= {key for (key,) in self._select("key", part)}
        return np.array([key not in found for key in keys.tolist()], dtype=bool)

    def get(self, keys: Keys, dimensions: int) -> tuple[npt.NDArray[np.bool_], Embedded]:
        """See `Store.get`; a row that fails its checksum counts as missing."""
        missing = np.ones(len(keys), dtype=bool)
        vectors = np.empty((len(keys), dimensions), dtype=np.float32)
        tokens = np.empty(len(keys), dtype=np.int64)
        truncated = np.empty(len(keys), dtype=bool)
        count = 0
        with self._mended():
            for number, part in enumerate(_parts(keys)):
                rows: dict[bytes, Row] = {row[0]: row for row in self._select(ROW, part)}
                for i, key in enumerate(part, start=number * _LOOKUP):
                    row = rows.get(key)
                    if row is None or not self._sound(row, dimensions):
                        continue
                    missing[i] = False
                    vectors[count] = np.frombuffer(row[3], dtype="<f4")
                    tokens[count], truncated[count] = row[1], row[2]
                    count += 1
        return missing, Embedded(vectors[:count], tokens[:count], truncated[:count])

    def put(self, keys: Keys, embedded: Embedded) -> None:
        """See `Store.put`. What is there stays; a full disk ends the keeping, not the run."""
        if self._full:
            return
        rows = [
            (self._id, *row, checksum(*row))
            for row in zip(
                (key.tobytes() for key in keys),
                embedded.tokens.tolist(),
                (int(t) for t in embedded.truncated),
                (vector.tobytes() for vector in embedded.vectors.astype("<f4", copy=False)),
                strict=True,
            )
        ]
        with self._mended(), self._transaction():
            self._connection.executemany(
                "INSERT OR IGNORE INTO vectors (spec, key, tokens, truncated, vector, checksum) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _open(self) -> None:
        for _ in range(2):
            try:
                self._connection = connect(self.path)
                self._id = self._spec_id()
                return
            except OSError as error:
                raise _unusable(self.path, error) from error
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise _unusable(self.path, error) from error
                self._set_aside(error)
        raise UsageError(f"cannot use the cache {self.path}; give --cache another folder")

    def _spec_id(self) -> int:
        """The number of spec and environment in this file, entered if new."""
        digest = f"{self._spec.vector_digest} {self._environment}"
        digest = hashlib.sha256(digest.encode()).hexdigest()
        row = (
            digest,
            json.dumps(self._spec.to_json(), ensure_ascii=False, sort_keys=True),
            self._environment,
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )
        with self._transaction():
            self._connection.execute(
                "INSERT OR IGNORE INTO specs (digest, spec, environment, made) VALUES (?, ?, ?, ?)",
                row,
            )
        found = self._connection.execute("SELECT id FROM specs WHERE digest = ?", (digest,))
        return int(found.fetchone()[0])

    def _select(self, columns: str, keys: Sequence[bytes]) -> list[Any]:
        marks = ",".join("?" * len(keys))
        query = f"SELECT {columns} FROM vectors WHERE spec = ? AND key IN ({marks})"  # noqa: S608
        return self._connection.execute(query, (self._id, *keys)).fetchall()

    def _sound(self, row: Row, dimensions: int) -> bool:
        if is_sound(row) and len(row[3]) == 4 * dimensions:
            return True
        self.damaged += 1
        with self._transaction():
            self._connection.execute(
                "DELETE FROM vectors WHERE spec = ? AND key = ?", (self._id, row[0])
            )
        return False

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _mended(self) -> Iterator[None]:
        """Go on after damage (with a new file) and on a full disk (without keeping more)."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._connection.close()
                self._set_aside(error)
                self._open()
            elif _cannot_write(error):
                self._full = True
                self._notes.append(
                    f"warning: cache {self.path}: {error}; vectors were not kept from there on"
                )
            else:
                raise _unusable(self.path, error) from error

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Move a damaged file away, under a name that says so."""
        number = 1
        while (aside := self.path.with_suffix(f".damaged-{number}")).exists():
            number += 1
        with contextlib.suppress(FileNotFoundError):  # another process may have moved it
            self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self._notes.append(
            f"warning: cache {self.path.name} was damaged ({error}); it is kept as {aside.name}, "
            "and what it held was encoded again"
        )


def _parts(keys: Keys) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), _LOOKUP):
        yield keys[start : start + _LOOKUP].tolist()


def _cannot_write(error: sqlite3.Error) -> bool:
    signs = ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "is full", "readonly", "disk I/O")
    return any(sign in error_name(error) for sign in signs)


def _unusable(path: Path, error: sqlite3.Error | OSError) -> UsageError:
    return UsageError(
        f"cannot use the cache {path} ({error}); give --cache a folder on a local disk, or "
        "--no-cache"
    )
