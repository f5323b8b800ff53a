"""Work spread over workers, any of which may die: processes of this machine, or a Dask cluster.

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
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from joblib import effective_n_jobs
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

from ndflow._version import installing
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.model_files import read_bounded

_MIN_SUBMITTED = 64  # tasks on a cluster, which may only grow if it sees that work is waiting
_MAX_BYTES = 1 << 20  # of a scheduler file
_POLL_SECONDS = 5.0  # between two looks at the size of a cluster
_ATTEMPTS = 2  # of a worker that does nothing else: that it died once may be by chance
_IDLE_SECONDS = 300.0  # after which workers of this machine end by themselves
_PARENT_SECONDS = 0.2  # between two looks after the process that has started a worker

T = TypeVar("T")
R = TypeVar("R")

Results = Generator[tuple[int, R], None, None]
Workers: TypeAlias = "_Processes | _Cluster"


def run_in_workers(
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    jobs: int,
    killed: Callable[[T], R],
    scheduler: str | None = None,
) -> Results[R]:
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
    workers: Workers
    workers = _Cluster(scheduler) if scheduler is not None else _Processes(jobs, len(tasks))
    waiting, suspects = iter(enumerate(tasks)), []
    futures: dict[Future[R], int] = {}
    try:
        while True:
            for index, task in islice(waiting, max(0, workers.capacity() - len(futures))):
                futures[workers.submit(function, task)] = index
            if not futures:
                break
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                index = futures.pop(future)
                try:
                    yield index, future.result()
                except workers.lost:
                    suspects.append(index)
        for index in sorted(suspects):  # while nothing else is at work
            for _ in range(_ATTEMPTS):
                with suppress(workers.lost):
                    yield index, workers.submit(function, tasks[index]).result()
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


# ── this machine ──────────────────────────────────────────────────────────────────────────────────


class _Processes:
    """Processes of this machine, which are kept for the next tasks."""

    lost: type[Exception] = BrokenProcessPool  # what a future raises whose worker was killed

    def __init__(self, jobs: int, tasks: int) -> None:
        self._jobs: int = max(1, min(effective_n_jobs(jobs), tasks))
        self._pool: Any = None
        _start_trackers()

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand out a task; where a worker was killed, to new ones."""
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

    def capacity(self) -> int:
        """Return twice the number of processes, so that none has to wait."""
        return 2 * self._jobs

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


# ── a cluster ─────────────────────────────────────────────────────────────────────────────────────


class _Cluster:
    """The workers of a Dask cluster, which retries a task itself as its scheduler is configured."""

    def __init__(self, scheduler: str) -> None:
        self._client = connect(scheduler)
        from distributed.scheduler import KilledWorker

        self.lost: type[Exception] = KilledWorker
        self._executor = self._client.get_executor(pure=False)
        self._polled, self._wanted = float("-inf"), _MIN_SUBMITTED

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand out a task."""
        found: Future[R] = self._executor.submit(function, task)
        return found

    def capacity(self) -> int:
        """Return twice the number of cores, which come and go."""
        if time.monotonic() - self._polled > _POLL_SECONDS:
            self._polled = time.monotonic()
            self._wanted = max(_MIN_SUBMITTED, 2 * sum(self._client.ncores().values()))
        return self._wanted

    def end(self, *, kill: bool) -> None:
        """Leave the cluster; what it still has to do for us is cancelled."""
        self._client.close()


def connect(scheduler: str) -> Any:
    """Return a client of a Dask cluster, which the caller closes.

    Parameters
    ----------
    scheduler : the address of the scheduler, or its scheduler file.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InvalidValueError(
            f"--scheduler needs Dask, which is not installed; try {installing('cluster')}"
        ) from None
    try:
        return Client(_address(scheduler))
    except (OSError, ValueError) as error:
        cause = f"no Dask scheduler answers there ({error})"
        raise FileError(scheduler, cause, "start one: dask scheduler") from None
    # Certificates are missing, or encryption is required.
    except (TypeError, RuntimeError) as error:
        cause = f"its connection cannot be secured as configured ({error})"
        hint = "check distributed.comm.tls in the configuration of Dask, and use a tls:// address"
        raise FileError(scheduler, cause, hint) from None


def _address(scheduler: str) -> str:
    """Return the address of a scheduler, which may be in its file.

    Dask itself would wait for a file that is missing, and fail on another without saying why.
    """
    path = Path(scheduler)
    is_file = path.suffix == ".json" or len(path.parts) > 1 or path.is_file()
    if "://" in scheduler or not is_file:
        return scheduler
    try:
        address = json.loads(read_bounded(scheduler, max_bytes=_MAX_BYTES))["address"]
    except (ValueError, LookupError, TypeError, RecursionError):
        address = None
    if not isinstance(address, str):
        hint = "give the file that dask scheduler --scheduler-file wrote, or tcp://HOST:PORT"
        raise FileError(scheduler, "not a scheduler file of Dask", hint)
    return address
