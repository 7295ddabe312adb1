"""Raw files of a source folder, checked against the card before anything is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.files import sha256_of
from jfinteb.loaders.task import Task

__all__ = ["SourceFolder", "json_lines"]


@dataclass(frozen=True)
class SourceFolder:
    """The folder given as `--source`."""

    path: Path

    def missing(self, task: Task) -> list[str]:
        """Paths that the task's card names and the folder lacks."""
        return [f.path for f in task.source.files.values() if not (self.path / f.path).is_file()]

    def file(self, task: Task, key: str) -> Path:
        """The file that the card calls `key`, after its checksum is checked.

        Raises:
            UnavailableError: it is not there.
            DataError: its SHA-256 is not the card's.
        """
        wanted = task.source.files[key]
        path = self.path / wanted.path
        if not path.is_file():
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


def json_lines(path: Path, task: Task, *keys: str) -> Iterator[dict[str, Any]]:
    """Objects of a JSON Lines file, each with all of `keys`.

    Raises:
        DataError: a line that is not a JSON object in UTF-8, or lacks a key.
    """
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                row = json.loads(line)
                lacking = [k for k in keys if not isinstance(row, dict) or k not in row]
                if lacking:
                    raise DataError(
                        f"{task.name}: {path.name} line {number} has no {lacking[0]!r}, "
                        f"expected an object with {', '.join(keys)}"
                    )
                yield row
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(
                f"{task.name}: {path.name} is not JSON Lines in UTF-8: {error}"
            ) from error
