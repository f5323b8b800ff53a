"""Stop on Ctrl-C (SIGINT), when the system asks for it (SIGTERM), or with the terminal (SIGHUP).

A signal raises an exception wherever the program happens to be. If that is in a destructor, Python
ignores the exception and the program would continue; so signals are remembered, and
`raise_if_signalled` raises the exception again after each scan. Libraries may turn it into another
exception; what fails after a signal counts as stopped by it.

A signal that is ignored when the program starts stays ignored: that is how ``nohup`` keeps a run
alive, and how shells keep Ctrl-C from jobs in the background.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_received: list[int] = []
_MOMENT = 0.5  # seconds by which a signal may reach us later than our workers


_NUMBERS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Terminated(BaseException):
    """The system has asked the program to stop (SIGTERM), or the terminal has gone (SIGHUP).

    Attributes
    ----------
    code : the exit code, as shells count: 128 and the number of the signal.
    """

    def __init__(self, number: int) -> None:
        gone = signal.Signals(number).name == "SIGHUP"
        super().__init__("the terminal was closed" if gone else "terminated")
        self.code = 128 + number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and Terminated on the others, while the block runs."""
    _received.clear()
    heeded = [number for number in _NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _handle) for number in heeded}
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    of_threads, threading.excepthook = threading.excepthook, _failed_thread
    try:
        yield
    except Exception:
        raise_if_signalled()  # what fails after a signal fails because of it
        raise
    finally:
        sys.unraisablehook, threading.excepthook = hook, of_threads
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_signalled() -> None:
    """Raise the exception of a signal that has arrived but was ignored by a destructor."""
    if _received:
        _stop(_received[-1])


def _handle(number: int, _: FrameType | None) -> None:
    _received.append(number)
    _stop(number)


def _stop(number: int) -> NoReturn:
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def _failed_thread(error: threading.ExceptHookArgs) -> None:
    """Silence threads that watch workers, where these got a signal too and have ended."""
    time.sleep(_MOMENT)
    if not _received:
        threading.__excepthook__(error)


def _unraisable(error: Any) -> None:
    """Silence 'exception ignored' notes caused by our signals."""
    if not isinstance(error.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(error)
