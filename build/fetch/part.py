"""The half of a file that has arrived: `<name>.part`, and beside it what it is a part of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from jfinteb.loaders.files import sha256_of, write_whole

__all__ = ["Origin", "Part", "Wanted"]


@dataclass(frozen=True)
class Wanted:
    """What is known of a file beforehand."""

    size: int | None
    sha256: str | None

    def fault(self, path: Path) -> str | None:
        """What is wrong with a file, or None."""
        found = path.stat().st_size
        if self.size is not None and found != self.size:
            return f"found {found:,} bytes, expected {self.size:,}"
        if self.sha256 is not None and (digest := sha256_of(path)) != self.sha256:
            return f"found sha256 {digest[:12]}…, expected {self.sha256[:12]}…"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the bytes of a part belong to.

    Attributes:
        url: SHA-256 of the URL (a URL may hold a secret, so it is not kept).
        validator: strong ETag or Last-Modified of the server's file; None where it gave none.
        total: length of the whole file in bytes; None where the server did not say.
    """

    url: str
    validator: str | None = None
    total: int | None = None

    @staticmethod
    def of(url: str, validator: str | None = None, total: int | None = None) -> Origin:
        """The origin of a URL."""
        digest = hashlib.sha256(url.encode()).hexdigest()
        return Origin(url=digest, validator=validator, total=total)


class Part:
    """The bytes of one target that have arrived, kept from one process to the next.

    The note about the origin is on disk before the first byte is, and a part without a note, or
    with the note of another URL, is not used.

    Attributes:
        origin: what the bytes belong to.
        patched: whether they came in more than one answer.
    """

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")
        self._url = url
        self.origin = self._read() or self._dropped()
        self.patched = self.size > 0

    @property
    def size(self) -> int:
        """Bytes that have arrived."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Forget what has arrived."""
        self.origin = self._dropped()
        self.patched = False

    def restart(self, validator: str | None, total: int | None) -> None:
        """Begin the file anew, from the answer of a server."""
        self.discard()
        self.origin = Origin.of(self._url, validator, total)
        write_whole(self._note, json.dumps(asdict(self.origin)))

    def append(self, blocks: Iterable[bytes]) -> None:
        """Write blocks as they come; what came stays, also where the next one fails."""
        self.patched = self.size > 0
        with self.path.open("ab") as stream:
            try:
                for block in blocks:
                    stream.write(block)
            finally:
                stream.flush()
                os.fsync(stream.fileno())

    def become(self, target: Path) -> None:
        """Give the whole file its name."""
        self.path.replace(target)
        self._note.unlink(missing_ok=True)

    def _dropped(self) -> Origin:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        return Origin.of(self._url)

    def _read(self) -> Origin | None:
        try:
            origin = Origin(**json.loads(self._note.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return origin if origin.url == Origin.of(self._url).url else None
