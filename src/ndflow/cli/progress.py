"""The progress of a study: one display for all its passes, or a line from time to time."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any, Self

from ndflow.cli.console import bars, print_error, print_line, print_warning
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.study.parallel.tasks import Outcome
from ndflow.values import plural

__all__ = ["ProgressDisplay"]

# What a step goes through, if not scans; nothing where its parts mean nothing to the user.
_UNITS = {
    "references": "",
    "classify": "forest",
    "shuffle sites": "shuffle",
    "figures": "figure",
    "page": "",
}
_INTERVAL = 30.0  # seconds between two lines where there is no terminal


class ProgressDisplay:
    """Progress bars on a terminal, one per pass, with the rate and the time left; lines elsewhere.

    Warnings and failures are printed as they occur; doubts are counted at the end, see
    `ndflow.cli.endings`.

    Parameters
    ----------
    verbosity : how much to print.
    """

    def __init__(self, verbosity: Verbosity) -> None:
        self._verbosity = verbosity
        self._stack = ExitStack()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._total = self._done = 0
        self._unit = "scan"
        self._started = self._printed = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._verbosity.quiet:
            self._bar = self._stack.enter_context(bars())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def begin(self, stage: str, total: int) -> None:
        """Note that a step over `total` scans begins."""
        self._total, self._done = total, 0
        self._unit = _UNITS.get(stage.rpartition(": ")[2], "scan")  # in the demo: of a study
        self._started = self._printed = time.monotonic()
        if self._bar is not None:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        elif not self._verbosity.quiet:
            print_line(f"{stage}: {plural(total, self._unit)}" if self._unit else stage)

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note the outcome of a scan."""
        raise_if_signalled()
        self._done += 1
        if outcome.failure:
            print_error(
                outcome.failure.message, outcome.failure.details if self._verbosity.verbose else ""
            )
        elif not self._verbosity.quiet:
            for warning in getattr(outcome.result, "warnings", ()):
                print_warning(warning)
        if self._bar is not None:
            self._bar.advance(self._tasks[stage])
        elif not self._verbosity.quiet and time.monotonic() - self._printed > _INTERVAL:
            self._printed = time.monotonic()
            print_line(f"{stage}: {self._progress()}")

    def _progress(self) -> str:
        rate = self._done / (self._printed - self._started)
        left = (self._total - self._done) / rate
        done = f"{self._done} of {plural(self._total, self._unit or 'part')}"
        return f"{done}, {rate:.3g} per second, {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours > 1.5:
        return f"{hours:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes > 1.5 else f"{seconds:.0f} seconds"
