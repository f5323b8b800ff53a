"""Work spread over processes, any of which may die.

On this machine a process that is killed, mostly because memory runs out, takes the whole pool with
it: nobody can tell which of the tasks at hand was the culprit. So each of them is done again in a
process of its own, where only the culprit dies a second time, and the others go on together.

A Dask cluster knows which task a worker had, and tries it again elsewhere, as often as its
scheduler is set to. (joblib has a backend for Dask, but joblib 1.6 waits for ever for the result of
a worker that was killed; so futures are used as they are.)
"""

from __future__ import annotations

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
from joblib.externals.loky import ProcessPoolExecutor, reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

from ndflow.errors import FileError, InvalidValueError

__all__ = ["run_in_workers"]

_FEWEST = 64  # tasks to hand out at least: a cluster may grow when it sees that there is work
_A_WHILE = 5.0  # seconds

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
    """Yield the place of each task and the result of the function for it, as they come.

    Parameters
    ----------
    function : the work; it, the tasks and the results travel between processes. It must not raise.
    tasks : what it is done on.
    jobs : how many at a time; -1 for one a core.
    killed : the result for a task whose process died again and again.
    scheduler : the address of a Dask scheduler whose workers do the work, or its file.
    """
    if scheduler is not None:
        return _on_cluster(function, tasks, scheduler, killed)
    return _here(function, tasks, jobs, killed)


def _here(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, killed: Callable[[T], R]
) -> Results[R]:
    left = dict.fromkeys(range(len(tasks)))  # in order
    at_hand = 2 * effective_n_jobs(jobs)
    _start_trackers()
    try:
        while left:
            parallel = Parallel(
                n_jobs=jobs,
                return_as="generator_unordered",
                pre_dispatch=at_hand,
                batch_size=1,
            )
            work = (delayed(_placed)(function, place, tasks[place]) for place in list(left))
            with suppress(BrokenProcessPool), _started(parallel, work) as results:
                for place, result in results:
                    del left[place]
                    yield place, result
            for place in list(left)[:at_hand]:  # none, unless one of them has died
                del left[place]
                yield place, _alone(function, tasks[place], killed)
    except BaseException:
        pool = reusable_executor._executor  # joblib's, which has no public name
        if pool is not None:  # nobody waits for it any more
            pool.shutdown(wait=True, kill_workers=True)
        raise


def _start_trackers() -> None:
    """Start, without their warnings, the processes that clear away what killed workers leave.

    They would speak of semaphores on the terminal, after our own last word. (Who sets
    PYTHONWARNINGS hears them nevertheless.) And started later, together with the first worker,
    they would let it hear Ctrl-C.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        resource_tracker.ensure_running()  # multiprocessing's, which joblib starts too
        loky_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def _started(parallel: Parallel, work: Iterator[Any]) -> Iterator[Any]:
    """Start some work in processes, which end with the block."""
    with ExitStack() as stack:
        with _deaf_processes():
            results = parallel(work)
            stack.callback(_close, results)
        yield results


@contextmanager
def _deaf_processes() -> Iterator[None]:
    """Let processes that are started not hear Ctrl-C, which goes to all of them.

    The first one, which hears it after the block, stops the others. They must be deaf from the
    beginning: one that is interrupted while it loads modules says so at length.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(results: Any) -> None:
    """Close a generator of joblib's without its advice not to do so."""
    with catch_warnings():
        simplefilter("ignore")
        results.close()


def _placed(function: Callable[[T], R], place: int, task: T) -> tuple[int, R]:
    return place, function(task)


def _alone(function: Callable[[T], R], task: T, killed: Callable[[T], R]) -> R:
    for _ in range(2):  # it may not have been the culprit before
        with ProcessPoolExecutor(max_workers=1) as pool, suppress(BrokenProcessPool):
            with _deaf_processes():
                future = pool.submit(function, task)
            result: R = future.result()
            return result
    return killed(task)


def _on_cluster(
    function: Callable[[T], R], tasks: Sequence[T], scheduler: str, killed: Callable[[T], R]
) -> Results[R]:
    with closing(_client(scheduler)) as client:
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        places: dict[Any, int] = {}
        suspects: list[int] = []
        waiting = iter(enumerate(tasks))

        def hand_out(count: int) -> list[Any]:
            futures = []
            for place, task in islice(waiting, count):
                future = client.submit(function, task, pure=False)
                places[future] = place
                futures.append(future)
            return futures

        ended = as_completed(hand_out(_FEWEST))
        asked = float("-inf")
        enough = _FEWEST
        for future in ended:
            place = places.pop(future)
            try:
                yield place, _result(future, scheduler)
            except KilledWorker:
                suspects.append(place)
            if time.monotonic() - asked > _A_WHILE:  # workers come and go
                asked = time.monotonic()
                enough = max(_FEWEST, 2 * sum(client.ncores().values()))
            ended.update(hand_out(max(1, enough - len(places))))
        for place in suspects:  # tasks that only waited for the same worker are suspected too
            try:
                yield place, _result(client.submit(function, tasks[place], pure=False), scheduler)
            except KilledWorker:
                yield place, killed(tasks[place])


def _result(future: Any, scheduler: str) -> Any:
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        raise
    except Exception as error:  # not of the work itself, which never raises
        cause = f"the cluster was lost ({type(error).__name__})"
        raise FileError(scheduler, cause, "type the same again to go on") from error


def _client(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise InvalidValueError(
            "--scheduler needs Dask, which is not installed; pip install 'ndflow[cluster]'"
        ) from None
    try:
        by_file = Path(scheduler).is_file()
        return Client(scheduler_file=scheduler) if by_file else Client(scheduler)
    except (OSError, ValueError) as error:
        cause = f"no Dask scheduler answers there ({error})"
        raise FileError(scheduler, cause, "start one: dask scheduler") from None
