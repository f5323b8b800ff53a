"""Scans of one command, in parallel: what became of each, and how far the run has come."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ndflow.cli.console import bars, print_error, print_line, print_result, print_warning, progress
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.outputs import make_folder, sidecar_of
from ndflow.study.tasks import FAILURES, Outcome, Task, check_jobs, record_failures, run_tasks
from ndflow.values import plural

if TYPE_CHECKING:
    from ndflow.study.run import Rehearsed


_NAME_WIDTH = 40  # of the names of scans in a dry run


def command_line() -> list[str]:
    """Return the command line as the user typed it, for the record."""
    return ["ndflow", *sys.argv[1:]]


def run_scans(
    stage: str,
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    verbosity: Verbosity,
    jobs: int = 1,
    folder: Path | None = None,
) -> tuple[int, list[Outcome]]:
    """Run a function on each scan.

    Parameters
    ----------
    stage : the name of the work, for the progress bar and the list of failures.
    function, tasks, jobs : see `run_tasks`; the result of the function may have warnings, and
        doubts about the scan.
    verbosity : how much to print.
    folder : the folder for the results and the list of failures; created if it does not exist.

    Returns
    -------
    tuple of int and list of Outcome
        The exit code, and the outcome of each scan.
    """
    outcomes: list[Outcome] = []
    printed: set[str] = set()
    check_jobs(jobs)
    make_folder(folder)
    if folder is not None:
        remove_abandoned(folder)
    try:
        with closing(run_tasks(function, tasks, jobs=jobs)) as work:
            for outcome in progress(work, len(tasks), stage, hidden=verbosity.quiet):
                raise_if_signalled()
                outcomes.append(outcome)
                _print_outcome(outcome, verbosity, printed)
    except BaseException:
        if folder is not None:
            remove_abandoned(folder)  # temporary files of workers that were stopped
        raise
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if folder is not None:
        scans = [task.scan for task in tasks]
        try:
            record_failures(folder, {stage: scans}, {stage: failures})
        except FileError as error:
            print_error(str(error))
    if failures and len(tasks) > 1:
        listed = f"; see {folder / FAILURES}" if folder else ""
        print_error(f"{len(failures)} of {len(tasks)} scans failed{listed}")
    code = 0 if not failures else 1 if len(failures) < len(tasks) else 2
    return code, outcomes


def _print_outcome(outcome: Outcome, verbosity: Verbosity, printed: set[str]) -> None:
    """Print the error or the warnings of a scan; warnings about a shared target only once."""
    if outcome.failure:
        print_error(outcome.failure.message, outcome.failure.details if verbosity.verbose else "")
    elif not verbosity.quiet:
        found = outcome.result
        doubts: dict[Doubt, str] = {}  # what channels share is said of the first
        warnings: list[str] = []
        for name, result in found.items() if isinstance(found, dict) else [("", found)]:
            files = result.record.inputs.get(name) if name else None
            path = files[0].file if files else outcome.scan
            doubts = dict.fromkeys(getattr(result, "doubts", ()), path) | doubts
            warnings += getattr(result, "warnings", ())
        for line in (*warnings, *(f"{path}: {doubt}" for doubt, path in doubts.items())):
            if line not in printed:
                print_warning(line)
                printed.add(line)


def print_written(
    files: Sequence[Path],
    folder: Path | None,
    outcomes: Sequence[Outcome],
    verbosity: Verbosity,
    *,
    what: str = "image",
    sidecars: bool = True,
) -> None:
    """Print on one line what was written.

    Parameters
    ----------
    files, folder : where results go, and the folder of several.
    outcomes : what became of the scans; one that has several channels stands for all its files.
    verbosity : how much to print.
    what : what was written, in words.
    sidecars : whether each has a sidecar.
    """
    done = [outcome.failure is None for outcome in outcomes]
    done = done * len(files) if len(done) == 1 else done
    written = [file for file, fine in zip(files, done, strict=True) if fine]
    if verbosity.quiet or not written:
        return
    if len(written) == 1:
        beside = f" and its sidecar {sidecar_of(written[0]).name}" if sidecars else ""
        print_result(f"wrote {written[0]}{beside}")
    else:
        beside = " and their sidecars" if sidecars else ""
        print_result(f"wrote {plural(len(written), what)}{beside} to {folder}")


def print_rehearsed(steps: Sequence[Rehearsed], verbosity: Verbosity) -> int:
    """Print what would be done for each scan, and what would prevent it; return the exit code."""
    possible = [step for step in steps if step.error is None]
    width = min(max((len(step.scan.name) for step in possible), default=0), _NAME_WIDTH)
    actions = Counter(step.action for step in possible)
    column = max(map(len, actions), default=0)
    for step in steps:
        if step.error is not None:
            print_error(str(step.error))
        else:
            print_result(f"{step.scan.name:<{width}}  {step.action:<{column}}  {step.why}")
    missing = len(steps) - len(possible)
    if not verbosity.quiet:
        counts = [f"{number} to {action}" for action, number in sorted(actions.items())]
        lacking = [f"{missing} that would fail"] if missing else []
        print_line(f"{plural(len(steps), 'scan')}: {', '.join([*counts, *lacking])}")
    return 0 if not missing else 1 if missing < len(steps) else 2


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
