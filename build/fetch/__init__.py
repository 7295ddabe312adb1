"""Fetch raw files: downloads that resume, are verified, and are whole or absent.

`requests` carries the bytes, urllib3 reads `Retry-After`, `filelock` keeps two processes apart.
The loop is ours: pooch and urllib3's own retries begin again from byte 0.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from jfinteb.build.fetch.part import Part, Wanted
from jfinteb.build.fetch.transfer import Transfer, TransientError, shown
from jfinteb.loaders.errors import DataError, UnavailableError, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["cache_folder", "download_progress", "fetch", "fetch_hub", "fetch_source", "shown"]

TRIES = 6  # failures in a row, none of which brought a new byte
BACKOFF = 0.5  # seconds before the second try; doubles from try to try
LONGEST_WAIT = 600  # seconds a server may ask for
_HUB_URL = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/[^/@]+)@(?P<revision>[^/]+)/(?P<path>.+)"
)


def fetch(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch a file, unless it is there and is the one that is meant.

    Bytes arrive in `<target>.part`, are checked, and get their name in one step. An interrupted
    fetch resumes where the server's file is still the same (`If-Range`) or a checksum will tell.

    Args:
        url: http or https; the secrets it may hold stand in no message.
        target: where the file goes; its folder is made.
        size: its length in bytes, where it is known.
        sha256: its SHA-256 as hex, where it is known. With neither, a file that is there is taken.
        progress: shows a bar and why it waits; see `download_progress`.

    Returns:
        `target`.

    Raises:
        UnavailableError: the file cannot be had now.
        DataError: what the server has is not the file that is meant.
        UsageError: no http(s) URL, or the target cannot be written.
    """
    if not re.match(r"https?://[^/]", url):
        raise UsageError(f"cannot fetch {target.name}: found no http or https URL, expected one")
    wanted = Wanted(size, sha256.lower() if sha256 else None)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target, progress):
            if not target.is_file() or wanted.fault(target):
                _download(Transfer(url, wanted, target.name, progress), target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def _download(transfer: Transfer, target: Path) -> None:
    """Fill the part and name it; a part of several answers that is wrong is fetched once more."""
    part = Part(target, transfer.url)
    for again in (True, False):
        _fill(transfer, part)
        fault = transfer.wanted.fault(part.path)
        if fault is None:
            part.become(target)
            return
        patched = part.patched
        part.discard()
        if not (again and patched):
            raise DataError(
                f"{shown(transfer.url)}: {fault}; the publisher's file is another one: get the "
                "revision that the card names"
            )


def _fill(transfer: Transfer, part: Part) -> None:
    """Try until the part is whole, or `TRIES` tries in a row bring no new byte."""
    most, failures = part.size, 0
    while True:
        try:
            transfer.run(part)
            return
        except TransientError as error:
            failures = 1 if part.size > most else failures + 1
            most = max(most, part.size)
            where = shown(transfer.url)
            if failures >= TRIES:
                then = "it resumes" if part.size and transfer.usable(part) else "it begins anew"
                raise UnavailableError(
                    f"cannot get {where}: {error}, {failures} tries; {then} when run again; "
                    "offline, give --source with a folder that holds the file"
                ) from None
            asked = error.wait or 0.0
            if asked > LONGEST_WAIT:
                raise UnavailableError(
                    f"cannot get {where}: {error}, the server asks to wait {asked:,.0f} s; try "
                    "again then"
                ) from None
            wait = max(asked, BACKOFF * 2 ** (failures - 1) * random.uniform(1, 1.5))
            transfer.say(f"{where}: {error}; trying again in {wait:.1f} s")
            sleep(wait)


@contextmanager
def _locked(target: Path, progress: Progress | None) -> Iterator[None]:
    """Keep other processes from the same target; a lock dies with its process."""
    from filelock import FileLock, Timeout

    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress is not None:
            progress.console.print(
                f"{target.name}: another process fetches it; waiting", markup=False
            )
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def cache_folder() -> Path:
    """Where fetched sources stand, in the user's cache folder.

    >>> cache_folder().parts[-2:]
    ('jfinteb', 'sources')
    """
    return user_cache_path("jfinteb", appauthor=False) / "sources"


def fetch_source(url: str, target: Path, sha256: str | None, progress: Progress) -> None:
    """Fetch a source file of a card, over http(s) or from a dataset repository (`hf://`)."""
    hub = _HUB_URL.fullmatch(url)
    if hub is None:
        fetch(url, target, sha256=sha256, progress=progress)
        return
    file = fetch_hub(hub["repository"], hub["path"], revision=hub["revision"], sha256=sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    shutil.copyfile(file, part)
    part.replace(target)


def fetch_hub(
    repository: str,
    path: str,
    *,
    revision: str,
    size: int | None = None,
    sha256: str | None = None,
) -> Path:
    """Fetch a file of a dataset repository on the hub, by its own client and into its own cache.

    Raises:
        UnavailableError: the file cannot be had: gated, missing, or no network.
        DataError: it is not the file that is meant.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

    where = f"{path} of {repository} at {revision}"
    try:
        file = Path(hf_hub_download(repository, path, repo_type="dataset", revision=revision))
    except GatedRepoError:
        raise UnavailableError(
            f"cannot get {where}: it is gated; accept its terms on its page and log in with "
            "`hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise UnavailableError(
            f"cannot get {where}: it has no such revision, expected one of its tags or commits"
        ) from None
    except Exception as error:  # the client raises many kinds; each means: not to be had
        raise UnavailableError(
            f"cannot get {where} ({type(error).__name__}); offline, give --source with a folder "
            "that holds the file"
        ) from None
    if fault := Wanted(size, sha256.lower() if sha256 else None).fault(file):
        raise DataError(f"{where}: {fault}; delete {file} and try again, or pin another revision")
    return file


def download_progress(console: Console) -> Progress:
    """A progress display for downloads: bytes, speed, time left."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
