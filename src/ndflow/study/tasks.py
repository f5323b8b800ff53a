"""Tasks: the same function applied to many scans, where a failure does not stop the others.

They are spread over workers, any of which may die: processes of this machine, or a Dask cluster.
Both hand out futures. A worker that is killed, usually because memory runs out, takes
with it the tasks that were handed out to it, and on this machine those of all other workers, and
there is no telling which of them killed it. So each of these is repeated when nothing else is at
work: only the one to blame fails again. Workers on this machine end with the process that started
them, even if that is killed.

(joblib has a Dask backend, but joblib 1.6 waits forever for the result of a worker that was killed,
so futures are used directly.)
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ndflow._version import installing
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.files.model_files import read_bounded
from ndflow.files.tables import read_delimited, table_bytes, write_table

T = TypeVar("T")
R = TypeVar("R")

FAILURES = "failures.tsv"

_COLUMNS = ("scan", "stage", "cause", "try")
_MAX_BYTES = 1 << 20  # of a scheduler file
_ATTEMPTS = 2  # of a worker that does nothing else: that it died once may be by chance
_IDLE_SECONDS = 300.0  # after which workers of this machine end by themselves
_LOG = logging.getLogger(__name__)
_PARENT_SECONDS = 0.2  # between two looks after the process that has started a worker
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
        return (run(task) for task in tasks)
    return _in_order(run, tasks, jobs, scheduler)


def _in_order(
    run: Callable[[Task], Outcome], tasks: Sequence[Task], jobs: int, scheduler: str | None
) -> Outcomes:
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


# ── workers ───────────────────────────────────────────────────────────────────────────────────────


def run_in_workers(
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    jobs: int,
    killed: Callable[[T], R],
    scheduler: str | None = None,
) -> Generator[tuple[int, R], None, None]:
    """Apply a function to each task, in several processes.

    Parameters
    ----------
    function : must not raise an exception.
    tasks : what it is applied to.
    jobs : the number of processes on this machine, or -1 for one per core.
    killed : gives the result of a task whose worker was killed again and again.
    scheduler : the address of a Dask scheduler, or its file, to use the workers of a cluster.

    Yields
    ------
    index, result : of each task, as they are finished.
    """
    workers = _Processes(jobs, len(tasks)) if scheduler is None else _Cluster(scheduler)
    waiting, suspects = iter(enumerate(tasks)), []
    futures: dict[Future[R], int] = {}
    try:
        while True:
            for index, task in islice(waiting, max(0, workers.capacity - len(futures))):
                futures[workers.submit(function, task)] = index
            if not futures:
                break
            for future in workers.first_done(futures):
                index = futures.pop(future)
                try:
                    yield index, future.result()
                except workers.lost:
                    suspects.append(index)
        for index in sorted(suspects):  # while nothing else is at work
            for _ in range(_ATTEMPTS):
                with suppress(workers.lost):
                    (future,) = workers.first_done([workers.submit(function, tasks[index])])
                    yield index, future.result()
                    break
            else:
                yield index, killed(tasks[index])
    except BaseException as error:  # we are asked to stop, or somebody has closed this generator
        workers.end(kill=True)
        if scheduler is None or not isinstance(error, Exception):
            raise
        cause = f"the cluster was lost ({type(error).__name__})"  # the function never raises
        raise FileError(scheduler, cause, "run the same command again to resume") from error
    workers.end(kill=False)


class _Processes:
    """Processes of this machine, which are kept for the next tasks."""

    lost: type[Exception] = BrokenProcessPool  # what a future raises whose worker was killed

    def __init__(self, jobs: int, tasks: int) -> None:
        from joblib import effective_n_jobs

        self._jobs: int = max(1, min(effective_n_jobs(jobs), tasks))
        self.capacity = 2 * self._jobs  # so that none has to wait
        self._pool: Any = None
        _start_trackers()

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand out a task; where a worker was killed, to new ones."""
        from joblib.externals.loky import get_reusable_executor

        while True:
            # A worker may be killed in just this moment; then the pool takes no more tasks.
            with _signals_blocked(), suppress(BrokenProcessPool):
                self._pool = get_reusable_executor(
                    max_workers=self._jobs,
                    timeout=_IDLE_SECONDS,
                    initializer=_end_with_parent,
                    initargs=(os.getpid(),),
                )
                found: Future[R] = self._pool.submit(function, task)
                return found

    def first_done(self, futures: Iterable[Future[R]]) -> Collection[Future[R]]:
        """Wait for some futures, and return those that are done."""
        return wait(futures, return_when=FIRST_COMPLETED).done

    def end(self, *, kill: bool) -> None:
        """Keep the processes, unless they are to be stopped."""
        if kill and self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)


def _start_trackers() -> None:
    """Start the resource trackers, which clean up after killed workers, without their warnings.

    They would report leaked semaphores on the terminal after our own last line (they still do for
    users who set PYTHONWARNINGS). They are started here, because together with the first worker
    they would undo the blocking of Ctrl-C in it (`_signals_blocked`).
    """
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        with _signals_blocked():  # they outlive a terminal that is closed, and end with us
            resource_tracker.ensure_running()  # that of multiprocessing, which joblib starts too
            loky_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block Ctrl-C, and the end of the terminal, in processes that are started in the block.

    A terminal sends them to all processes, but only the main one should react, after the block, and
    stop the others. They are blocked from their very beginning, because a process that is
    interrupted while it imports modules prints a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(parent: int) -> None:
    """End this process, in the middle of whatever it does, as soon as its parent has ended.

    A process that is killed cannot stop those that it has started. So each of them looks after its
    parent: a child whose parent has ended is given another one, at once. (On Windows it is not, and
    idle workers end by themselves. Linux could send a signal instead, but when the *thread* that
    started a process ends.)

    Parameters
    ----------
    parent : the process id of the parent, which may have ended already.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Cluster:
    """The workers of a Dask cluster, which retries a task itself as its scheduler is configured.

    On a busy cluster workers may take hours to start, so that there is no end to waiting for them.
    """

    capacity = 1000  # tasks: a cluster may only grow if it sees that work is waiting
    patience = 20.0  # seconds without a result, until we look whether there are workers

    def __init__(self, scheduler: str) -> None:
        self._client, self._scheduler, self._waiting = connect(scheduler), scheduler, False
        # Of which we say in one line what it says in many: that the connection was lost.
        self._log = logging.getLogger("distributed.client")
        self._level = self._log.level
        self._log.setLevel(logging.CRITICAL)
        from distributed.scheduler import KilledWorker

        self.lost: type[Exception] = KilledWorker
        self._executor = self._client.get_executor(pure=False)

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand out a task."""
        found: Future[R] = self._executor.submit(function, task)
        return found

    def first_done(self, futures: Iterable[Future[R]]) -> Collection[Future[R]]:
        """Wait for some futures; say that there are no workers, once until there are some again."""
        while not (done := wait(futures, self.patience, FIRST_COMPLETED).done):
            with suppress(OSError):  # while the client tries to connect again
                alone = not self._client.nthreads()
                if alone and not self._waiting:
                    what = "has no workers now, so this run waits for them"
                    _LOG.warning("warning: %s: %s; start some, or stop it", self._scheduler, what)
                self._waiting = alone
        return done

    def end(self, *, kill: bool) -> None:
        """Leave the cluster; what it still has to do for us is cancelled."""
        self._client.close()
        self._log.setLevel(self._level)


def connect(scheduler: str) -> Any:
    """Return a client of a Dask cluster, which the caller closes.

    Parameters
    ----------
    scheduler : the address of the scheduler, or its scheduler file.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InvalidValueError(f"--scheduler needs Dask; try {installing('cluster')}") from None
    try:
        return Client(_address(scheduler))
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # or it must be encrypted
        cause = f"no Dask scheduler answers there ({error})"
        hint = "start one: dask scheduler; for a tls:// address, check distributed.comm.tls of Dask"
        raise FileError(scheduler, cause, hint) from None


def _address(scheduler: str) -> str:
    """Return the address of a scheduler, which may be in its file.

    Dask itself would wait for a file that is missing, and fail on another without saying why.
    """
    path = Path(scheduler)
    is_file = path.suffix == ".json" or len(path.parts) > 1 or path.is_file()
    if "://" in scheduler or not is_file:
        return scheduler
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        address = json.loads(read_bounded(scheduler, max_bytes=_MAX_BYTES))["address"]
        if isinstance(address, str):
            return address
    hint = "give the file that dask scheduler --scheduler-file wrote, or tcp://HOST:PORT"
    raise FileError(scheduler, "not a scheduler file of Dask", hint)


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
    path, rows = folder / FAILURES, _rows(failures)
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


def failures_table(failures: Mapping[str, Sequence[Failure]]) -> bytes:
    """Return what a list of failures holds, by stage."""
    return table_bytes(_COLUMNS, _rows(failures))


def _rows(failures: Mapping[str, Sequence[Failure]]) -> list[Sequence[str | None]]:
    return [
        (failure.scan, stage, failure.cause, failure.hint or None)
        for stage, some in failures.items()
        for failure in some
    ]


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
    columns, rows = read_delimited(path)
    if columns and tuple(columns) != _COLUMNS:
        raise FileError(path, "exists, and was not written by ndflow", "move it elsewhere")
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
