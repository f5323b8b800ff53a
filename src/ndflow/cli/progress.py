"""The progress of a study: one display for all its passes, or a line from time to time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from ndflow.cli.console import bars, print_error, print_line, print_status, print_warning
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.doubt import Doubt
from ndflow.study.folder import REPORT
from ndflow.study.parallel.parent import ending_with_us
from ndflow.study.parallel.tasks import FAILURES, Outcome
from ndflow.study.plan import Study
from ndflow.study.run import Summary
from ndflow.study.study_doubts import doubt_counts
from ndflow.values import plural

__all__ = ["ProgressDisplay", "conclude", "print_doubts", "write_page"]

_UNITS = {"classify": "condition"}  # what a pass goes through, if not scans
_NAMED = 3  # scans in the line about a doubt
_INTERVAL = 30.0  # seconds between two lines where there is no terminal


class ProgressDisplay:
    """Progress bars on a terminal, one per pass, with the rate and the time left; lines elsewhere.

    Warnings and failures are printed as they occur; doubts are counted at the end, see `conclude`.
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
        """Note that a pass over `total` scans begins."""
        self._total, self._done = total, 0
        self._unit = _UNITS.get(stage, "scan")
        self._started = self._printed = time.monotonic()
        if self._bar is not None:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        elif not self._verbosity.quiet:
            print_line(f"{stage}: {plural(total, self._unit)}")

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note the outcome of a scan."""
        raise_if_signalled()
        self._done += 1
        if outcome.failure:
            print_error(
                outcome.failure.message, outcome.failure.details if self._verbosity.verbose else ""
            )
        elif not self._verbosity.quiet:
            for warning in outcome.result.warnings:
                print_warning(warning)
        if self._bar is not None:
            self._bar.advance(self._tasks[stage])
        elif not self._verbosity.quiet and time.monotonic() - self._printed > _INTERVAL:
            self._printed = time.monotonic()
            print_line(f"{stage}: {self._progress()}")

    def _progress(self) -> str:
        rate = self._done / (self._printed - self._started)
        left = (self._total - self._done) / rate
        done = f"{self._done} of {plural(self._total, self._unit)}"
        return f"{done}, {rate:.3g} per second, {_duration(left)} left"


def write_page(folder: Path, verbosity: Verbosity, max_bytes: int) -> int:
    """Write the report of a study, in a process of its own, because figures need much memory.

    Returns
    -------
    int
        The exit code: 1 if it could not be written. Where packages for it are missing, nobody
        expects it.
    """
    if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
        if not verbosity.quiet:
            print_status("no report was written; for one, pip install 'ndflow[report]'")
        return 0
    # -P: no file in the current folder is imported instead of a module.
    words = [sys.executable, "-P", "-m", "ndflow", "report", str(folder), "--quiet"]
    words += ["--max-bytes", str(max_bytes)]
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", env=ending_with_us()
    )
    if not done.returncode:
        return 0
    lines = done.stderr.strip().splitlines() or ["unknown error"]
    cause = lines[-1].removeprefix("error: ")
    print_error(f"{folder / REPORT}: could not be written: {cause}")
    return 1


def conclude(summary: Summary, study: Study, verbosity: Verbosity, *, page: int = 0) -> int:
    """Print how a study ended, and return the exit code.

    Parameters
    ----------
    summary, study : how it ended.
    verbosity : how much to print.
    page : the exit code of its page, see `write_page`.
    """
    print_doubts(summary.doubts_of, summary.done, verbosity)
    if not verbosity.quiet:
        before = f", {summary.kept} of them by an earlier run" if summary.kept else ""
        print_status(
            f"{summary.done} of {plural(len(study.scans), 'scan')} done{before}; see {study.folder}"
        )
    if not summary.failures:
        return page
    listed = study.folder / FAILURES
    print_error(
        f"{len(summary.failures)} of {plural(len(study.scans), 'scan')} failed; see {listed}"
    )
    return 1 if summary.done else 2


def print_doubts(doubts: Mapping[str, Iterable[Doubt]], total: int, verbosity: Verbosity) -> None:
    """Print one line for each kind of doubt, however many scans it is about.

    Parameters
    ----------
    doubts : about scans, by their names.
    total : how many scans there are, with those beyond doubt.
    verbosity : how much to print.
    """
    if verbosity.quiet:
        return
    for kind, names, hint in doubt_counts(doubts):
        more = len(names) - _NAMED
        listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        print_warning(f"{kind}: {len(names)} of {plural(total, 'scan')} ({listed}): {hint}")


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours > 1.5:
        return f"{hours:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes > 1.5 else f"{seconds:.0f} seconds"
