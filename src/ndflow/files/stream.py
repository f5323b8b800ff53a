"""The content of a file, compressed or not.

The reader asks for as many bytes as a header announces; a file that cannot hold that many is
refused. So a malicious file costs no more memory than an honest one of its size, and a
decompression bomb is noticed while it is being decompressed. Checksum and length are verified at
the end of the stream (`Stream.finish`); no content should be trusted before that.

A file is hashed while it is read, so that a record of what was read cannot be about another file of
the same name; and while it is written. What is hashed is its content, decompressed: compressors
need not give the same bytes twice, and a file that is compressed again is still the same.

A *fingerprint* tells whether a result has to be made again. It is the hash of everything that the
result depends on: the contents of its input files, not their dates or names; the settings; the
generation of results, a number that rises when a new version of the program computes anything
differently. It is kept in the record of the result. A run that finds the fingerprint it would write
itself leaves the result as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import stat
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from isal import igzip, isal_zlib
from numpy.typing import NDArray

from ndflow._version import RESULTS
from ndflow.errors import FileError
from ndflow.values import Record

DEFAULT_MAX_BYTES = 4 << 30  # a volume of 1024³ voxels of 32 bits

# Non-blocking: opening a pipe would otherwise wait for a writer before we could refuse it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CUT_SHORT = "the file was cut short, or its header is damaged: copy or download it again"
_AGAIN = "copy or download it again"
_GZIP = b"\x1f\x8b"
_MOST_INFLATION = 1032  # at best, two bits (a length code and a distance code) stand for 258 bytes
_BLOCK = 1 << 18  # bytes at a time
_LEVEL = 2
_GZIP_FORMAT = 31  # zlib's window bits for deflate with gzip's header, checksum and length


class Stream:
    """The content of a file, decompressed while it is read; made by `open_stream`.

    Attributes
    ----------
    path : the file.
    size : how many bytes it has, as it is stored.
    capacity : an upper bound on the number of bytes that it can hold.
    """

    def __init__(self, path: str, file: io.BufferedReader, *, max_bytes: int) -> None:
        compressed = _is_gzip(file)
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise FileError(path, "an empty file", _AGAIN)
        self.path, self.size, self._max_bytes = path, size, max_bytes
        self.capacity = size * _MOST_INFLATION if compressed else size
        unpack: Any = igzip.IGzipFile
        self._content = unpack(fileobj=file) if compressed else file
        self._taken, self._hash = 0, hashlib.sha256()

    def read(self, count: int, what: str) -> NDArray[np.uint8]:
        """Return the next bytes; refuse a file that has fewer left.

        Parameters
        ----------
        count : how many.
        what : what they are, for messages.
        """
        end = self._taken + count
        if end > self.capacity:
            most = f"holds at most {self.capacity:,} bytes"
            raise FileError(self.path, f"{most}, but its {what} would end at {end:,}", _CUT_SHORT)
        self._refuse_beyond(end)
        # The pages of an empty array take no memory until they are written to, so a header that
        # exaggerates, but by no more than deflate could compress, costs no memory either.
        buffer = np.empty(count, np.uint8)
        left = memoryview(buffer)  # type: ignore[arg-type]
        while left:
            got = self._fill(left)
            if not got:
                missing = f"ends {len(left):,} bytes before the end of its {what}"
                raise FileError(self.path, missing, _CUT_SHORT)
            left = left[got:]
        return buffer

    def finish(self, keep: int = 1 << 20) -> bytes:
        """Read and verify the rest of the file; return the first `keep` bytes of the rest."""
        rest, block = bytearray(), memoryview(bytearray(_BLOCK))
        while got := self._fill(block):
            self._refuse_beyond(self._taken)
            rest += block[: min(got, keep - len(rest))]
        return bytes(rest)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the content, decompressed; known when it has been read to its end."""
        return self._hash.hexdigest()

    def _fill(self, buffer: memoryview) -> int:
        """Read some bytes into a buffer; return how many, 0 at the end, when all is verified."""
        try:
            got: int = self._content.readinto(buffer[:_BLOCK])  # the processor's cache fits it
        except EOFError:
            cause = "cut short: its compressed data are incomplete"
            raise FileError(self.path, cause, _AGAIN) from None
        except (igzip.BadGzipFile, isal_zlib.error) as error:  # type: ignore[misc]  # isal's stub
            raise FileError(self.path, f"damaged: {error} in its gzip data", _AGAIN) from None
        self._taken += got
        self._hash.update(buffer[:got])
        return got

    def _refuse_beyond(self, size: int) -> None:
        if size > self._max_bytes:
            cause = f"its content takes {size:,} bytes or more, but at most {self._max_bytes:,} may"
            hint = "if you trust the file, raise the limit with --set max-bytes"
            raise FileError(self.path, cause, hint)


@contextmanager
def open_stream(
    path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Stream]:
    """Open a file for reading, compressed or not.

    Parameters
    ----------
    path : the file. Whether it is compressed is told by its content, not by its name.
    max_bytes : the largest content, decompressed, that is accepted.

    Raises
    ------
    FileError : if the file cannot be opened, or is empty.
    """
    with open_file(path) as file:
        yield Stream(os.fspath(path), file, max_bytes=max_bytes)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of the content of a file, decompressed, in hexadecimal."""
    with open_file(path) as file:
        if not _is_gzip(file):
            return hashlib.file_digest(file, "sha256").hexdigest()
        stream = Stream(os.fspath(path), file, max_bytes=sys.maxsize)
        stream.finish(keep=0)
        return stream.sha256


def _is_gzip(file: BinaryIO) -> bool:
    """Tell whether a file is compressed, by how it begins; leave it at its beginning."""
    begins = file.read(len(_GZIP))
    file.seek(0)
    return begins == _GZIP


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
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(path, f"cannot be opened ({reason})", "check its permissions") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise FileError(path, f"{what}, not a file", "give an ordinary file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise FileError(path, f"cannot be read ({error.strerror or error})") from None


def _missing(path: str) -> FileError:
    if not Path(path).is_symlink():
        return FileError(path, "no such file", "check the spelling, and the folder you are in")
    target = Path(path).readlink().as_posix()
    hint = f"it points to {target}: correct it, or give another file"
    if ".git/annex/objects" in target:
        hint = f"get it: datalad get {shlex.quote(path)}"
    return FileError(path, "a link to a file that is not here", hint)


# ── hashes ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FileHash(Record):
    """A file that was read, and the SHA-256 of what it holds, decompressed."""

    file: str
    sha256: str


Files = Mapping[str, Sequence[str]]  # the files of a scan, by what they are
Hashes = dict[str, tuple[FileHash, ...]]  # the same, once they are read


def contents(hashed: Hashes) -> dict[str, tuple[str, ...]]:
    """Return what the files hold, by what they are and not by what they are called."""
    return {what: tuple(file.sha256 for file in files) for what, files in hashed.items()}


def hashes(inputs: Files) -> Hashes:
    """Return the SHA-256 of every file as it is now; what was read knows its own hashes."""
    return {
        what: tuple(FileHash(name, sha256_of(name)) for name in names)
        for what, names in inputs.items()
        if names
    }


def names_of(hashed: Hashes) -> dict[str, tuple[str, ...]]:
    """Return the names of files that were read."""
    return {what: tuple(file.file for file in files) for what, files in hashed.items()}


def all_files(inputs: Files) -> list[str]:
    """Return the files that were read, whatever they are."""
    return [name for names in inputs.values() for name in names]


def fingerprint_of(**parts: Any) -> str:
    """Return one hash for everything that a result depends on, as JSON can hold it."""
    text = json.dumps({"results": RESULTS, **parts}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def identity_of(path: str | os.PathLike[str]) -> Hashable:
    """Return what all names of a file have in common: other paths to it, and links of any kind.

    It reads nothing. Of a file that does not exist, or was not fetched, only the path is known.
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return os.path.abspath(path)  # noqa: PTH100
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)


# ── gzip ──────────────────────────────────────────────────────────────────────────────────────────


class GzipWriter:
    """Compresses what is written to it into a file, which stays open; no time, and no name."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP_FORMAT)

    def write(self, data: bytes | memoryview) -> None:
        """Compress some more data."""
        self._file.write(self._compressor.compress(data))

    def finish(self) -> None:
        """Write what remains, the checksum and the length."""
        self._file.write(self._compressor.flush())
