"""Compressed bytes: verified when they are read, and always the same when they are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from isal import isal_zlib

from ndflow.errors import FileError

__all__ = [
    "BLOCK",
    "GZIP",
    "MOST_INFLATION",
    "GzipWriter",
    "decompressed",
    "gzip_writer",
    "is_compressed",
]

GZIP = b"\x1f\x8b"
MOST_INFLATION = 1032  # a code for 258 bytes and one for their distance take two bits at the least
BLOCK = 1 << 20  # unpacked bytes at a time

_PACKED = 1 << 17
_BLOCK = 1 << 18  # bytes that are compressed at a time
_LEVEL, _GZIP_FORMAT = 2, 31  # zlib's number for deflate with gzip's header, checksum and length
_AGAIN = "copy or download it again"


def is_compressed(name: str) -> bool:
    """Tell whether the name of a file says that it is compressed."""
    return name.lower().endswith((".gz", ".mgz"))


def decompressed(path: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a compressed file in pieces; all of it is verified once it has ended."""
    data = file.read(_PACKED)
    while data:  # a gzip file may have several members, one after the other
        member = isal_zlib.decompressobj(_GZIP_FORMAT)
        while not member.eof:
            data = data or file.read(_PACKED)
            if not data:
                raise FileError(path, "cut short: its compressed data do not end", _AGAIN)
            try:
                piece = member.decompress(data, BLOCK)
            except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub: not a class
                raise FileError(path, _damage(str(error)), _AGAIN) from None
            data = member.unconsumed_tail
            yield piece
        data = member.unused_data.lstrip(b"\0")
        while not data and (more := file.read(_PACKED)):
            data = more.lstrip(b"\0")  # zeros are padding, which gzip allows
        if len(data) == 1:
            data += file.read(1)  # the two bytes that mark a member must not be torn apart
        if data and not data.startswith(GZIP):
            raise FileError(path, "trailing garbage: something follows its compressed data", _AGAIN)


class Sink(Protocol):
    """What takes bytes."""

    def write(self, data: bytes, /) -> int:
        """Take some more."""


class GzipWriter:
    """Compresses what it is given, in blocks of one size; made by `gzip_writer`."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._block, self._filled = memoryview(bytearray(_BLOCK)), 0
        self._packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP_FORMAT)

    def write(self, data: bytes | memoryview) -> None:
        """Take some more content."""
        rest = memoryview(data).cast("B")
        while rest:
            taken = rest[: _BLOCK - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            rest = rest[len(taken) :]
            if self._filled == _BLOCK:
                self._file.write(self._packer.compress(self._block))
                self._filled = 0

    def finish(self) -> None:
        """Write what is left, the checksum and the length."""
        self._file.write(self._packer.compress(self._block[: self._filled]))
        self._file.write(self._packer.flush())


@contextmanager
def gzip_writer(file: Sink) -> Iterator[GzipWriter]:
    """Compress into `file`, which stays open.

    The same content gives the same bytes: no time and no name are written, and the compressor,
    whose result depends on how its input is cut, always gets blocks of one size.
    """
    writer = GzipWriter(file)
    yield writer
    writer.finish()


def _damage(error: str) -> str:
    if "checksum" in error:
        return "damaged: its checksum (CRC) or length is not that of its content"
    return f"damaged: its compressed data make no sense ({error})"
