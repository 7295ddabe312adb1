"""The manifest of a package: what the rows of each split were when they were built.

    {task: {split: {"rows": 486, "digest": "…"}, "raw": {path: sha256}}}

`raw` stands only where no card tells what the raw files must be, such as with variants from a
release of a source that no card pins. It has the SHA-256 of what each file holds, unpacked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jfinteb.loaders.errors import DataError, UsageError
from jfinteb.loaders.task import Split, get_task

__all__ = [
    "MANIFEST",
    "MARKER",
    "RAW",
    "Manifest",
    "former_package",
    "parse_manifest",
    "parse_package",
    "split_entries",
    "splits_in",
    "work_folders",
]

MANIFEST = "manifest.json"
RAW = "raw"
MARKER = "jfinteb-build.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]+")
Manifest = dict[str, dict[str, dict[str, Any]]]


def parse_manifest(path: Path) -> Manifest:
    """The manifest in a file; every value has the type and form that it must have.

    Raises:
        ValueError: it cannot be read, or is no manifest; one line says what was found.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path.name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}".splitlines()[0]) from error
    for name, entry in _mapping(found, "the manifest").items():
        for split, told in split_entries(_mapping(entry, name)).items():
            _check_split(f"{name}/{split}", told)
        if RAW in entry:
            _check_raw(f"{name}/{RAW}", entry[RAW])
    if not found:
        raise ValueError("the manifest names no task")
    manifest: Manifest = found
    return manifest


def parse_package(path: Path) -> Manifest:
    """As `parse_manifest`, where all its tasks must be known and have the splits of their cards.

    Raises:
        ValueError: see there.
    """
    manifest = parse_manifest(path)
    for name, entry in manifest.items():
        try:
            task = get_task(name)
        except UsageError as error:
            raise ValueError(str(error)) from error
        if task.name != name:
            raise ValueError(f"found task {name!r}, expected its name {task.name!r}")
        if set(split_entries(entry)) != set(task.splits):
            raise ValueError(f"{name} has other splits than its card")
    return manifest


def split_entries(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A task's entry without `raw`: what is told of each split.

    >>> split_entries({"test": {"rows": 1}, "raw": {"a.jsonl": "0f"}})
    {'test': {'rows': 1}}
    """
    return {key: value for key, value in entry.items() if key != RAW}


def splits_in(path: Path, task: str) -> dict[str, Split]:
    """Rows and digests that a manifest has of a task; empty where it does not know it.

    Raises:
        DataError: it is no manifest.
    """
    try:
        entry = split_entries(parse_manifest(path).get(task, {}))
    except ValueError as error:
        raise DataError(f"{path} is not a package's manifest ({error}); build it again") from error
    return {split: Split(rows=told["rows"], digest=told["digest"]) for split, told in entry.items()}


def work_folders(out: Path) -> list[Path]:
    """Folders that builds of the package `out` work in, beside it; each has a marker of its own."""
    name = re.compile(re.escape(f".{out.name}.building-") + r"[a-z0-9_]{8}")  # as mkdtemp names
    try:
        named = [path for path in out.parent.iterdir() if name.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(path for path in named if not path.is_symlink() and _is_marked(path))


def _is_marked(folder: Path) -> bool:
    try:
        return (folder / MARKER).is_file()
    except OSError:  # another user's
        return False


def former_package(out: Path) -> Path | None:
    """Where the package `out` stands that a build moved away before it was killed."""
    if out.exists() or not out.name:
        return None
    kept = [folder / "old" for folder in work_folders(out)]
    kept.append(out.with_name(f".{out.name}.old"))  # of versions before this one
    return next((path for path in kept if _is_package(path)), None)


def _is_package(path: Path) -> bool:
    try:
        return not path.is_symlink() and bool(parse_package(path / MANIFEST))
    except ValueError:
        return False


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {_shown(value)}, expected an object")
    return value


def _check_split(where: str, told: object) -> None:
    entry = _mapping(told, where)
    rows, digest = entry.get("rows"), entry.get("digest")
    if type(rows) is not int or rows < 0:  # a bool is an int, too
        raise ValueError(f"{where}: rows is {_shown(rows)}, expected a count")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{where}: digest is {_shown(digest)}, expected hex digits")


def _check_raw(where: str, raw: object) -> None:
    files = _mapping(raw, where)
    if not files:
        raise ValueError(f"{where} names no file")
    for name, digest in files.items():
        path = PurePosixPath(name)
        foreign = path.is_absolute() or ".." in path.parts or not path.parts
        if foreign or "\\" in name or not name.isprintable():
            raise ValueError(f"{where}: found path {_shown(name)}, expected a relative one")
        if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise ValueError(
                f"{where}: {name} has {_shown(digest)}, expected a SHA-256 of 64 hex digits"
            )


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
