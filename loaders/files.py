"""Small file habits shared by build and eval: checksums, and writes that are whole or absent."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["files_under", "sha256_of", "write_whole"]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def files_under(folder: Path) -> list[Path]:
    """All files of a folder in a fixed order, linked folders included, each folder once."""
    found: list[Path] = []
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        found += [path for name in names if (path := Path(place, name)).is_file()]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text under a temporary name, then replace: never half a file under `path`."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
