"""Atomic writing: a file appears under its name once it is complete, and never before.

A file is written to a temporary file in the same folder, and renamed once its last byte is on the
disc. The temporary file is locked while it is written, and the lock dies with the process: one
without a lock was left behind by a process that was killed, and the next writer of the same file
removes it. (A process id would not do: in containers, the same ids come back.)
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ndflow.errors import FileError

if sys.platform != "win32":
    import fcntl

__all__ = ["AnyPath", "Hashed", "check_new", "new_file", "remove_abandoned", "sync"]

AnyPath = str | os.PathLike[str]

_PREFIX = ".ndflow-"
_BINARY = getattr(os, "O_BINARY", 0)
_NO_ROOM = {
    errno.ENOSPC: "the disc is full",
    errno.EDQUOT: "your disc quota is used up",
    errno.EFBIG: "the file is larger than is allowed here",
}


def check_new(path: AnyPath, *, force: bool = False, inputs: Iterable[AnyPath] = ()) -> Path:
    """Check that a new file may be written.

    Parameters
    ----------
    path : the file. A symbolic link stands for the file that it points to.
    force : whether an existing file may be replaced.
    inputs : files that must not be replaced, even with `force`.

    Returns
    -------
    place : the real path of the file, with symbolic links resolved.

    Raises
    ------
    FileError : if the file may not be written.
    """
    try:
        place = Path(os.path.realpath(path))
        taken = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        taken = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(path, f"cannot be written to ({reason})", "choose another name") from None
    if taken is not None:
        if any(_same(place, source) for source in inputs):
            raise FileError(path, "is one of the inputs", "choose another name for the output")
        if stat.S_ISDIR(taken):
            raise FileError(path, "a folder", "give the name of a file in it")
        if not stat.S_ISREG(taken):
            raise FileError(path, "not an ordinary file", "choose another name for the output")
        if not force:
            raise FileError(path, "exists already", "choose another name, or --force to replace it")
    folder = place.parent
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise FileError(path, f"{folder} is not a folder", "choose another folder")
        raise FileError(path, f"there is no folder {folder}", f'create it: mkdir -p "{folder}"')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _read_only(path, folder)
    return place


@contextmanager
def new_file(
    path: AnyPath, *, force: bool = False, inputs: Iterable[AnyPath] = ()
) -> Iterator[BinaryIO]:
    """Open a new file for writing, which appears under its name if the block ends without an error.

    Parameters as for `check_new`.
    """
    place = check_new(path, force=force, inputs=inputs)
    _remove(place.parent, f"{_mark(place)}*.tmp")
    try:
        temporary, file = _temporary(place)
    except OSError as error:
        raise _failure(path, place, error) from None
    try:
        with file:
            yield file
            sync(file)
            if not force and os.path.lexists(place):
                cause = "was written by another process in the meantime"
                raise FileError(path, cause, "choose another name, or --force to replace it")
            if sys.platform != "win32":  # Windows cannot rename an open file
                temporary.replace(place)
        if sys.platform == "win32":
            temporary.replace(place)
    except BaseException as error:
        with suppress(OSError):
            file.close()  # again: on a full disc, closing it once failed to flush its buffer
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise _failure(path, place, error) from None
        raise
    _sync_folder(place.parent)


def _temporary(place: Path) -> tuple[Path, BinaryIO]:
    """Return a new temporary file, open and locked.

    Between opening and locking it, another writer of the same file may take it for abandoned and
    remove it; then try again.
    """
    while True:
        path = place.with_name(f"{_mark(place)}{os.getpid()}-{secrets.token_hex(4)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
        file = os.fdopen(os.open(path, flags, 0o666), "wb")
        with suppress(OSError):  # not every file system supports locks
            _lock(file.fileno(), wait=True)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()


class Hashed:
    """A file open for writing that also hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        """Write, and return the number of bytes written."""
        self._hash.update(data)
        return self._file.write(data)

    def digest(self) -> str:
        """Return the SHA-256 of everything written so far, in hexadecimal."""
        return self._hash.hexdigest()


def sync(file: BinaryIO) -> None:
    """Flush a file to the disc; raise an OSError if there is no room for it."""
    file.flush()
    os.fsync(file.fileno())


def remove_abandoned(folder: Path) -> None:
    """Remove all temporary files in a folder whose writers have died."""
    _remove(folder, f"{_PREFIX}*.tmp")


def _mark(place: Path) -> str:
    """Return how names of a file's temporaries begin: by a hash, since names may be very long."""
    return f"{_PREFIX}{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]}-"


def _remove(folder: Path, pattern: str) -> None:
    with suppress(OSError):
        for temporary in folder.glob(pattern):
            with suppress(OSError), temporary.open("rb") as file:
                _lock(file.fileno())  # fails while its writer is alive
                temporary.unlink()


def _lock(descriptor: int, *, wait: bool = False) -> None:
    if sys.platform != "win32":  # on Windows, an open file cannot be removed anyway
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system supports this; the file itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _same(place: Path, source: AnyPath) -> bool:
    try:
        return place.samefile(source)
    except (OSError, ValueError):
        return False


def _read_only(path: AnyPath, folder: Path) -> FileError:
    hint = "check its permissions, or write elsewhere"
    return FileError(path, f"you may not write to the folder {folder}", hint)


def _failure(path: AnyPath, place: Path, error: OSError) -> FileError:
    if error.errno in _NO_ROOM:
        return FileError(path, _NO_ROOM[error.errno], "make room, or write elsewhere")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _read_only(path, place.parent)
    return FileError(path, f"cannot be written ({error.strerror or error})", "write elsewhere")
