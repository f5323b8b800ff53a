"""Atomic writing, and locks on folders.

A file appears under its name once it is complete, and never before. It is written to a temporary
file in the same folder, and renamed once its last byte is on the disc. The temporary file is locked
while it is written, and the lock dies with the process: one without a lock was left behind by a
process that was killed, and the next writer of the same file removes it. (A process id would not
do: in containers, the same ids come back.)

A lock on a folder makes sure that one run at a time writes to it, and none while another reads.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from ndflow.errors import FileError

if sys.platform != "win32":
    import fcntl

AnyPath = str | os.PathLike[str]

_PREFIX = ".ndflow-"
_LOCK_NAME = ".ndflow-lock"


def check_new(path: AnyPath, *, force: bool = False, inputs: Iterable[AnyPath] = ()) -> Path:
    """Check that a new file may be written.

    Parameters
    ----------
    path : the file. A symbolic link is refused: what it points to is not ours.
    force : whether an existing file may be replaced.
    inputs : files that must not be replaced, even with `force`.

    Returns
    -------
    place : the absolute path of the file.

    Raises
    ------
    FileError : if the file may not be written.
    """
    try:
        place = Path(path).absolute()
        taken = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        taken = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(path, f"cannot be written to ({reason})", "choose another name") from None
    if taken is not None:
        if stat.S_ISLNK(taken):
            raise _linked(path)
        if not stat.S_ISREG(taken):
            what = "a folder" if stat.S_ISDIR(taken) else "not an ordinary file"
            raise FileError(path, what, "choose another name for the output")
        if any(os.path.exists(source) and place.samefile(source) for source in inputs):  # noqa: PTH110
            raise FileError(path, "is one of the inputs", "choose another name for the output")
        if not force:
            raise FileError(path, "exists already", "choose another name, or --force to replace it")
    folder = place.parent
    if not folder.is_dir():
        cause = f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
        raise FileError(path, cause, f'create it: mkdir -p "{folder}"')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _failure(path, place, PermissionError(errno.EACCES, ""))
    return place


def refuse_links(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse paths below a folder that are symbolic links, or go through one that lies in it."""
    seen = {folder}
    for path in paths:
        while path not in seen:
            if path.is_symlink():
                raise _linked(path)
            seen.add(path)
            path = path.parent


def _linked(path: AnyPath) -> FileError:
    hint = "remove the link, or choose another place for the results"
    return FileError(path, "a symbolic link, which ndflow does not write through", hint)


@contextmanager
def new_file(
    path: AnyPath, *, force: bool = False, inputs: Iterable[AnyPath] = ()
) -> Iterator[BinaryIO]:
    """Open a new file for writing, which appears under its name if the block ends without an error.

    Parameters as for `check_new`.
    """
    place = check_new(path, force=force, inputs=inputs)
    remove_abandoned(place.parent, f"{_mark(place)}*.tmp")
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
            if sys.platform == "win32":
                file.close()  # which cannot be renamed there while it is open
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
        file = path.open("xb")
        with suppress(OSError):  # not every file system supports locks
            _lock(file, wait=True)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()


def sync(file: BinaryIO) -> None:
    """Flush a file to the disc; raise an OSError if there is no room for it."""
    file.flush()
    os.fsync(file.fileno())


def remove_abandoned(folder: Path, pattern: str = f"{_PREFIX}*.tmp") -> None:
    """Remove all temporary files in a folder whose writers have died."""
    with suppress(OSError):
        for temporary in folder.glob(pattern):
            with suppress(OSError), temporary.open("rb") as file:
                _lock(file)  # fails while its writer is alive
                temporary.unlink()


def _mark(place: Path) -> str:
    """Return how names of a file's temporaries begin: by a hash, since names may be very long."""
    return f"{_PREFIX}{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]}-"


def _lock(file: IO[bytes], *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file; raise an OSError where that fails, as while others hold the lock."""
    if sys.platform != "win32":  # there, an open file cannot be removed anyway
        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file.fileno(), operation if wait else operation | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system supports this; the file itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _failure(path: AnyPath, place: Path, error: OSError) -> FileError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        cause = f"you may not write to the folder {place.parent}"
        return FileError(path, cause, "check its permissions, or write elsewhere")
    full = error.errno == errno.ENOSPC
    cause = "the disc is full" if full else f"cannot be written ({error.strerror or error})"
    return FileError(path, cause, "make room, or write elsewhere")


# ── locks on folders ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def folder_lock(
    folder: Path, *, shared: bool = False, wait: bool = False, name: str = _LOCK_NAME
) -> Iterator[None]:
    """Lock a folder while the block runs.

    The lock dies with its process, so nothing has to be cleaned up after a crash. Windows has no
    such locks: there, runs do not notice each other.

    Parameters
    ----------
    folder : the folder, which must exist.
    shared : whether other runs may hold a shared lock at the same time.
    wait : whether to wait until another run has released the folder.
    name : the name of the lock file in it.

    Raises
    ------
    FileError : if another run holds the lock, unless `wait` is set.
    """
    try:
        file = (folder / name).open("ab")
    except OSError as error:
        raise _failure(folder, folder / name, error) from None
    with _locked(folder, file, shared=shared, wait=wait):
        yield


@contextmanager
def reading(folders: Iterable[Path]) -> Iterator[None]:
    """Keep runs from writing to some folders while the block reads them.

    A folder that we may not write to is read without a lock if nobody has locked it before: others
    may not write to it either.

    Raises
    ------
    FileError : if another run is writing to one of them.
    """
    with ExitStack() as stack:
        for folder in folders:
            for mode in ("ab", "rb"):
                with suppress(OSError):
                    file = (folder / _LOCK_NAME).open(mode)
                    stack.enter_context(_locked(folder, file, shared=True, wait=False))
                    break
        yield


@contextmanager
def _locked(folder: Path, file: IO[bytes], *, shared: bool, wait: bool) -> Iterator[None]:
    with file:
        try:
            _lock(file, shared=shared, wait=wait)
        except BlockingIOError:
            hint = "wait until it has ended, or choose another folder"
            raise FileError(folder, "another run of ndflow is at work in it", hint) from None
        except OSError:
            pass  # not every file system supports locks
        try:
            yield
        finally:
            if sys.platform != "win32":
                with suppress(OSError):  # closing it is not enough while a child holds it open
                    fcntl.flock(file.fileno(), fcntl.LOCK_UN)
