"""Work spread over processes, any of which may die.

A process that is killed, mostly because memory runs out, takes the whole pool with it: nobody can
tell which of the tasks at hand was the culprit. So each of them is done again in a process of its
own, where only the culprit dies a second time, and the others go on together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky import ProcessPoolExecutor, reusable_executor

__all__ = ["spread"]

T = TypeVar("T")
R = TypeVar("R")


def spread(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int, killed: Callable[[T], R]
) -> Generator[tuple[int, R], None, None]:
    """Yield the place of each task and the result of the function for it, as they come.

    Parameters
    ----------
    function : the work; it, the tasks and the results travel between processes. It must not raise.
    tasks : what it is done on.
    jobs : how many at a time; -1 for one a core.
    killed : the result for a task whose process died twice.
    """
    left = dict(enumerate(tasks))
    at_hand = 2 * effective_n_jobs(jobs)
    try:
        while left:
            try:
                for place, result in _together(function, left, jobs, at_hand):
                    del left[place]
                    yield place, result
            except BrokenProcessPool:
                for place in list(left)[:at_hand]:
                    yield place, _alone(function, left.pop(place), killed)
    except BaseException:
        _stop()
        raise


def _stop() -> None:
    """Stop the processes at once: nobody waits for them any more."""
    pool = reusable_executor._executor  # joblib's, which has no public name
    if pool is not None:
        pool.shutdown(wait=True, kill_workers=True)


def _together(
    function: Callable[[T], R], tasks: dict[int, T], jobs: int, at_hand: int
) -> Generator[tuple[int, R], None, None]:
    parallel = Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch=at_hand, batch_size=1
    )
    work = delayed(_placed)
    yield from parallel(work(function, place, task) for place, task in list(tasks.items()))


def _placed(function: Callable[[T], R], place: int, task: T) -> tuple[int, R]:
    return place, function(task)


def _alone(function: Callable[[T], R], task: T, killed: Callable[[T], R]) -> R:
    with ProcessPoolExecutor(max_workers=1) as pool:
        try:
            result: R = pool.submit(function, task).result()
        except BrokenProcessPool:
            return killed(task)
    return result
