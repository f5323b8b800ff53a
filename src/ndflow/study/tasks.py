"""Tasks: the same function applied to many scans, where a failure does not stop the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.files.tables import read_delimited, write_table

FAILURES = "failures.tsv"

_COLUMNS = ("scan", "stage", "cause", "try")
_BUG = "this is a bug in ndflow: please report it, with the output of -v"


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
    failure: Failure | None = None


Outcomes = Generator[Outcome, None, None]


def run_tasks(function: Callable[..., Any], tasks: Sequence[Task], **how: Any) -> Outcomes:
    """Call a function once per task, see `run_each`; an exception becomes a failure."""
    return run_each(partial(run_task, function), tasks, **how)


def run_each(
    run: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    apart: bool = False,
) -> Outcomes:
    """Run all tasks.

    Parameters
    ----------
    run : gives the outcome of a task, and never raises an exception; it and its results are sent
        between processes.
    tasks : what to run.
    jobs : the number of processes; -1 for one per core.
    scheduler : the address or the scheduler file of a Dask cluster to use instead.
    apart : whether another process is started even for one job: for a function that does not let
        this one react to signals, or show how far it has come, until it returns.

    Returns
    -------
    generator of Outcome
        One per task, in the order of the tasks. With one process, each task is run when its outcome
        is asked for. Closing it stops the workers.
    """
    check_jobs(jobs)
    if scheduler is None and (not tasks or (jobs == 1 and not apart)):
        return _Here(run, tasks)  # type: ignore[return-value]
    return _in_order(run, tasks, jobs, scheduler)


class _Here(map):  # type: ignore[type-arg]
    """Tasks of this process, without a frame of their own."""

    def close(self) -> None:
        """Do nothing: no worker is to be stopped."""


def _in_order(
    run: Callable[[Task], Outcome], tasks: Sequence[Task], jobs: int, scheduler: str | None
) -> Outcomes:
    from ndflow.study.workers import run_in_workers

    early: dict[int, Outcome] = {}  # finished before one that comes before them
    following = 0
    found = run_in_workers(run, tasks, jobs=jobs, scheduler=scheduler, killed=_killed)
    with closing(found) as outcomes:
        for index, outcome in outcomes:
            early[index] = outcome
            while following in early:
                yield early.pop(following)
                following += 1


def check_jobs(jobs: int) -> None:
    """Refuse an invalid number of processes."""
    if jobs < 1 and jobs != -1:
        raise InvalidValueError(f"jobs must be positive, or -1 for one per core, not {jobs}")


def run_task(function: Callable[..., Any], task: Task) -> Outcome:
    """Return the outcome of one task; an exception of the function becomes a failure."""
    try:
        return Outcome(task.scan, function(**task.arguments))
    except Exception as error:  # of any kind: it must not stop the other scans
        return failed(task, error)


def failed(task: Task, error: Exception) -> Outcome:
    """Return the failure of a task; it says where the user named the scan."""
    start = f"{task.scan}: "
    if isinstance(error, FileError):
        start, cause, hint = "", f"{error.path}: {error.cause}", error.hint
    elif isinstance(error, NdflowError):
        cause, semicolon, hint = str(error).rpartition("; ")
        cause, hint = (cause, hint) if semicolon else (hint, "")
    elif isinstance(error, MemoryError):
        cause, hint = "not enough memory", "close other programs, or use fewer --jobs"
    else:
        cause, hint = f"unexpected {type(error).__name__}: {error}", _BUG
    cause += f" ({task.origin})" if task.origin else ""
    message = f"{start}{cause}; {hint}" if hint else start + cause
    details = "".join(traceback.format_exception(error)) if error.__traceback__ else ""
    return Outcome(task.scan, None, Failure(task.scan, cause, hint, message, details))


def _killed(task: Task) -> Outcome:
    cause = "its process was killed, twice or more"
    hint = "it may need more memory: use fewer --jobs, or larger workers"
    return failed(task, NdflowError(f"{cause}; {hint}"))


# ── the list of failures ──────────────────────────────────────────────────────────────────────────


def record_failures(
    folder: Path,
    tried: Mapping[str, Sequence[str]] | None,
    failures: Mapping[str, Sequence[Failure]],
) -> bool:
    """Update the list of failures in a folder, ``failures.tsv``; return whether it has changed.

    Scans that were not tried in this run stay on the list; an empty list is removed.

    Parameters
    ----------
    folder : where the list is.
    tried : the names of the scans that were tried, by stage; None if all scans were.
    failures : of this run, by stage.
    """
    path = folder / FAILURES
    rows: list[Sequence[str | None]] = [
        (failure.scan, stage, failure.cause, failure.hint or None)
        for stage, some in failures.items()
        for failure in some
    ]
    try:
        old = _listed(path)
    except FileError:
        if rows:
            raise
        return False
    if tried is not None:
        done = {(scan, stage) for stage in tried for scan in tried[stage]}
        rows = [*(cells for cells in old if tuple(cells[:2]) not in done), *rows]
    if rows:
        write_table(path, _COLUMNS, rows)
    elif old:
        path.unlink(missing_ok=True)
    return [cells[0] for cells in old] != [cells[0] for cells in rows]


def read_failures(folder: Path) -> list[tuple[str, str, str]]:
    """Return the scans that failed in a folder: their names, the causes, and what to try.

    Raises
    ------
    FileError
        Where somebody else's file has the name of the list.
    """
    return [(scan, cause, hint) for scan, _, cause, hint in _listed(folder / FAILURES)]


def _listed(path: Path) -> list[list[str]]:
    """Return the rows of a list of failures; none if it does not exist."""
    if not path.exists():
        return []
    foreign = FileError(path, "exists, and was not written by ndflow", "move it elsewhere")
    try:
        columns, rows = read_delimited(path)
    except FileError:
        raise foreign from None
    if columns and tuple(columns) != _COLUMNS:
        raise foreign
    return [list(cells) for _, cells in rows]


# ── progress ──────────────────────────────────────────────────────────────────────────────────────


class Progress(Protocol):
    """Follows how far a run has come."""

    def begin(self, stage: str, total: int) -> None:
        """Note that a pass over `total` scans begins."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note what became of a scan."""


class Silent:
    """Shows nothing."""

    def begin(self, stage: str, total: int) -> None:
        """Do nothing."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Do nothing."""
