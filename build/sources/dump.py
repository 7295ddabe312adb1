"""MediaWiki dumps (`pages-articles`, .xml or .xml.bz2, one stream or many): pages of a few words.

The file is cut into parts that processes read on their own. A part's first and last pages may lie
across its borders: their halves are joined by the process that collects the parts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from jfinteb.build.sources.bzip2 import END_OF_FILE, Blocks, first_block, is_bzip2
from jfinteb.build.sources.drops import Dropped, DropReport
from jfinteb.build.sources.pages import CLOSE, END, LARGEST, OPEN, Page, Scanner, parse_page
from jfinteb.loaders.errors import DataError, UnavailableError
from jfinteb.loaders.processes import cores, process_pool

__all__ = ["Progress", "read_dump"]

T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes of the file that are read, and all its bytes."""

_PART = {True: 2 * 2**20, False: 64 * 2**20}  # bytes of the file, if it is bzip2 or not
_MOST = 2**28  # bytes that a part of a bzip2 file may unpack to; of a real one, some 16 MB
_MOST_WANTED = 2**14  # wanted pages of a part; a real one has some thousands of pages in all
_FEW = 3  # parts for which it does not pay to start processes
_PIECE = 2**20
_MOST_WORKERS = 8  # each takes some 60 MB
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)""")


@dataclass(slots=True)
class _Part(Generic[T]):
    """What is found from `start` to `stop`; `head` and `tail` are halves of pages.

    Attributes:
        first, after: bits of the first bzip2 block, and of the one after the last.
    """

    stop: int
    head: bytes = b""
    tail: bytes = b""
    pages: int = 0
    found: list[T | Dropped] = field(default_factory=list)
    first: int | None = None
    after: int = END_OF_FILE


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    """All that a process needs to know."""

    path: Path
    block: int | None  # the first of a bzip2 file
    words: tuple[str, ...]
    read: Callable[[Page], T | Dropped | None]

    def page(self, found: bytes | Dropped) -> list[T | Dropped]:
        """What `read` makes of a page, if anything."""
        if isinstance(found, Dropped):
            return [found]
        try:
            result = self.read(parse_page(found))
        except DataError as error:
            raise DataError(f"{self.path.name}: {error}; download it again") from error
        return [] if result is None else [result]


def read_dump(
    path: Path,
    words: Sequence[str],
    read: Callable[[Page], T | Dropped | None],
    progress: Progress | None = None,
    workers: int | None = None,
) -> tuple[list[T], DropReport]:
    """Results of `read` for the pages that hold one of `words` in their XML, in dump order.

    Args:
        path: the dump. Nothing of it is unpacked to disk, and no more than a part kept in memory.
        words: such as names of categories; other pages are not even parsed.
        read: a function of a module, so that other processes can call it. None: not a wanted page.
        progress: called after each part.
        workers: processes; default: one a core. A small file is read in this process.

    Raises:
        DataError: the file is cut off, damaged, not UTF-8, has a DTD, or is not an export at all.
    """
    block = first_block(path) if is_bzip2(path) else None
    job = _Job(path, block, tuple(words), read)
    size = path.stat().st_size
    report, results = DropReport(), list[T]()
    seam = Scanner(words)
    seen = b""  # what stands before the first page
    for part in _parts(job, size, workers or min(cores(), _MOST_WORKERS)):
        if block is not None:
            block = _follow(path, block, part)
        if not seen:
            seen = part.head
            _check_prologue(path, seen)
        found = [row for page in seam.feed(part.head) for row in job.page(page)] + part.found
        found += [row for page in seam.feed(part.tail) for row in job.page(page)]
        report.pages += part.pages
        report.add(row for row in found if isinstance(row, Dropped))
        results += [row for row in found if not isinstance(row, Dropped)]
        if progress is not None:
            progress(part.stop, size)
    if not seen:
        _check_prologue(path, seen)
    report.pages += seam.pages
    if block not in (None, END_OF_FILE) or b"</mediawiki>" not in seam.rest[-END:]:
        raise DataError(f"{path.name} is cut off: no </mediawiki> at its end; download it again")
    return results, report


def _follow(path: Path, block: int, part: _Part[T]) -> int:
    """Where the block after a part must start, if the part starts with block `block`."""
    here = block != END_OF_FILE and block < 8 * part.stop
    if part.first != (block if here else None):
        raise DataError(
            f"{path.name} is damaged near byte {(part.first or block) // 8}: bzip2 blocks do not "
            "follow each other; download it again"
        )
    return part.after if here else block


def _check_prologue(path: Path, prologue: bytes) -> None:
    declared = _DECLARED.search(prologue)
    encoding = declared[1].decode("ascii", "replace") if declared else "utf-8"
    if encoding.lower() not in ("utf-8", "utf8") or prologue[:2] in (b"\xff\xfe", b"\xfe\xff"):
        what = encoding if declared else "UTF-16"
        raise DataError(f"{path.name} is in {what}, expected UTF-8; convert it, or get it anew")
    if b"<!DOCTYPE" in prologue or b"<!ENTITY" in prologue:
        raise DataError(f"{path.name} has a DTD, which no dump has; it is refused, get it anew")
    _check_utf8(path, prologue)
    if b"<mediawiki" not in prologue:
        raise DataError(
            f"{path.name} is not a MediaWiki export: no <mediawiki> before its first page; "
            "expected a pages-articles dump, .xml or .xml.bz2"
        )


def _parts(job: _Job[T], size: int, workers: int) -> Iterator[_Part[T]]:
    """Parts in the order of the file; few are under way at a time."""
    step = _PART[job.block is not None]
    bounds = [(start, min(start + step, size)) for start in range(0, size, step)]
    read = partial(_read_part, job)
    if workers == 1 or len(bounds) <= _FEW:
        yield from map(read, bounds)
        return
    pool = process_pool(min(workers, len(bounds)))
    under_way: deque[Future[_Part[T]]] = deque()
    try:
        for bound in bounds:
            if len(under_way) > 2 * workers:
                yield under_way.popleft().result()
            under_way.append(pool.submit(read, bound))
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool as error:
        raise UnavailableError(
            f"a process that read {job.path.name} was ended from outside, perhaps for want of "
            "memory; run again"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _read_part(job: _Job[T], bound: tuple[int, int]) -> _Part[T]:
    start, stop = bound
    part: _Part[T] = _Part(stop)
    blocks = Blocks(job.path, start, stop) if job.block is not None else None
    scanner = Scanner(job.words)
    inside, read, wanted = False, 0, 0
    for piece in blocks if blocks is not None else _pieces(job.path, start, stop):
        data = piece
        read += len(piece)
        if not inside:
            part.head, data = _until_page(part.head + piece)
            inside = bool(data)
            first = start == 0 and (blocks is None or blocks.first == job.block)
            if first and (inside or read > LARGEST):
                _check_prologue(job.path, part.head)
                if not inside:
                    raise DataError(f"{job.path.name} begins without a page; download it again")
            _check_utf8(job.path, data)
        for page in scanner.feed(data):
            wanted += 1
            part.found += job.page(page)
            if wanted > _MOST_WANTED and blocks is not None:
                break
        if blocks is not None:
            _check_size(job.path, read, wanted, stop - start)
    part.tail, part.pages = scanner.rest, scanner.pages
    if blocks is not None:
        part.first, part.after = blocks.first, blocks.after
    return part


def _check_size(path: Path, read: int, wanted: int, packed: int) -> None:
    """Refuse a part that unpacks to far more than text does: a bomb."""
    if read > _MOST or wanted > _MOST_WANTED:
        found = (
            f"{_MOST >> 20} MiB" if read > _MOST else f"{_MOST_WANTED:,} pages of what is sought"
        )
        raise DataError(
            f"{path.name} unpacks to more than {found} within {packed / 2**20:.1f} MiB, which no "
            "dump does; download it again"
        )


def _pieces(path: Path, start: int, stop: int) -> Iterator[bytes]:
    with path.open("rb") as stream:
        stream.seek(start)
        while start < stop and (piece := stream.read(min(_PIECE, stop - start))):
            start += len(piece)
            yield piece


def _until_page(data: bytes) -> tuple[bytes, bytes]:
    """What stands before the first page, cut to the size of a page, and the rest."""
    at = data.find(OPEN)
    head, rest = (data, b"") if at == -1 else (data[:at], data[at:])
    if len(head) > LARGEST + _PIECE:
        half, close, after = head.rpartition(CLOSE)
        if not close:
            half, after = after, after[-END:]
        head = half[: LARGEST + 1] + close + after[-END:]
    return head, rest


def _check_utf8(path: Path, data: bytes) -> None:
    """One sample a part: a dump in another encoding has no page of a Japanese name at all."""
    try:
        data[: data.rfind(b">") + 1].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name} is not UTF-8 ({error.reason}); expected a dump as the publisher ships it"
        ) from error
