"""Run a command on several scans: print progress, warnings and errors, return the exit code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndflow.cli.console import print_error, print_line, print_result, print_warning, progress
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.errors import FileError
from ndflow.files.atomic import remove_abandoned
from ndflow.image.subject import Scan
from ndflow.scan.outputs import make_folder, preview
from ndflow.study.parallel.tasks import (
    FAILURES,
    Outcome,
    Task,
    check_jobs,
    record_failures,
    run_tasks,
)
from ndflow.study.plan import Study
from ndflow.values import plural

if TYPE_CHECKING:
    from ndflow.study.rehearsal import Rehearsed

__all__ = [
    "command_line",
    "dry_run_scans",
    "dry_run_study",
    "inputs_of",
    "print_rehearsed",
    "run_scans",
]

_NAME_WIDTH = 40  # of the names of scans in a dry run


def command_line() -> list[str]:
    """Return the command line as the user typed it, for the record."""
    return ["ndflow", *sys.argv[1:]]


def inputs_of(scan: Scan) -> tuple[Any, ...]:
    """Return all files that are read for a scan, for a dry run."""
    return (scan.image, scan.mask, scan.lesion, *scan.tissues)


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
        doubts = [f"{outcome.scan}: {doubt}" for doubt in getattr(outcome.result, "doubts", ())]
        for warning in (*getattr(outcome.result, "warnings", ()), *doubts):
            if warning not in printed:
                print_warning(warning)
                printed.add(warning)


def dry_run_scans(
    plan: Sequence[tuple[Sequence[str | None], Path]],
    *,
    check: Callable[[Path, Sequence[str]], None],
    verbosity: Verbosity,
    new_folder: bool = False,
) -> int:
    """Print which files would be written from which scans, and what would prevent that.

    Parameters
    ----------
    plan : for each result, the files it is made from (the scan first) and the file to write.
    check : raises an error if a file may not be written, see `preview`.
    verbosity : how much to print.
    new_folder : whether the folder for the results may be created.

    Returns
    -------
    int
        The exit code.
    """
    shared = {"check": check, "new_folder": new_folder}
    tasks = [
        Task(str(inputs[0]), {"inputs": inputs, "output": output, **shared})
        for inputs, output in plan
    ]
    code, outcomes = run_scans("dry run", preview, tasks, verbosity=verbosity)
    for outcome, (_, output) in zip(outcomes, plan, strict=True):
        if not outcome.failure:
            print_result(f"would write {output} from {outcome.scan}")
    return code


def dry_run_study(study: Study, *, verbosity: Verbosity, images: bool = True) -> int:
    """Print what a study would do for each scan, and which of its inputs are missing.

    Parameters
    ----------
    study : the study.
    verbosity : how much to print.
    images : whether images would be written; otherwise only models.

    Returns
    -------
    int
        The exit code.
    """
    from ndflow.study.preparing.preparation_rehearsal import rehearse_all

    return print_rehearsed(rehearse_all(study, images=images), verbosity)


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
        lacking = [f"{missing} with missing files"] if missing else []
        print_line(f"{plural(len(steps), 'scan')}: {', '.join([*counts, *lacking])}")
    return 0 if not missing else 1 if missing < len(steps) else 2
