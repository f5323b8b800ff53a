"""Work spread over processes, any of which may die.

On one machine, a worker that is killed, usually because memory runs out, takes the whole pool with
it, and there is no telling which of the tasks that were handed out killed it. So each of these is
repeated by one process at a time, where only the one to blame fails again, and the remaining tasks
go back to a pool. Workers end with the process that started them, even if that is killed.

A Dask cluster knows which task a worker had, and retries it on another one as often as its
scheduler is configured to. (joblib has a Dask backend, but joblib 1.6 waits forever for the result
of a worker that was killed, so futures are used directly.)
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

from ndflow.errors import FileError, InvalidValueError
from ndflow.study.parent import end_with_parent

_MIN_SUBMITTED = 64  # tasks on a cluster, which may only grow if it sees that work is waiting
_POLL_SECONDS = 5.0  # between two looks at the size of a cluster
_ATTEMPTS = 2  # of a process that does nothing else: that it died once may be by chance

T = TypeVar("T")
R = TypeVar("R")
Results = Generator[tuple[int, R], None, None]


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
    function : what to apply. It, the tasks and the results are sent between processes, and it must
        not raise.
    tasks : what to apply it to.
    jobs : the number of processes, of which there are never more than tasks; -1 for one per core.
    killed : returns the result of a task whose process died every time it was tried.
    scheduler : the address or the scheduler file of a Dask cluster to use instead.

    Returns
    -------
    generator of (int, result)
        The index of each task and its result, in the order in which they are finished. Closing the
        generator stops the workers.
    """
    if scheduler is not None:
        return _on_cluster(function, tasks, scheduler, killed)
    return _on_this_machine(function, tasks, jobs, killed)


def _on_this_machine(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, killed: Callable[[T], R]
) -> Results[R]:
    left = dict.fromkeys(range(len(tasks)))  # a set that keeps its order
    jobs = effective_n_jobs(jobs)
    handed_out = 2 * jobs
    _start_trackers()
    while left:
        if jobs > 1 and len(left) > 1:  # joblib's pool of one worker would be this process
            parallel = Parallel(
                n_jobs=min(jobs, len(left)),
                return_as="generator_unordered",
                pre_dispatch=handed_out,
                batch_size=1,
                **_watched(),
            )
            work = (delayed(_indexed)(function, index, tasks[index]) for index in list(left))
            with suppress(BrokenProcessPool), _started(parallel, work) as results:
                for index, result in results:
                    del left[index]
                    yield index, result
        alone = list(left) if jobs == 1 else list(left)[:handed_out]  # after a worker was killed
        with closing(_one_by_one(function, [tasks[index] for index in alone], killed)) as single:
            for index, result in zip(alone, single, strict=True):
                del left[index]
                yield index, result


def _watched() -> dict[str, Any]:
    """Return the options of a pool whose workers watch this process, and end when it does."""
    return {"initializer": end_with_parent, "initargs": (os.getpid(),)}


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
def _started(parallel: Parallel, work: Iterator[Any]) -> Iterator[Any]:
    """Start work in processes; leaving the block early kills them."""
    with ExitStack() as stack:
        with _signals_blocked():
            results = parallel(work)
            stack.callback(_close, results)
        yield results


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


def _close(results: Any) -> None:
    """Close a generator of joblib, which kills its workers, without the warning about that."""
    with catch_warnings():
        simplefilter("ignore")
        results.close()


def _indexed(function: Callable[[T], R], index: int, task: T) -> tuple[int, R]:
    return index, function(task)


def _one_by_one(
    function: Callable[[T], R], tasks: Sequence[T], killed: Callable[[T], R]
) -> Generator[R, None, None]:
    """Yield the result of each task, from one process that does one after the other.

    If it dies, the next one begins with the same task.
    """
    pool = None
    try:
        for task in tasks:
            for _ in range(_ATTEMPTS):
                pool = pool or ProcessPoolExecutor(max_workers=1, **_watched())
                try:
                    with _signals_blocked():
                        future = pool.submit(function, task)
                    result: R = future.result()
                    break
                except BrokenProcessPool:
                    pool.shutdown(kill_workers=True)
                    pool = None
            else:
                result = killed(task)
            yield result
    finally:
        if pool is not None:
            pool.shutdown(kill_workers=True)  # at once, if we are asked to stop


def _on_cluster(
    function: Callable[[T], R], tasks: Sequence[T], scheduler: str, killed: Callable[[T], R]
) -> Results[R]:
    with closing(connect(scheduler)) as client:
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        indices: dict[Any, int] = {}
        suspects: list[int] = []
        waiting = iter(enumerate(tasks))

        def submit(count: int) -> list[Any]:
            futures = []
            for index, task in islice(waiting, count):
                future = client.submit(function, task, pure=False)
                indices[future] = index
                futures.append(future)
            return futures

        finished = as_completed(submit(_MIN_SUBMITTED))
        polled = float("-inf")
        wanted = _MIN_SUBMITTED
        for future in finished:
            index = indices.pop(future)
            try:
                yield index, _result(future, scheduler)
            except KilledWorker:
                suspects.append(index)
            if time.monotonic() - polled > _POLL_SECONDS:  # workers come and go
                polled = time.monotonic()
                wanted = max(_MIN_SUBMITTED, 2 * sum(client.ncores().values()))
            finished.update(submit(max(1, wanted - len(indices))))
        for index in suspects:  # Dask also blames tasks that were only queued on a killed worker
            try:
                yield index, _result(client.submit(function, tasks[index], pure=False), scheduler)
            except KilledWorker:
                yield index, killed(tasks[index])


def _result(future: Any, scheduler: str) -> Any:
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        raise
    except Exception as error:  # not from the function, which never raises
        cause = f"the cluster was lost ({type(error).__name__})"
        raise FileError(scheduler, cause, "run the same command again to resume") from error


def connect(scheduler: str, *, timeout: float | None = None) -> Any:
    """Return a client of a Dask cluster.

    Parameters
    ----------
    scheduler : the address of the scheduler, or its scheduler file.
    timeout : how many seconds to wait for an answer. Default: as Dask is configured.

    Returns
    -------
    distributed.Client
        The client, which the caller closes.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InvalidValueError(
            "--scheduler needs Dask, which is not installed; pip install 'ndflow[cluster]'"
        ) from None
    by_file = _is_file(scheduler)
    if by_file:
        _check_scheduler_file(scheduler)
    try:
        wait = {} if timeout is None else {"timeout": timeout}
        return Client(**{"scheduler_file" if by_file else "address": scheduler}, **wait)
    except (OSError, ValueError) as error:
        cause = f"no Dask scheduler answers there ({error})"
        raise FileError(scheduler, cause, "start one: dask scheduler") from None
    # Certificates are missing, or encryption is required.
    except (TypeError, RuntimeError) as error:
        cause = f"its connection cannot be secured as configured ({error})"
        hint = "check distributed.comm.tls in the configuration of Dask, and use a tls:// address"
        raise FileError(scheduler, cause, hint) from None


def _is_file(scheduler: str) -> bool:
    """Whether what was given names a scheduler file, which may be missing."""
    if "://" in scheduler:
        return False
    path = Path(scheduler)
    return path.suffix == ".json" or len(path.parts) > 1 or path.is_file()


def _check_scheduler_file(file: str) -> None:
    """Refuse a file that Dask would wait for, or fail on without saying why."""
    hint = "give the file that dask scheduler --scheduler-file wrote, or tcp://HOST:PORT"
    try:
        content = json.loads(Path(file).read_text("utf-8"))
    except FileNotFoundError:
        raise FileError(file, "there is no such file", hint) from None
    except OSError as error:
        raise FileError(file, f"cannot be read ({error.strerror})", hint) from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("address"), str):
        raise FileError(file, "not a scheduler file of Dask", hint)
