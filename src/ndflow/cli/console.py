"""What a command prints: results to stdout; errors, warnings and progress to stderr.

Whatever these lead to, printing does not fail, see `ndflow.cli.standard_streams`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

__all__ = [
    "bars",
    "print_error",
    "print_line",
    "print_result",
    "print_status",
    "print_text",
    "print_warning",
    "progress",
]

T = TypeVar("T")


def print_error(message: str, details: str = "") -> None:
    """Print an error on one line, and details below it."""
    _print(f"error: {_line(message)}")
    if details:
        _print(details.rstrip())


def print_warning(message: str) -> None:
    """Print a warning on one line."""
    _print(f"warning: {_line(message)}")


def print_status(message: str) -> None:
    """Print a message, but only to a terminal."""
    if sys.stderr.isatty():
        _print(_line(message))


def print_line(message: str) -> None:
    """Print a message, to a terminal or a log."""
    _print(_line(message))


def print_result(result: str) -> None:
    """Print a result on one line, to stdout."""
    print_text(f"{_line(result)}\n")


def print_text(text: str) -> None:
    """Print a text to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def progress(items: Iterable[T], total: int, what: str, *, hidden: bool = False) -> Iterator[T]:
    """Yield the items, with a progress bar if there are several and stderr is a terminal."""
    if hidden or total < 2 or not sys.stderr.isatty():
        yield from items
        return
    with bars() as bar:
        task = bar.add_task(what, total=total)
        for item in items:
            yield item
            bar.advance(task)


def bars() -> Any:
    """Return a display of progress bars, one per task, with the rate and the time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many scans per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if not speed else f"{speed:.3g}/s", style="progress.data.speed")

    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
    )


def _line(message: str) -> str:
    """Return a message on one line, even if a file name in it contains line breaks."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in message
    )


def _print(text: str) -> None:
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
