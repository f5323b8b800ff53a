"""Tasks: the same function applied to many scans, where a failure does not stop the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.files.tables import Table, escaped, read_delimited, write_table

__all__ = ["FAILURES", "Failure", "Outcome", "Task", "check_jobs", "record_failures", "run_tasks"]

FAILURES = "failures.tsv"

_COLUMNS = ("scan", "stage", "cause", "try")


class Task(NamedTuple):
    """One call of a function, for one scan.

    Attributes
    ----------
    scan : the name of the scan, for messages.
    arguments : the keyword arguments of the function.
    origin : where the user named the scan, for messages; for example ``"row 7"``.
    """

    scan: str
    arguments: Mapping[str, Any]
    origin: str = ""


class Failure(NamedTuple):
    """Why a scan failed.

    Attributes
    ----------
    scan : its name.
    cause, hint : why it failed, and what to try.
    message : both in one line.
    details : the traceback.
    """

    scan: str
    cause: str
    hint: str
    message: str
    details: str


class Outcome(NamedTuple):
    """The outcome of a task: the result of the function, or a failure.

    Attributes
    ----------
    scan : the name of the scan.
    result : what the function returned; None if it failed.
    failure : why it failed; None if it did not.
    """

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
    """Call a function once per task.

    Parameters
    ----------
    function : what to call; it and its results are sent between processes.
    tasks : the arguments of each call.
    jobs : the number of processes; -1 for one per core.
    scheduler : the address or the scheduler file of a Dask cluster to use instead.

    Returns
    -------
    generator of Outcome
        One per task, in the order of the tasks. With one process, each task is run when its outcome
        is asked for. Closing the generator stops the workers.
    """
    check_jobs(jobs)
    if scheduler is None and (jobs == 1 or len(tasks) < 2):
        for task in tasks:
            yield run_task(function, task)
        return
    from ndflow.study.parallel.workers import run_in_workers

    early: dict[int, Outcome] = {}  # finished before one that comes before them
    following = 0
    run = partial(run_task, function)
    with closing(
        run_in_workers(run, tasks, jobs=jobs, scheduler=scheduler, killed=_killed)
    ) as outcomes:
        for index, outcome in outcomes:
            early[index] = outcome
            while following in early:
                yield early.pop(following)
                following += 1


def check_jobs(jobs: int) -> None:
    """Refuse an invalid number of processes."""
    if jobs < 1 and jobs != -1:
        raise InvalidValueError(
            f"jobs must be a positive number, or -1 for one per core, not {jobs}"
        )


def run_task(function: Callable[..., Any], task: Task) -> Outcome:
    """Return the outcome of one task; an exception of the function becomes a failure."""
    try:
        return Outcome(task.scan, function(**task.arguments), None)
    except Exception as error:  # of any kind: it must not stop the other scans
        return Outcome(task.scan, None, _with_origin(_failure(task.scan, error), task.origin))


def record_failures(
    folder: Path,
    tried: Mapping[str, Sequence[str]] | None,
    failures: Mapping[str, Sequence[Failure]],
) -> None:
    """Update the list of failures in a folder, ``failures.tsv``.

    Scans that were not tried in this run stay on the list; an empty list is removed.

    Parameters
    ----------
    folder : where the list is.
    tried : the names of the scans that were tried, by stage; None if all scans were.
    failures : of this run, by stage.
    """
    path = folder / FAILURES
    try:
        old = read_delimited(path, delimiter="\t") if path.exists() else Table([], [])
    except FileError:
        old = Table(["unreadable"], [])
    if not old.columns and not any(failures.values()):
        return
    if old.columns and tuple(old.columns) != _COLUMNS:
        if not any(failures.values()):
            return
        raise FileError(path, "exists, and was not written by ndflow", "move it elsewhere")
    rows: list[Sequence[str]] = []
    if tried is not None:
        done = {(escaped(scan), stage) for stage in tried for scan in tried[stage]}
        rows += [cells for _, cells in old.rows if tuple(cells[:2]) not in done]
    rows += [(f.scan, stage, f.cause, f.hint) for stage in failures for f in failures[stage]]
    if rows:
        write_table(path, _COLUMNS, rows)
    else:
        path.unlink(missing_ok=True)


def _with_origin(failure: Failure, origin: str) -> Failure:
    """Return a failure whose message says where the user named the scan."""
    if not origin:
        return failure
    cause = f"{failure.cause} ({origin})"
    return failure._replace(cause=cause, message=failure.message.replace(failure.cause, cause, 1))


def _killed(task: Task) -> Outcome:
    cause = "its process was killed, twice or more"
    hint = "it may need more memory: use fewer --jobs, or larger workers"
    failure = Failure(task.scan, cause, hint, f"{task.scan}: {cause}; {hint}", "")
    return Outcome(task.scan, None, _with_origin(failure, task.origin))


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
        hint = "this is a bug in ndflow: please report it, with the output of -v"
    return Failure(scan, cause, hint, f"{scan}: {cause}; {hint}", details)
