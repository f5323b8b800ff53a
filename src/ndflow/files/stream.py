"""The content of a file, compressed or not.

The reader asks for as many bytes as a header announces; a file that cannot hold that many is
refused. So a malicious file costs no more memory than an honest one of its size, and a
decompression bomb is noticed while it is being decompressed. Checksum and length are verified at
the end of the stream (`Stream.finish`); no content should be trusted before that. The file is
hashed while it is read: a record of what was read cannot be about another file of the same name.
"""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.gzip import BLOCK, GZIP, MOST_INFLATION, decompressed, is_compressed

__all__ = ["DEFAULT_MAX_BYTES", "Stream", "open_file", "open_stream", "sha256_of"]

DEFAULT_MAX_BYTES = 4 << 30  # a volume of 1024³ voxels of 32 bits

# Non-blocking: opening a pipe would otherwise wait for a writer before we could refuse it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NIFTI_SIZES = {size.to_bytes(4, order) for size in (348, 540) for order in ("little", "big")}
_MGH_VERSION = b"\0\0\0\1"
_AGAIN = "the file was cut short, or its header is damaged: copy or download it again"


class _Hashing:
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def read(self, most: int) -> bytes:
        """Return the next bytes, none at the end."""
        data = self._file.read(most)
        self.digest.update(data)
        return data


class Stream:
    """The content of a file, decompressed while it is read; made by `open_stream`.

    Attributes
    ----------
    path : the file.
    capacity : an upper bound on the number of bytes that it can hold.
    """

    def __init__(self, path: str, file: BinaryIO, *, max_bytes: int) -> None:
        compressed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        self.path, self._max_bytes = path, max_bytes
        self.capacity = size * MOST_INFLATION if compressed else size
        source = self._source = _Hashing(file)
        plain = iter(lambda: source.read(BLOCK), b"")
        self._pieces = decompressed(path, source) if compressed else plain
        self._ready, self._taken = memoryview(b""), 0

    def read(self, count: int, what: str) -> NDArray[np.uint8]:
        """Return the next bytes; refuse a file that has fewer left.

        Parameters
        ----------
        count : how many.
        what : what they are, for messages.
        """
        end = self._taken + count
        if end > self.capacity:
            raise FileError(
                self.path,
                f"holds at most {self.capacity:,} bytes, but its {what} would end at byte {end:,}",
                _AGAIN,
            )
        if end > self._max_bytes:
            raise self._too_large(f"{end:,}")
        # The pages of an empty array take no memory until they are written to, so a header that
        # exaggerates, but by no more than deflate could compress, costs no memory either.
        buffer = np.empty(count, np.uint8)
        filled = 0
        while filled < count:
            piece = self._next(count - filled)
            if not piece:
                missing = f"ends {count - filled:,} bytes before the end of its {what}"
                raise FileError(self.path, missing, _AGAIN)
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
        return buffer

    def finish(self, keep: int = BLOCK) -> bytes:
        """Read and verify the rest of the file; return the first `keep` bytes of the rest."""
        rest = bytearray()
        while piece := self._next(BLOCK):
            if self._taken > self._max_bytes:
                raise self._too_large(f"at least {self._taken:,}")
            rest += piece[: keep - len(rest)]
        return bytes(rest)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file as it is stored; known when it has been read to its end."""
        return self._source.digest.hexdigest()

    def _next(self, most: int) -> memoryview:
        while not self._ready:
            data = next(self._pieces, None)
            if data is None:
                break
            self._ready = memoryview(data)
        piece, self._ready = self._ready[:most], self._ready[most:]
        self._taken += len(piece)
        return piece

    def _too_large(self, size: str) -> FileError:
        return FileError(
            self.path,
            f"its content takes {size} bytes, more than the limit of {self._max_bytes:,}",
            "if you trust the file, raise the limit with --max-bytes",
        )


@contextmanager
def open_stream(
    path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Stream]:
    """Open a file for reading, compressed or not.

    Parameters
    ----------
    path : the file. Whether it is compressed is told by its content, which must agree with a name
        that ends with ``.gz`` or ``.mgz``.
    max_bytes : the largest content, decompressed, that is accepted.

    Raises
    ------
    FileError : if the file cannot be opened, is empty, or is not compressed although named so.
    """
    name = os.fspath(path)
    with open_file(name) as file:
        head = file.read(4)
        file.seek(0)
        if not head:
            raise FileError(name, "an empty file", "copy or download it again")
        if is_compressed(name) and not head.startswith(GZIP):
            raise _not_compressed(name, head)
        yield Stream(name, file, max_bytes=max_bytes)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as it is stored, not decompressed, in hexadecimal."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading, in binary mode.

    Raises
    ------
    FileError : if it cannot be opened, is not a regular file, or reading fails within the block.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise _missing(os.fspath(path)) from None
    except PermissionError:
        raise FileError(path, "you may not read it", "check its permissions") from None
    except (OSError, ValueError) as error:
        raise FileError(path, f"cannot be opened ({_reason(error)})") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise FileError(path, f"{what}, not a file", "give an ordinary file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise FileError(path, f"cannot be read ({_reason(error)})") from None


def _missing(path: str) -> FileError:
    if not Path(path).is_symlink():
        return FileError(path, "no such file", "check the spelling, and the folder you are in")
    target = Path(path).readlink().as_posix()
    hint = f"it points to {target}: correct it, or give another file"
    if ".git/annex/objects" in target:
        hint = f"get it: datalad get {shlex.quote(path)}"
    return FileError(path, "a link to a file that is not here", hint)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _not_compressed(path: str, head: bytes) -> FileError:
    if head in _NIFTI_SIZES or head == _MGH_VERSION:
        plain = path[:-3] if path.lower().endswith(".gz") else path[:-1] + "h"
        cause = "not compressed, though its name says so"
        return FileError(path, cause, f"rename it to {Path(plain).name}")
    cause = f"not a gzip file, though its name says so: it begins with {head!r}"
    return FileError(path, cause, "check that it is the right file, or copy it again")
