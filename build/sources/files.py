"""Raw files of a source folder, checked against the card before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from zipfile import is_zipfile

from jfinteb.build.sources.lines import SUFFIXES, unpacked_sha256
from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.files import sha256_of
from jfinteb.loaders.task import SourceFile, Task

__all__ = ["SourceFolder", "Stamp", "stamp"]

Stamp: TypeAlias = tuple[int, int, int]

_VARIANTS = ("dump",)  # sources of other rows, which have a name of their own


@dataclass(frozen=True)
class SourceFolder:
    """The folder given as `--source`.

    Attributes:
        path: the folder.
        fetch: gets a file that is not there, for its URL and SHA-256, under the name given to it.
        watch: for the name of a large file, gives what is called with its bytes read and all its
            bytes while it is parsed.
    """

    path: Path
    fetch: Callable[[str, Path, str | None], object] | None = None
    watch: Callable[[str], Callable[[int, int], object]] | None = None

    def missing(self, task: Task) -> list[str]:
        """Paths that the task's source names and the folder lacks."""
        return [
            file.path
            for file in task.source.files.values()
            if self._find(file) is None and (self.fetch is None or file.url is None)
        ]

    def choose(self, task: Task) -> Task | None:
        """The task with the first of its sources whose files are all here; None without one."""
        others = [s for name, s in task.other_sources.items() if name not in _VARIANTS]
        for source in (task.source, *others):
            candidate = replace(task, source=source)
            if not self.missing(candidate):
                return candidate
        return None

    def file(self, task: Task, key: str) -> Path:
        """The file that the card calls `key`, after its checksum is checked.

        Raises:
            UnavailableError: it is not there.
            DataError: its SHA-256 is not the card's.
        """
        wanted = task.source.files[key]
        path = self._find(wanted)
        fault = None if path is None else _fault(wanted, path, task.name)
        if self.fetch is not None and wanted.url is not None and (path is None or fault):
            path = self._fetched(wanted, wanted.url, path)
            fault = _fault(wanted, path, task.name)
            if fault is not None and wanted.sha256 is None:
                path.unlink()  # or the next run would take it
                raise DataError(f"{task.name}: {wanted.url} gave what {fault}; try again later")
        if path is None:
            raise UnavailableError(
                f"{task.name}: no {wanted.path} in {self.path}; get it from {task.source.url}"
            )
        if fault is not None and wanted.sha256 is not None:
            raise DataError(
                f"{task.name}: {wanted.path} {fault}; get revision {task.source.revision} from "
                f"{task.source.url}"
            )
        return path

    def digests(self, task: Task) -> dict[str, str]:
        """SHA-256 of what each file of the task's source holds, by the path that the card gives."""
        return {
            wanted.path: _digest(wanted, self.file(task, key), task.name)
            for key, wanted in task.source.files.items()
        }

    def _fetched(self, wanted: SourceFile, url: str, old: Path | None) -> Path:
        """Fetch a file; one that is there and wrong is kept as `<name>.old`."""
        assert self.fetch is not None
        path = self.path / wanted.path
        aside = old and old.with_name(f"{old.name}.old")
        if old is not None and aside is not None:
            old.replace(aside)
        try:
            self.fetch(url, path, wanted.sha256)
        except BaseException:
            if old is not None and aside is not None:
                aside.replace(old)
            raise
        return path

    def _find(self, file: SourceFile) -> Path | None:
        """A file as it is or, where no checksum speaks of its bytes, with `.gz` or `.xz` behind."""
        suffixes = SUFFIXES if file.sha256 is None else ("",)
        paths = (self.path / f"{file.path}{suffix}" for suffix in suffixes)
        return next((path for path in paths if path.is_file()), None)


def stamp(path: Path) -> Stamp:
    """What changes when a file does: what is kept of its content goes by it."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _fault(wanted: SourceFile, path: Path, name: str) -> str | None:
    """What tells that a file is not the one wanted, as the end of a sentence on it."""
    if wanted.sha256 is None:
        return "is no zip" if path.suffix == ".zip" and not is_zipfile(path) else None
    digest = _digest(wanted, path, name)
    if digest == wanted.sha256:
        return None
    return f"has sha256 {digest[:12]}…, the card declares {wanted.sha256[:12]}…"


def _digest(wanted: SourceFile, path: Path, name: str) -> str:
    """SHA-256 of a file; of a packed copy, that of what it holds."""
    packed = path.name != wanted.path.rpartition("/")[2]
    return _digest_of(path, stamp(path), packed, name)


@lru_cache(maxsize=64)
def _digest_of(path: Path, _stamp: Stamp, packed: bool, name: str) -> str:
    return unpacked_sha256(path, name) if packed else sha256_of(path)
