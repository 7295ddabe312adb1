"""Whether a model in the hub's cache is what its commit says: nobody has edited a file there.

An entry of a snapshot is a link to a blob whose name is the hash of its content, SHA-256 for large
files and git's SHA-1 for small ones. Hashing takes a second or two a gigabyte and is done once:
the state of what was found sound (size, times, inode) is remembered. Caches without links (some
Windows set-ups) tell no hashes, and are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from jfinteb.eval.backends.folder import files_of, states_of
from jfinteb.eval.encoder import ModelError
from jfinteb.loaders.files import sha256_of, write_whole

__all__ = ["check_snapshot"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_SHA1 = re.compile(r"[0-9a-f]{40}")


def check_snapshot(snapshot: Path, name: str, kept: Path | None) -> None:
    """Compare every file that can change a vector with the hash that names its blob.

    Args:
        snapshot: the folder of a commit in the hub's cache.
        name: of the model, for messages.
        kept: folder where sound files are remembered; None: nowhere.

    Raises:
        ModelError: a file is not the commit's.
    """
    try:
        files, states = files_of(snapshot), states_of(snapshot)
        if not any(path.is_symlink() for _, path in files):
            return
        memory = None if kept is None else _memory(kept, snapshot, states)
        if memory is not None and memory.is_file():
            return
        for relative, path in files:
            if not _is_sound(path):
                raise ModelError(
                    f"{name}: {relative} in the hub's cache is not what commit {snapshot.name} "
                    f"holds; run `hf download {name} --revision {snapshot.name} --force-download`, "
                    "or copy the model to a folder and give that"
                )
    except OSError as error:
        raise ModelError(
            f"{name}: cannot read {error.filename} in the hub's cache "
            f"({error.strerror or error}); download it again"
        ) from error
    if memory is not None:
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_whole(memory, json.dumps({"model": name, "commit": snapshot.name}) + "\n")
        except OSError:
            return  # only time is lost


def _memory(kept: Path, snapshot: Path, states: object) -> Path:
    text = json.dumps([str(snapshot.resolve()), states])
    return kept / "verified" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _is_sound(path: Path) -> bool:
    """Whether content and name of a blob agree; a file among links was put there by hand."""
    if not path.is_symlink():
        return False
    blob = path.resolve()
    if _SHA256.fullmatch(blob.name):
        return sha256_of(blob) == blob.name
    if _GIT_SHA1.fullmatch(blob.name):
        digest = hashlib.sha1(b"blob %d\0" % blob.stat().st_size, usedforsecurity=False)
        digest.update(blob.read_bytes())
        return digest.hexdigest() == blob.name
    return True  # a server that names its files otherwise
