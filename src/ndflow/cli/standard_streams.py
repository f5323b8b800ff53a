r"""Standard streams that no command dies of, wherever they lead.

- A stream that is closed (``2>&-``) leads to nowhere instead. Otherwise the next file that is
  opened, perhaps an image, would take its number, and messages would be written into it.
- A pipe whose reader has gone, as with ``| head``, or a terminal that has, is no error: nobody is
  there to read on.
- Any other failure, such as a full disc, costs the words and not the work. For stdout, which is for
  results, it is reported at the end, and the exit code is 1. There is nowhere to report it for
  stderr.
- Characters that the encoding of a stream does not have are written as escapes (``\xfa``).

All of it holds for other packages too, which print progress bars, help and warnings.
Workers inherit the streams, so a closed one is opened for them too.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["standard_streams"]


class _Undying(io.FileIO):
    """A stream that is still there after an error, and takes the words to nowhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.lost: OSError | None = None
        self._deaf = False

    def write(self, data: Any) -> int:
        """Write, or pretend to after an error; return the number of bytes."""
        size = memoryview(data).nbytes
        while not self._deaf:
            try:
                written = super().write(data)
                if written is not None:
                    return written
                select.select([], [self], [])  # does not block, and is full for the moment
            except OSError as error:
                self._deaf = True
                terminal = stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
                if error.errno != errno.EPIPE and not (terminal and error.errno == errno.EIO):
                    self.lost = error
        return size


@contextmanager
def standard_streams() -> Iterator[Callable[[], OSError | None]]:
    """Make the standard streams safe to write to while the block runs.

    Yields
    ------
    callable
        Returns why results could not be written to stdout; None if all of them were.
    """
    for descriptor in range(3):
        _open_if_closed(descriptor)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _safe(sys.stdout, 1), _safe(sys.stderr, 2)

    def lost() -> OSError | None:
        sys.stdout.flush()
        return getattr(_raw(sys.stdout), "lost", None)

    try:
        yield lost
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)  # even onto itself; processes that are started inherit it
        os.set_inheritable(descriptor, True)
        if nowhere != descriptor:
            os.close(nowhere)


def _raw(stream: Any) -> Any:
    """Return the file of a stream, which may have no buffer (``python -u``); None if unknown."""
    file = getattr(stream, "buffer", None)
    return getattr(file, "raw", file)


def _safe(stream: Any, descriptor: int) -> Any:
    """Return a safe stream in place of one that leads to a file or a terminal, or is None."""
    if stream is None:
        encoding = "utf-8"
    elif isinstance(_raw(stream), io.FileIO):
        stream.flush()
        descriptor, encoding = stream.fileno(), stream.encoding
    else:  # of a program that calls us
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Undying(descriptor)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
