"""What a command prints: results to stdout; errors, warnings and progress to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def print_error(message: str, details: str = "") -> None:
    """Print an error on one line, and details below it."""
    _print(f"error: {_line(message)}")
    if details:
        _print(details.rstrip())


def print_warning(message: str) -> None:
    """Print a warning on one line."""
    _print(f"warning: {_line(message)}")


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
    """Return a display of progress bars, one per task, with the rate and the time left.

    Until the time left can be estimated, the time that has passed is shown.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many scans, or parts of something else, per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            if not speed:
                return Text("")
            slow = speed < 0.1
            digits = f"{speed:,.0f}" if speed > 100 else f"{1 / speed if slow else speed:.3g}"
            return Text(f"{digits} s each" if slow else f"{digits}/s", "progress.data.speed")

    class Time(ProgressColumn):
        """The time left, or the time that it took."""

        max_refresh = 0.5  # seconds; estimates that flicker cannot be read

        def render(self, task: Task) -> Text:
            if task.finished:
                return Text(_clock(task.finished_time or 0), style="progress.elapsed")
            if task.time_remaining is not None:
                left = f"{_clock(task.time_remaining)} left"
                return Text(left, style="progress.remaining")
            return Text(f"{_clock(task.elapsed or 0)} so far", style="progress.elapsed")

    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        Time(),
        console=Console(stderr=True),
    )


def _clock(seconds: float) -> str:
    """Return a duration as clocks show it: 0:01:30."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _line(message: str) -> str:
    """Return a message on one line, even if a file name in it contains line breaks."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in message
    )


def _print(text: str) -> None:
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
