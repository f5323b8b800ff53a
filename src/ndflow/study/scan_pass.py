"""One pass over many scans: the same work for each, unless it was done before."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from ndflow.image.subject import Subject
from ndflow.study.plan import Plan
from ndflow.study.table import without_repeats
from ndflow.study.tasks import Outcome, Task, run_task, run_tasks

Arguments = dict[str, Any]

_ALONE = 1.0  # seconds that the main process checks scans by itself, about the start of a worker


class Work(NamedTuple):
    """What a pass does for each scan.

    Attributes
    ----------
    stage : its name.
    job : does it, unless it was done before; its result says what the image holds, see
        `ndflow.study.table.without_repeats`.
    before : returns what was done before; None if that is missing or out of date.
    apart : whether the job is never done in this process, see `run_tasks`.
    """

    stage: str
    job: Callable[..., Any]
    before: Callable[..., Any]
    apart: bool = False


class ScanTasks(Sequence[Task]):
    """Tasks that are made when they are handed out, because there may be many.

    Parameters
    ----------
    plan : says where the results of a scan go.
    scans : one task for each.
    more : the arguments of a scan's task, beside the scan and its paths.
    """

    def __init__(
        self, plan: Plan, scans: Sequence[Subject], more: Callable[[Subject], Arguments] = lambda _: {}
    ) -> None:
        self.scans, self._plan, self._more = scans, plan, more

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, place: Any) -> Any:
        scan = self.scans[place]
        arguments = {"scan": scan, "paths": self._plan.paths(scan), **self._more(scan)}
        return Task(scan.name, arguments, scan.origin)

    def without(self, first: int) -> ScanTasks:
        """Return all but the first tasks."""
        return ScanTasks(self._plan, self.scans[first:], self._more)


def outcomes_of(
    plan: Plan, work: Work, tasks: ScanTasks
) -> Generator[tuple[Subject, Outcome], None, None]:
    """Yield each scan with its outcome, in the order of the tasks.

    A scan with the content of an earlier one fails. Closing the generator stops the workers.

    Parameters
    ----------
    plan : how many workers there are, and where.
    work : what to do.
    tasks : for which scans.
    """
    with closing(_outcomes(plan, work, tasks)) as outcomes:
        yield from without_repeats(tasks.scans, outcomes)


def _outcomes(plan: Plan, work: Work, tasks: ScanTasks) -> Generator[Outcome, None, None]:
    """Yield the outcome of each task.

    Whether scans are up to date is found out here as long as they are, and as long as workers would
    take to start: a small study that has nothing to do needs none.
    """
    first = 0
    if (plan.jobs != 1 or work.apart) and plan.scheduler is None:
        until = time.monotonic() + _ALONE
        while first < len(tasks) and time.monotonic() < until:
            outcome = run_task(work.before, tasks[first])
            if outcome.failure is not None or outcome.result is None:
                break
            yield outcome
            first += 1
    yield from run_tasks(
        work.job,
        tasks.without(first),
        jobs=plan.jobs,
        scheduler=plan.scheduler,
        fewest=2 if len(tasks) < 2 else 1,  # the last scan of several has a process of its own, too
        apart=work.apart,
    )
