"""The same work on several scans, of which some may fail while the others go on."""

from __future__ import annotations

import csv
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.files.scan_table import escaped, write_table

__all__ = ["FAILURES", "Failure", "Outcome", "Task", "check_jobs", "record_failures", "run_tasks"]

FAILURES = "failures.tsv"

_COLUMNS = ("scan", "stage", "cause", "try")


class Task(NamedTuple):
    """Work on one scan.

    Attributes
    ----------
    scan : its name, as the user gave it.
    arguments : what the function is called with.
    origin : where the user named it, for messages.
    """

    scan: str
    arguments: Mapping[str, Any]
    origin: str = ""


class Failure(NamedTuple):
    """Why a scan failed.

    Attributes
    ----------
    scan, cause, hint : which, why, and what to try.
    message : the same in one line.
    details : where in the program it happened.
    """

    scan: str
    cause: str
    hint: str
    message: str
    details: str


class Outcome(NamedTuple):
    """What became of a scan: the result of the function, or a failure."""

    scan: str
    result: Any
    failure: Failure | None


def run_tasks(
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
) -> Generator[Outcome, None, None]:
    """Do some work on each scan, and yield what became of it, in the order of the tasks.

    Parameters
    ----------
    function : the work; it and its result travel between processes.
    tasks : the scans.
    jobs : how many at a time, each in a process of its own; -1 for one a core.
    scheduler : instead, the address of a Dask scheduler, or its file.
    """
    check_jobs(jobs)
    if scheduler is None and (jobs == 1 or len(tasks) < 2):
        for task in tasks:
            yield run_task(function, task)
        return
    from ndflow.study.parallel.workers import run_in_workers

    waiting: dict[int, Outcome] = {}
    following = 0
    work = partial(run_task, function)
    with closing(
        run_in_workers(work, tasks, jobs=jobs, scheduler=scheduler, killed=_killed)
    ) as outcomes:
        for place, outcome in outcomes:
            waiting[place] = outcome
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def check_jobs(jobs: int) -> None:
    """Refuse a number of workers that makes no sense."""
    if jobs < 1 and jobs != -1:
        raise InvalidValueError(f"jobs must be a positive number, or -1 for one a core, not {jobs}")


def run_task(function: Callable[..., Any], task: Task) -> Outcome:
    """Do the work on one scan; a failure is an outcome too."""
    try:
        return Outcome(task.scan, function(**task.arguments), None)
    except Exception as error:  # whatever it is, the other scans go on
        return Outcome(task.scan, None, _placed(_failure(task.scan, error), task.origin))


def record_failures(
    folder: Path,
    tried: Mapping[str, Sequence[str]] | None,
    failures: Mapping[str, Sequence[Failure]],
) -> None:
    """Bring the list of failures in a folder up to date.

    Scans that this run did not try stay on it; without any left, there is no list.

    Parameters
    ----------
    folder : where it is.
    tried : the scans of each stage; None if all there are were tried.
    failures : those of each stage that failed.
    """
    path = folder / FAILURES
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError):
        lines = [""]
    if not lines and not any(failures.values()):
        return
    if lines and tuple(lines[0].split("\t")) != _COLUMNS:
        if not any(failures.values()):
            return
        raise FileError(path, "exists, and was not written by ndflow", "move it elsewhere")
    rows: list[Sequence[str]] = []
    if tried is not None:
        done = {(escaped(scan), stage) for stage in tried for scan in tried[stage]}
        before = csv.reader(lines[1:], delimiter="\t")
        rows += [row for row in before if tuple(row[:2]) not in done]
    rows += [(f.scan, stage, f.cause, f.hint) for stage in failures for f in failures[stage]]
    if rows:
        write_table(path, _COLUMNS, rows)
    else:
        path.unlink(missing_ok=True)


def _placed(failure: Failure, origin: str) -> Failure:
    """Say where the user named the scan."""
    if not origin:
        return failure
    cause = f"{failure.cause} ({origin})"
    return failure._replace(cause=cause, message=failure.message.replace(failure.cause, cause, 1))


def _killed(task: Task) -> Outcome:
    cause = "its process was killed, twice or more"
    hint = "it may need more memory: use fewer --jobs, or larger workers"
    failure = Failure(task.scan, cause, hint, f"{task.scan}: {cause}; {hint}", "")
    return Outcome(task.scan, None, _placed(failure, task.origin))


def _failure(scan: str, error: Exception) -> Failure:
    details = "".join(traceback.format_exception(error))
    if isinstance(error, FileError):
        return Failure(scan, f"{error.path}: {error.cause}", error.hint, str(error), details)
    if isinstance(error, NdflowError):
        cause, semicolon, hint = str(error).rpartition("; ")
        cause, hint = (cause, hint) if semicolon else (hint, "")
        return Failure(scan, cause, hint, f"{scan}: {error}", details)
    if isinstance(error, MemoryError):
        cause, hint = "not enough memory", "close other programs, or use fewer --jobs"
    else:
        cause = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a fault of ndflow: please report it, with the output of -v"
    return Failure(scan, cause, hint, f"{scan}: {cause}; {hint}", details)
