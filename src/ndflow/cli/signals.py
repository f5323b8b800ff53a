"""Stopping when asked to: by Ctrl-C, or by the system.

A signal raises an exception wherever the program happens to be. If that is a destructor, Python
drops the exception, and the program would go on as if nothing had been said; so it is asked again
after each scan (`raise_if_signalled`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

__all__ = ["Terminated", "raise_if_signalled", "signals_raised"]

_asked: list[int] = []


class Terminated(BaseException):
    """The system asks us to stop."""


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt or Terminated when asked to stop, while the block runs."""
    _asked.clear()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, _heard) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, _silent
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_signalled() -> None:
    """Stop, if that was asked for and not heard."""
    if _asked:
        _stop(_asked[-1])


def _heard(number: int, _: FrameType | None) -> None:
    _asked.append(number)
    _stop(number)


def _stop(number: int) -> NoReturn:
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _silent(error: Any) -> None:
    """Leave out of what Python says about destructors that they were asked to stop."""
    if not isinstance(error.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(error)
