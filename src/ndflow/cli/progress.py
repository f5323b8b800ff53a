"""How far a study is: one display for all its passes, or a line now and then."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from ndflow.cli.console import bars, print_error, print_line, print_status, print_warning
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.study.parallel.tasks import FAILURES, Outcome
from ndflow.study.passes import Study
from ndflow.study.run import Summary

__all__ = ["ProgressDisplay", "conclude", "write_page"]

_OTHERS = {"classify": "conditions"}  # what a pass goes over, if not scans
_SILENCE = 30.0  # seconds between two lines where there is no terminal


class ProgressDisplay:
    """Shows on a terminal a bar a pass, with the rate and the time left; elsewhere, lines.

    Warnings and failures are said as they come.
    """

    def __init__(self, talk: Verbosity) -> None:
        self._talk = talk
        self._stack = ExitStack()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._total = self._done = 0
        self._what = "scans"
        self._started = self._spoken = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._talk.quiet:
            self._bar = self._stack.enter_context(bars())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def begin(self, stage: str, total: int) -> None:
        """Hear that a pass over so many scans begins."""
        self._total, self._done = total, 0
        self._what = _OTHERS.get(stage, "scans")
        self._started = self._spoken = time.monotonic()
        if self._bar is not None:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        elif not self._talk.quiet:
            print_line(f"{stage}: {total} {self._what}")

    def step(self, stage: str, outcome: Outcome) -> None:
        """Hear what became of a scan."""
        raise_if_signalled()
        self._done += 1
        if outcome.failure:
            print_error(
                outcome.failure.message, outcome.failure.details if self._talk.verbose else ""
            )
        elif not self._talk.quiet:
            for warning in outcome.result.warnings:
                print_warning(warning)
        if self._bar is not None:
            self._bar.advance(self._tasks[stage])
        elif not self._talk.quiet and time.monotonic() - self._spoken > _SILENCE:
            self._spoken = time.monotonic()
            print_line(f"{stage}: {self._progress()}")

    def _progress(self) -> str:
        rate = self._done / (self._spoken - self._started)
        left = (self._total - self._done) / rate
        done = f"{self._done} of {self._total} {self._what}"
        return f"{done}, {rate:.3g} a second, {_span(left)} left"


def write_page(folder: Path, talk: Verbosity, max_bytes: int) -> None:
    """Write the page of a study, in a process of its own: figures take memory that studies do not.

    The study is done whatever comes of it, so what goes wrong is a warning.
    """
    if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
        if not talk.quiet:
            print_status("for a page that shows what happened, pip install 'ndflow[report]'")
        return
    # -P: nothing in the folder that the user is in can stand in for a module.
    words = [sys.executable, "-P", "-m", "ndflow", "report", str(folder), "--quiet"]
    words += ["--max-bytes", str(max_bytes)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it gave no reason"]
        print_warning(f"{folder}: no report was written: {said[-1].removeprefix('error: ')}")


def conclude(summary: Summary, study: Study, talk: Verbosity) -> int:
    """Say how a study ended, and return the exit code."""
    if not talk.quiet:
        before = f", {summary.kept} of them before" if summary.kept else ""
        print_status(
            f"{summary.done} of {len(study.members)} scans done{before}; see {study.folder}"
        )
    if not summary.failures:
        return 0
    listed = study.folder / FAILURES
    print_error(f"{len(summary.failures)} of {len(study.members)} scans failed; see {listed}")
    return 1 if summary.done else 2


def _span(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours > 1.5:
        return f"{hours:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes > 1.5 else f"{seconds:.0f} seconds"
