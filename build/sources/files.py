"""Raw files of a source folder, checked against the card before anything is read."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.files import sha256_of
from jfinteb.loaders.task import SourceFile, Task

__all__ = ["SourceFolder", "json_lines"]

_VARIANTS = ("dump",)  # sources of other rows, which have a name of their own
_OPENERS: Mapping[str, Callable[..., IO[str]]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class SourceFolder:
    """The folder given as `--source`.

    `fetch` gets a file that is not there, for its URL and SHA-256, under the name given to it.
    """

    path: Path
    fetch: Callable[[str, Path, str | None], object] | None = None

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

    def _find(self, file: SourceFile) -> Path | None:
        """A file as it is or, where no checksum speaks of its bytes, with `.gz` or `.xz` behind."""
        suffixes = _OPENERS if file.sha256 is None else ("",)
        paths = (self.path / f"{file.path}{suffix}" for suffix in suffixes)
        return next((path for path in paths if path.is_file()), None)

    def file(self, task: Task, key: str) -> Path:
        """The file that the card calls `key`, after its checksum is checked.

        Raises:
            UnavailableError: it is not there.
            DataError: its SHA-256 is not the card's.
        """
        wanted = task.source.files[key]
        path = self._find(wanted)
        if path is None and self.fetch is not None and wanted.url is not None:
            path = self.path / wanted.path
            self.fetch(wanted.url, path, wanted.sha256)
        if path is None:
            raise UnavailableError(
                f"{task.name}: no {wanted.path} in {self.path}; get it from {task.source.url}"
            )
        if wanted.sha256 is not None:
            digest = sha256_of(path)
            if digest != wanted.sha256:
                raise DataError(
                    f"{task.name}: {wanted.path} has sha256 {digest[:12]}…, the card declares "
                    f"{wanted.sha256[:12]}…; get revision {task.source.revision} from "
                    f"{task.source.url}"
                )
        return path


def json_lines(path: Path, task: Task | str, *keys: str) -> Iterator[dict[str, Any]]:
    """Objects of a JSON Lines file, each with all of `keys`.

    Raises:
        DataError: a line that is not a JSON object in UTF-8, or lacks a key.
    """
    name = task if isinstance(task, str) else task.name
    with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                row = json.loads(line)
                lacking = [k for k in keys if not isinstance(row, dict) or k not in row]
                if lacking:
                    raise DataError(
                        f"{name}: {path.name} line {number} has no {lacking[0]!r}, "
                        f"expected an object with {', '.join(keys)}"
                    )
                yield row
        except (ValueError, EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{name}: {path.name} is not JSON Lines in UTF-8: {error}") from error
