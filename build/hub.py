"""Write a package folder: parquet files and the README that `load_dataset` reads.

The package is made beside its final name and put there whole; equal rows give equal bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from jfinteb.build.licenses import LICENSES_FILE, package_licenses
from jfinteb.build.readme import readme
from jfinteb.loaders.errors import DataError, JfintebError, UsageError
from jfinteb.loaders.manifest import (
    MANIFEST,
    MARKER,
    RAW,
    Manifest,
    former_package,
    parse_package,
    split_entries,
    work_folders,
)
from jfinteb.loaders.origins import Folder, parquet_path
from jfinteb.loaders.schema import check_relevance, verify
from jfinteb.loaders.task import CORPUS, Split, Task, get_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_out", "write_package"]

_FILES = {MANIFEST, "README.md", LICENSES_FILE}
_WAIT = 0.05  # seconds between two looks at a lock that another build has
Tables = Mapping[str, "pa.Table"]
Raw = Mapping[str, Mapping[str, str]]


def write_package(
    out: Path, tables: Mapping[str, Tables], raw: Raw | None = None
) -> dict[str, Any]:
    """Write tasks into a package; tasks that it already holds and that are not given stay.

    Args:
        out: the package folder; made, or replaced as a whole, at the end.
        tables: task name -> split -> rows (`make_table`).
        raw: task name -> path -> SHA-256 of the raw files, where no card tells it.

    Returns:
        The manifest; see `jfinteb.loaders.manifest`.

    Raises:
        UsageError: `out` is a folder that is not a package, or cannot be written.
        DataError: rows that do not satisfy their card, or of a task that stays and whose rows are
            not those of the manifest.
    """
    out = out.resolve()  # has a name of its own, also where it was given as `.` or as a link
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _turn(out):
            return _write_locked(out, tables, raw or {})
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error


@contextmanager
def _turn(out: Path) -> Iterator[None]:
    """Builds into one package take turns, else the second loses what the first adds.

    The lock lies beside the package, where every build sees it, whatever its TMPDIR or machine, and
    is taken away again.
    """
    path = out.with_name(f".{out.name}.jfinteb.lock")
    lock = FileLock(path)
    while not _take(lock, path):
        time.sleep(_WAIT)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps what is open
            path.unlink()
        lock.release()


def _take(lock: FileLock, path: Path) -> bool:
    """Try once; a lock on a file that another build has taken away meanwhile is none."""
    before = _inode(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    now = _inode(path)
    if now is not None and before in (None, now):
        return True
    lock.release()
    return False


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _write_locked(out: Path, tables: Mapping[str, Tables], raw: Raw) -> dict[str, Any]:
    _recover(out)
    manifest: dict[str, Any] = _read_manifest(out)
    _clear_killed(out)
    folder = _work_folder(out)
    work = folder / "new"
    try:
        work.mkdir()
        for name in manifest.keys() - tables.keys():
            _keep_task(out, work, get_task(name), manifest[name])
        for name, splits in tables.items():
            manifest[name] = _write_task(work, get_task(name), splits)
            if name in raw:
                manifest[name][RAW] = dict(raw[name])
        manifest = {name: manifest[name] for name in sorted(manifest)}
        _write_text(work / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        _write_text(work / "README.md", readme(manifest, work))
        _write_text(work / LICENSES_FILE, package_licenses(manifest))
        _replace(out, folder)
    finally:
        _discard(out, folder)
    return manifest


def check_out(out: Path) -> None:
    """Raise UsageError, before any work, if `out` is a folder of something else."""
    _read_manifest(out)


def _read_manifest(out: Path) -> Manifest:
    try:
        if not out.exists() or (out.is_dir() and not any(out.iterdir())):
            return {}
        manifest = parse_package(out / MANIFEST)
        known = {
            parquet_path(get_task(name), split)
            for name, entry in manifest.items()
            for split in split_entries(entry)
        }
        foreign = sorted(_foreign(out, known | _FILES))
        if foreign:
            raise ValueError(f"it holds {', '.join(map(repr, foreign[:5]))}")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is no jfinteb package ({error}); give --out another folder"
        ) from error
    return manifest


def _foreign(out: Path, files: Set[str]) -> Iterator[str]:
    """What a folder holds beside these files and their folders; a link is always foreign."""
    folders = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents}
    for root, names, others in os.walk(out):  # follows no links
        for name in [*names, *others]:
            path = Path(root, name)
            inside = path.relative_to(out).as_posix()
            fits = inside in folders if path.is_dir() else inside in files and path.is_file()
            if path.is_symlink() or not fits:
                yield inside


def _keep_task(out: Path, work: Path, task: Task, entry: Mapping[str, Any]) -> None:
    """Copy the files of a task that stays, if they still are what its manifest says."""
    built = {
        split: Split(rows=told["rows"], digest=told["digest"])
        for split, told in split_entries(entry).items()
    }
    for split in task.splits:
        name = parquet_path(task, split)
        try:
            verify(replace(task, splits=built), split, Folder(out).table(task, split))
        except JfintebError as error:
            raise DataError(
                f"{out}: {task.name}/{split} is not what its manifest says; build {task.name} again"
            ) from error
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(out / name, work / name)


def _write_task(work: Path, task: Task, splits: Tables) -> dict[str, Any]:
    import pyarrow.parquet as pq

    entry: dict[str, Any] = {}
    for split, table in splits.items():
        digest = verify(task, split, table)
        if CORPUS in splits:
            check_relevance(task, split, table, splits[CORPUS])
        path = work / parquet_path(task, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd", version="2.6", write_statistics=False)
        entry[split] = {"rows": table.num_rows, "digest": digest}
    return entry


def _recover(out: Path) -> None:
    """Put the former package back where a build was killed between its two renames."""
    former = former_package(out)
    if former is not None:
        former.replace(out)


def _work_folder(out: Path) -> Path:
    """A new folder beside `out`, marked as ours and with who works in it."""
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.building-", dir=out.parent))
    owner = {"pid": os.getpid(), "host": socket.gethostname()}
    try:
        _write_text(folder / MARKER, json.dumps(owner) + "\n")
    except OSError:
        _discard(out, folder)
        raise
    return folder


def _clear_killed(out: Path) -> None:
    """Delete what builds into `out` left half done when they were killed."""
    for folder in work_folders(out):
        if _is_dead(folder / MARKER):
            _discard(out, folder)


def _is_dead(marker: Path) -> bool:
    """Whether the process that made a work folder is gone, as far as this machine can tell."""
    try:
        owner = json.loads(marker.read_text(encoding="utf-8"))
        if owner["host"] != socket.gethostname():
            return False
        if os.name == "nt":
            return True  # there is no such question; the lock says that none is at work
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return False
    return False


def _replace(out: Path, folder: Path) -> None:
    if out.exists():
        out.replace(folder / "old")
    (folder / "new").replace(out)


def _discard(out: Path, folder: Path) -> None:
    """Delete a work folder, its marker last; a former package without successor goes back."""
    old = folder / "old"
    if old.exists() and not out.exists():
        old.replace(out)
    for path in (folder / "new", old):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # something else in it, or it cannot be deleted: it stays
        if {path.name for path in folder.iterdir()} <= {MARKER}:
            (folder / MARKER).unlink(missing_ok=True)
            folder.rmdir()


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
