"""Networks exported to OpenVINO in a cache folder, told and cleared without that library."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["EXPORTS", "FILES", "SEAL", "Export", "clear_exports", "exports_in"]

EXPORTS = "exports"  # folder of them all, in the cache's
FILES = ("model.xml", "model.bin")
SEAL = "export.json"  # written last: an export without it is not whole
_NAME = re.compile(r"[0-9a-f]{32}")
_BUSY = 3600.0  # seconds that a process may take to export
_PART = re.compile(r"\.[0-9a-f]{32}\.\w+")  # of a process that is exporting, or has died of it


@dataclass(frozen=True, slots=True)
class Export:
    """One exported network; `model` is empty where it is not known.

    Attributes:
        bytes: of its files.
        made: when, in ISO 8601.
    """

    folder: Path
    model: str
    revision: str
    made: str
    bytes: int


def exports_in(cache: Path) -> list[Export]:
    """The exports of a cache folder; what is not ours is not among them."""
    found = [_export(folder) for folder in _folders(cache)]
    return sorted(found, key=lambda each: (each.model, each.folder.name))


def _folders(cache: Path) -> Iterator[Path]:
    for folder in sorted((cache / EXPORTS).glob("*")):
        named = _NAME.fullmatch(folder.name) or _PART.fullmatch(folder.name)
        if not named or folder.is_symlink() or not folder.is_dir():
            continue
        if folder.name.startswith(".") and time.time() - folder.stat().st_mtime < _BUSY:
            continue
        if {path.name for path in folder.iterdir()} <= {*FILES, SEAL}:
            yield folder


def _export(folder: Path) -> Export:
    try:
        seal: dict[str, Any] = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        told = [str(seal.get(name) or "") for name in ("model", "revision", "made")]
    except (OSError, ValueError, AttributeError):
        told = ["", "", ""]
    size = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    model, revision, made = told
    return Export(folder, model, revision, made, size)


def clear_exports(exports: list[Export]) -> int:
    """Delete exports, and the folder of them all once it is empty; returns bytes."""
    for export in exports:
        for name in (SEAL, *FILES):
            (export.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is in there by now
            export.folder.rmdir()
    for above in {export.folder.parent for export in exports}:
        with contextlib.suppress(OSError):
            above.rmdir()
    return sum(export.bytes for export in exports)
