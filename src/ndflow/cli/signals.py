"""Stop on Ctrl-C (SIGINT), or when the system asks for it (SIGTERM).

A signal raises an exception wherever the program happens to be. If that is in a destructor, Python
ignores the exception and the program would continue; so signals are remembered, and
`raise_if_signalled` raises the exception again after each scan.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

__all__ = ["Terminated", "raise_if_signalled", "signals_raised"]

_received: list[int] = []


class Terminated(BaseException):
    """The system has asked the program to stop (SIGTERM)."""


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT and Terminated on SIGTERM while the block runs."""
    _received.clear()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, _handle) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
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
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _unraisable(error: Any) -> None:
    """Silence 'exception ignored' notes caused by our signals."""
    if not isinstance(error.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(error)
