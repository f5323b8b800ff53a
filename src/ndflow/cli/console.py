"""What a command prints: results to stdout; errors, warnings and progress to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from ndflow.cli.signals import raise_if_signalled

if TYPE_CHECKING:
    from ndflow.cli.options import Verbosity
    from ndflow.study.tasks import Outcome


def print_error(message: str, details: str = "") -> None:
    """Print an error on one line, and details below it."""
    print_line(f"error: {message}")
    if details:
        _print(details.rstrip())


def print_line(message: str) -> None:
    """Print a message on one line, to a terminal or a log."""
    _print(_line(message))


def print_result(result: str) -> None:
    """Print a result on one line, to stdout."""
    print_text(f"{_line(result)}\n")


def print_text(text: str) -> None:
    """Print a text to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _line(message: str) -> str:
    """Return a message on one line, even if a file name in it contains line breaks."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in message
    )


def _print(text: str) -> None:
    print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)


# ── progress ──────────────────────────────────────────────────────────────────────────────────────

# What a step goes through, if not scans; nothing where its parts mean nothing to the user.
_UNITS = {
    "references": "",
    "classify": "condition",
    "shuffle sites": "shuffle",
    "figures": "figure",
    "page": "",
    "verify": "record",
}
_INTERVAL = 30.0  # seconds between two lines where there is no terminal


def _warnings(outcome: Outcome) -> Iterable[str]:
    return getattr(outcome.result, "warnings", ())


class ProgressDisplay:
    """Progress bars on a terminal, one per step of the work; lines elsewhere.

    Warnings and failures are printed as they occur; doubts about the scans of a study are counted
    at the end, see `ndflow.cli.endings`.

    Parameters
    ----------
    verbosity : how much to print.
    lines : whether to print how far the work has come where there is no terminal.
    warnings_of : returns what to print about the result of a scan.
    """

    def __init__(
        self,
        verbosity: Verbosity,
        *,
        lines: bool = True,
        warnings_of: Callable[[Outcome], Iterable[str]] = _warnings,
    ) -> None:
        self._verbosity = verbosity
        self._lines, self._warnings_of = lines and not verbosity.quiet, warnings_of
        self._on_terminal = sys.stderr.isatty() and not verbosity.quiet
        self._stack = ExitStack()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._said: set[str] = set()
        self._total = self._done = 0
        self._unit = "scan"
        self._started = self._printed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def begin(self, stage: str, total: int) -> None:
        """Note that a step over `total` scans begins."""
        self._total, self._done = total, 0
        self._unit = _UNITS.get(stage.rpartition(": ")[2], "scan")  # in the demo: of a study
        self._started = self._printed = time.monotonic()
        if self._on_terminal:
            if self._bars is None:
                self._bars = self._stack.enter_context(_bars())
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        elif self._lines:
            print_line(f"{stage}: {self._count()}" if self._unit else stage)

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note the outcome of a scan."""
        raise_if_signalled()
        self._done += 1
        if outcome.failure:
            self._verbosity.error(outcome.failure.message, outcome.failure.details)
        else:
            for warning in self._warnings_of(outcome):
                if warning not in self._said:  # such as one about a target that scans share
                    self._verbosity.warn(warning)
                    self._said.add(warning)
        if stage in self._tasks:
            self._bars.advance(self._tasks[stage])
        elif self._lines and time.monotonic() - self._printed > _INTERVAL:
            self._printed = time.monotonic()
            rate = self._done / (self._printed - self._started)
            left = timedelta(seconds=round((self._total - self._done) / rate))
            print_line(
                f"{stage}: {self._done} of {self._count()}, {rate:.3g} per second, {left} left"
            )

    def _count(self) -> str:
        from ndflow.values import plural

        return plural(self._total, self._unit or "part")


def _bars() -> Any:
    """Return a display of progress bars, with the time left, or the time that each took."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
    )
