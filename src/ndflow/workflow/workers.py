"""Work spread over processes, any of which may die.

A process that is killed, mostly because memory runs out, takes the whole pool with it: nobody can
tell which of the tasks at hand was the culprit. So each of them is done again in a process of its
own, where only the culprit dies a second time, and the others go on together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.externals.loky import ProcessPoolExecutor, reusable_executor

from ndflow.errors import FileError, InvalidValueError

__all__ = ["spread"]

T = TypeVar("T")
R = TypeVar("R")


def spread(
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    jobs: int,
    killed: Callable[[T], R],
    scheduler: str | None = None,
) -> Generator[tuple[int, R], None, None]:
    """Yield the place of each task and the result of the function for it, as they come.

    Parameters
    ----------
    function : the work; it, the tasks and the results travel between processes. It must not raise.
    tasks : what it is done on.
    jobs : how many at a time; -1 for one a core.
    killed : the result for a task whose process died twice.
    scheduler : the address of a Dask scheduler whose workers do the work, or its file.
    """
    left = dict(enumerate(tasks))
    with _Here(jobs) if scheduler is None else _Cluster(scheduler) as pool:
        while left:
            with suppress(*pool.deaths):
                for place, result in pool.together(function, left):
                    del left[place]
                    yield place, result
            for place in list(left)[: pool.at_hand]:  # none, unless one of them has died
                task = left.pop(place)
                try:
                    result = pool.alone(function, task)
                except pool.deaths:
                    result = killed(task)
                yield place, result


class _Pool:
    """Processes that wait for work.

    Attributes
    ----------
    deaths : what is raised when one of them was killed.
    at_hand : how many tasks they have at a time.
    """

    deaths: tuple[type[Exception], ...]
    at_hand: int

    def together(
        self, function: Callable[[T], R], tasks: dict[int, T]
    ) -> Generator[tuple[int, R], None, None]:
        """Do some work on all tasks, and yield results with their places as they come."""
        parallel = self._parallel(
            return_as="generator_unordered", pre_dispatch=self.at_hand, batch_size=1
        )
        work = delayed(_placed)
        yield from parallel(work(function, place, task) for place, task in list(tasks.items()))

    def _parallel(self, **options: Any) -> Parallel:
        raise NotImplementedError


def _placed(function: Callable[[T], R], place: int, task: T) -> tuple[int, R]:
    return place, function(task)


class _Here(_Pool):
    """Processes on this machine."""

    deaths = (BrokenProcessPool,)

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self.at_hand = 2 * effective_n_jobs(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pool = reusable_executor._executor  # joblib's, which has no public name
        if kind is not None and pool is not None:  # nobody waits for it any more
            pool.shutdown(wait=True, kill_workers=True)

    def _parallel(self, **options: Any) -> Parallel:
        return Parallel(n_jobs=self._jobs, **options)

    def alone(self, function: Callable[[T], R], task: T) -> R:
        """Do some work in a process of its own."""
        with ProcessPoolExecutor(max_workers=1) as pool:
            result: R = pool.submit(function, task).result()
        return result


class _Cluster(_Pool):
    """Workers of a Dask scheduler, wherever they are."""

    def __init__(self, scheduler: str) -> None:
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError:
            raise InvalidValueError(
                "--scheduler needs Dask, which is not installed; pip install 'ndflow[cluster]'"
            ) from None
        self.deaths = (KilledWorker,)
        by_file = Path(scheduler).is_file()
        try:
            self._client = Client(scheduler_file=scheduler) if by_file else Client(scheduler)
        except (OSError, ValueError) as error:
            cause = f"no Dask scheduler answers there ({error})"
            raise FileError(scheduler, cause, "start one: dask scheduler") from None
        self.at_hand = 2 * max(1, sum(self._client.ncores().values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _parallel(self, **options: Any) -> Parallel:
        with parallel_config(backend="dask", client=self._client):
            return Parallel(**options)

    def alone(self, function: Callable[[T], R], task: T) -> R:
        """Do some work apart from the rest."""
        result: R = self._client.submit(function, task, pure=False).result()
        return result
