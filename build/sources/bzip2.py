"""Any part of a bzip2 file, alone: its blocks are decoded one by one, whatever streams they are in.

A block starts at any bit, so parts find theirs by the 48-bit mark at its start. A part owns the
blocks that start in it and tells where its first one is and where the next part's must be: where
all parts agree, no mark was a chance hit in packed data, and nothing is left out or read twice.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from pathlib import Path

from jfinteb.loaders.errors import DataError

__all__ = ["END_OF_FILE", "Blocks", "first_block", "is_bzip2"]

END_OF_FILE = -1
_BLOCK, _END = 0x314159265359, 0x177245385090  # digits of pi, and of its square root
_MARK, _SUM = 48, 32  # bits: a mark, and the checksum after it
_REACH = 5 * 2**18  # bytes that the last block of a part may take beyond it; one packs 900 kB
_PIECE = 2**20
_TRIES = 4  # marks after a block that may be its end, should the first be a chance hit

Mark = tuple[int, int]  # bit, _BLOCK or _END
Opened = tuple[bz2.BZ2Decompressor, bytes, int]


def is_bzip2(path: Path) -> bool:
    """Whether the file starts like one."""
    with path.open("rb") as stream:
        return stream.read(3) == b"BZh"


def first_block(path: Path) -> int:
    """Bit of the file's first block, `END_OF_FILE` if it has none.

    Raises:
        DataError: the file does not end where a bzip2 stream ends.
    """
    with path.open("rb") as stream:
        head = stream.read(4096)
        stream.seek(max(0, path.stat().st_size - 64))
        tail = stream.read()
    ends = [_after_end(bit) for bit, mark in _marks(tail) if mark == _END]
    if not ends or ends[-1] != len(tail):
        raise DataError(
            f"{path.name} is cut off: its last bytes are not the end of a bzip2 stream; "
            "download it again"
        )
    return _first_of_stream(head, 0)


class Blocks:
    """Decoded bytes of the blocks that start in `start <= byte < stop`; iterate once.

    Attributes:
        first: bit where the first of them starts; None if there is none.
        after: bit where the block after the last one starts, or `END_OF_FILE`.
    """

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self.first: int | None = None
        self.after = END_OF_FILE
        self._path, self._start, self._stop = path, start, stop

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as stream:
            stream.seek(self._start)
            data = stream.read(self._stop - self._start + _REACH)
        marks = _marks(data)
        places = {bit: n for n, (bit, _) in enumerate(marks)}
        base, limit = 8 * self._start, 8 * (self._stop - self._start)
        bit, opened = _first_open(data, marks, limit)
        if opened is None:
            return
        self.first = base + bit
        while opened is not None:
            decoder, piece, end = opened
            yield piece
            try:
                while not decoder.eof:
                    yield decoder.decompress(b"", _PIECE)
            except OSError as error:
                raise self._damaged(base + bit) from error
            bit, mark = marks[end]
            if mark == _END:
                bit = _first_of_stream(data, _after_end(bit))
            self.after = END_OF_FILE if bit == END_OF_FILE else base + bit
            if bit == END_OF_FILE or bit >= limit:
                return
            opened = _open_block(data, marks, places[bit]) if bit in places else None
        raise self._damaged(self.after)

    def _damaged(self, bit: int) -> DataError:
        return DataError(
            f"{self._path.name} is damaged near byte {bit // 8}: no bzip2 block can be read there; "
            "download it again"
        )


def _first_open(data: bytes, marks: list[Mark], limit: int) -> tuple[int, Opened | None]:
    """The first block before bit `limit` that can be decoded: other marks are chance hits."""
    for n, (bit, mark) in enumerate(marks):
        if bit >= limit:
            break
        if mark == _BLOCK and (opened := _open_block(data, marks, n)) is not None:
            return bit, opened
    return 0, None


def _open_block(data: bytes, marks: list[Mark], n: int) -> Opened | None:
    """A decoder that stands in block `n`, its first bytes, and the mark that ends the block."""
    start = marks[n][0]
    for end in range(n + 1, min(n + 1 + _TRIES, len(marks))):
        decoder = bz2.BZ2Decompressor()
        try:
            piece = decoder.decompress(_as_stream(data, start, marks[end][0]), _PIECE)
        except OSError:
            continue
        if piece:
            return decoder, piece, end
    return None


def _as_stream(data: bytes, start: int, stop: int) -> bytes:
    """Bits of one block as a bzip2 stream of their own: its checksum is the stream's."""
    count = stop - start
    packed = _bits(data, start, count) << _MARK | _END
    packed = packed << _SUM | _bits(data, start + _MARK, _SUM)
    count += _MARK + _SUM
    return b"BZh9" + (packed << -count % 8).to_bytes((count + 7) // 8, "big")


def _bits(data: bytes, start: int, count: int) -> int:
    first, last = start // 8, (start + count + 7) // 8
    value = int.from_bytes(data[first:last], "big") >> (8 * last - start - count)
    return value & ((1 << count) - 1)


def _marks(data: bytes) -> list[Mark]:
    """All marks, in order. A mark covers five whole bytes wherever it starts: these are sought."""
    found = []
    for mark in (_BLOCK, _END):
        for shift in range(8):
            middle = (mark >> shift & (1 << 40) - 1).to_bytes(5, "big")
            at = data.find(middle, 1)
            while at != -1:
                bit = 8 * (at - 1) + shift
                if bit + _MARK <= 8 * len(data) and _bits(data, bit, _MARK) == mark:
                    found.append((bit, mark))
                at = data.find(middle, at + 1)
    return sorted(found)


def _after_end(bit: int) -> int:
    """First byte after a stream whose end mark is at `bit`."""
    return (bit + _MARK + _SUM + 7) // 8


def _first_of_stream(data: bytes, byte: int) -> int:
    """Bit of the first block of the stream that starts at a byte; empty streams are passed over."""
    while data[byte : byte + 3] == b"BZh":
        bit = 8 * (byte + 4)
        if _bits(data, bit, _MARK) != _END:
            return bit
        byte = _after_end(bit)
    return END_OF_FILE
