"""The files of a model's folder that can change a vector: which, their fingerprint, their state."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.files import sha256_of

__all__ = ["State", "Watched", "counts", "files_of", "fingerprint", "states_of"]

State: TypeAlias = tuple[str, int, int, int, int, int]

_UNREAD_FOLDERS = frozenset({".git", ".cache", "__pycache__", ".ipynb_checkpoints"})
_OTHER_FORMS = frozenset({"onnx", "openvino"})  # of the weights, for other libraries
_UNREAD_NAMES = re.compile(
    r"(readme|licen[sc]e|notice)(\..*)?|\.gitattributes|\.gitignore|\.ds_store|thumbs\.db"
    r"|.*\.(md|html|png|jpe?g|gif|svg|webp)",
    re.IGNORECASE,
)
# What jfinteb writes: results (RESULTS/<org>__<model>/<spec>/), kept vectors, what it remembers.
_OURS = (
    re.compile(
        r"(.*/)?[^/]+__[^/]+/[0-9a-f]{12}/\.?\w+(\.[0-9a-f]{8})?(\.predictions)?\.jsonl?(\.\w+)?"
    ),
    re.compile(r"(.*/)?[^/]+-[0-9a-f]{8}\.(sqlite|damaged-\d+)(-wal|-shm|\.lock)?"),
    re.compile(r"(.*/)?settled/\.?[0-9a-f]{32}\.json(\.\w+)?"),
    re.compile(r"(.*/)?exports/(\.?[0-9a-f]{32}[.\w]*)/(model\.(xml|bin)|export\.json)"),
    re.compile(r"(.*/)?verified/\.?[0-9a-f]{32}\.json(\.\w+)?"),
)


def counts(path: str) -> bool:
    """Whether a file, named from the model's folder, can change a vector.

    Every file can, also one whose use is unknown, but for what no loader reads: documentation,
    pictures, git's own files, bytecode and what jfinteb itself has written there.

    >>> counts("model.safetensors"), counts("2_Dense/config.json"), counts("unknown.dat")
    (True, True, True)
    >>> counts("README.md"), counts(".git/HEAD"), counts("out/local__m/0123456789ab/pfmt.json")
    (False, False, False)
    """
    whole = PurePosixPath(path)
    if _UNREAD_FOLDERS.intersection(whole.parts[:-1]) or _UNREAD_NAMES.fullmatch(whole.name):
        return False
    return not any(pattern.fullmatch(path) for pattern in _OURS)


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """Name and path of every file that counts, in a fixed order; links are followed."""
    unread = _OTHER_FORMS - _named_as_modules(folder)
    found = [
        (name, path)
        for name, path in _walk(folder, "", frozenset())
        if name.partition("/")[0] not in unread and counts(name)
    ]
    return sorted(found)


def _walk(folder: Path, below: str, above: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """All files; a linked folder stands under each of its names, and a loop ends."""
    real = os.path.realpath(folder)
    if real in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in _UNREAD_FOLDERS:
                    inner = Path(entry.path)
                    yield from _walk(inner, f"{below}{entry.name}/", above | {real})
            elif entry.is_file():
                yield below + entry.name, Path(entry.path)


def _named_as_modules(folder: Path) -> set[str]:
    """First parts of the folders that `modules.json` names."""
    try:
        listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return {PurePosixPath(module["path"]).parts[0] for module in listed if module["path"]}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()  # what is wrong with it is told where it is read


def fingerprint(folder: Path, name: str) -> str:
    """A digest over names and contents of the files that count.

    Raises:
        ModelError: one of them cannot be read.
    """
    digest = hashlib.sha256()
    for relative, path in _listed(folder, name):
        try:
            line = f"{relative}\0{sha256_of(path)}\n"
        except OSError as error:
            raise _unreadable(name, relative, error) from error
        digest.update(line.encode(errors="surrogateescape"))
    return f"files-{digest.hexdigest()[:16]}"


def states_of(folder: Path) -> list[State]:
    """Name, size, times, inode and device of every file that counts.

    No change of content leaves all of them as they were: the time of change cannot be set.
    """
    return [(name, *_state(path.stat())) for name, path in files_of(folder)]


def _state(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


class Watched:
    """A folder that is to stay as it is from now on, while a model is opened from it.

    Args:
        folder: of the model; None, for a model of the hub, is not watched.
        name: of the model, for messages.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder = folder
        self._name = name
        self._before = self._now()

    def check(self) -> None:
        """Compare with what it was.

        Raises:
            ModelError: a file has changed, come or gone.
        """
        now = self._now()
        if now != self._before:
            changed = sorted({name for name, *_ in {*now} ^ {*self._before}})
            raise ModelError(
                f"{self._name}: {changed[0]} was changed while the model was being opened; run "
                "again when nothing writes into the folder"
            )

    def _now(self) -> list[State]:
        if self._folder is None:
            return []
        try:
            return states_of(self._folder)
        except OSError as error:
            raise _unreadable(self._name, str(error.filename), error) from error


def _listed(folder: Path, name: str) -> list[tuple[str, Path]]:
    try:
        return files_of(folder)
    except OSError as error:
        raise _unreadable(name, str(error.filename), error) from error


def _unreadable(name: str, file: str, error: OSError) -> ModelError:
    return ModelError(
        f"{name}: cannot read {file} ({error.strerror or error}); allow it to be read, or move it "
        "out of the folder"
    )
