"""gzip: verified when it is read, and reproducible when it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

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
MOST_INFLATION = 1032  # at best, two bits (a length code and a distance code) stand for 258 bytes
BLOCK = 1 << 20  # decompressed bytes at a time

_COMPRESSED_BLOCK = 1 << 17  # compressed bytes read at a time
_WRITE_BLOCK = 1 << 18  # bytes compressed at a time
_LEVEL = 2
_GZIP_FORMAT = 31  # zlib's window bits for deflate with gzip's header, checksum and length
_AGAIN = "copy or download it again"


def is_compressed(name: str) -> bool:
    """Return whether a file is compressed, by its name."""
    return name.lower().endswith((".gz", ".mgz"))


def decompressed(path: str, file: Readable) -> Iterator[bytes]:
    """Yield the content of a gzip file in pieces, and verify it.

    The checksum comes last in the file, so no content is verified before the iterator has ended.

    Parameters
    ----------
    path : the name of the file, for messages.
    file : the file, open for reading.

    Raises
    ------
    FileError : if the file is cut short or damaged, or something follows the compressed data.
    """
    data = file.read(_COMPRESSED_BLOCK)
    while data:  # a gzip file may consist of several members
        member = isal_zlib.decompressobj(_GZIP_FORMAT)
        while not member.eof:
            data = data or file.read(_COMPRESSED_BLOCK)
            if not data:
                raise FileError(path, "cut short: its compressed data are incomplete", _AGAIN)
            try:
                piece = member.decompress(data, BLOCK)
            except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub: not a class
                raise FileError(path, _damage(str(error)), _AGAIN) from None
            data = member.unconsumed_tail
            yield piece
        data = member.unused_data.lstrip(b"\0")
        while not data and (more := file.read(_COMPRESSED_BLOCK)):
            data = more.lstrip(b"\0")  # gzip allows padding with zeros
        if len(data) == 1:
            data += file.read(1)  # a member begins with a mark of two bytes
        if data and not data.startswith(GZIP):
            raise FileError(path, "trailing garbage: something follows its compressed data", _AGAIN)


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, most: int, /) -> bytes:
        """Return the next bytes, none at the end."""


class Sink(Protocol):
    """Anything that bytes can be written to."""

    def write(self, data: bytes, /) -> int:
        """Write, and return the number of bytes written."""


class GzipWriter:
    """Compresses what is written to it, in blocks of a fixed size; made by `gzip_writer`."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._block, self._filled = memoryview(bytearray(_WRITE_BLOCK)), 0
        self._compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP_FORMAT)

    def write(self, data: bytes | memoryview) -> None:
        """Compress some more data."""
        rest = memoryview(data).cast("B")
        while rest:
            taken = rest[: _WRITE_BLOCK - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            rest = rest[len(taken) :]
            if self._filled == _WRITE_BLOCK:
                self._file.write(self._compressor.compress(self._block))
                self._filled = 0

    def finish(self) -> None:
        """Write what remains, the checksum and the length."""
        self._file.write(self._compressor.compress(self._block[: self._filled]))
        self._file.write(self._compressor.flush())


@contextmanager
def gzip_writer(file: Sink) -> Iterator[GzipWriter]:
    """Compress into `file`, which stays open.

    The same content gives the same bytes: neither a time nor a name is written, and the compressor,
    whose output depends on how its input is split, always gets blocks of the same size.
    """
    writer = GzipWriter(file)
    yield writer
    writer.finish()


def _damage(error: str) -> str:
    if "checksum" in error:
        return "damaged: its checksum (CRC) or length does not match its content"
    return f"damaged: its compressed data are invalid ({error})"
