"""Raw files of a source folder, checked against the card before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jfinteb.build.sources.lines import SUFFIXES, unpacked_sha256
from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.files import sha256_of
from jfinteb.loaders.task import SourceFile, Task

__all__ = ["SourceFolder"]

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

    def digests(self, task: Task) -> dict[str, str]:
        """SHA-256 of what each file of the task's source holds, by the path that the card gives.

        It is what can be told of a revision for which no card has checksums.
        """
        return {
            wanted.path: unpacked_sha256(self.file(task, key), task.name)
            for key, wanted in task.source.files.items()
        }

    def _find(self, file: SourceFile) -> Path | None:
        """A file as it is or, where no checksum speaks of its bytes, with `.gz` or `.xz` behind."""
        suffixes = SUFFIXES if file.sha256 is None else ("",)
        paths = (self.path / f"{file.path}{suffix}" for suffix in suffixes)
        return next((path for path in paths if path.is_file()), None)
