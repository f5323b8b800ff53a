"""What the user sees besides results: errors, warnings, progress. All of it on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["complain", "inform", "inform_always", "progress", "show", "warn"]

T = TypeVar("T")


def complain(message: str, details: str = "") -> None:
    """Print an error in one line, and the details below it."""
    _print(f"error: {_line(message)}")
    if details:
        _print(details.rstrip())


def warn(message: str) -> None:
    """Print a warning in one line."""
    _print(f"warning: {_line(message)}")


def inform(message: str) -> None:
    """Print a message for somebody who watches; where nobody does, nothing."""
    if sys.stderr.isatty():
        _print(_line(message))


def inform_always(message: str) -> None:
    """Print a message also where nobody watches now, but may read it later."""
    _print(_line(message))


def show(result: str) -> None:
    """Print a result, to stdout."""
    print(_line(result))


def progress(items: Iterable[T], total: int, what: str, *, hidden: bool = False) -> Iterator[T]:
    """Yield the items and show how far it is, where somebody watches and there are several."""
    if hidden or total < 2 or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        for item in items:
            yield item
            bar.advance(task)


def _line(message: str) -> str:
    """Return a message in one line, whatever a file name holds."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in message
    )


def _print(text: str) -> None:
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
