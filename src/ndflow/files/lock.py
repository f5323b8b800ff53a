"""Locks on folders: one run at a time writes to each, and none while another reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from ndflow.errors import FileError

if sys.platform != "win32":
    import fcntl

__all__ = ["folder_lock", "reading"]

_NAME = ".ndflow-lock"


@contextmanager
def folder_lock(
    folder: Path, *, shared: bool = False, wait: bool = False, name: str = _NAME
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
    if sys.platform == "win32":
        yield
        return
    try:
        file: IO[bytes] = (folder / name).open("ab")
    except OSError as error:
        cause = f"you may not write to the folder ({error.strerror})"
        raise FileError(folder, cause, "check its permissions, or write elsewhere") from None
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
            if (file := _lock_file(folder)) is not None:
                stack.enter_context(_locked(folder, file, shared=True, wait=False))
        yield


def _lock_file(folder: Path) -> IO[bytes] | None:
    """Open the lock of a folder that may be read-only; None where there is no lock to open."""
    for mode in () if sys.platform == "win32" else ("ab", "rb"):
        with suppress(OSError):
            return cast(IO[bytes], (folder / _NAME).open(mode))
    return None


@contextmanager
def _locked(folder: Path, file: IO[bytes], *, shared: bool, wait: bool) -> Iterator[None]:
    with file:
        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file.fileno(), operation if wait else operation | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait until it has ended, or choose another folder"
            raise FileError(folder, "another run of ndflow is at work in it", hint) from None
        except OSError:
            pass  # not every file system supports locks
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(file.fileno(), fcntl.LOCK_UN)
