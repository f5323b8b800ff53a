"""Tasks of a comparison, run in parallel and followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from ndflow.study.parallel.followed import Progress
from ndflow.study.parallel.tasks import Failure, Task, run_tasks

__all__ = ["reason_of", "run_followed"]


def run_followed(
    function: Callable[..., Any], tasks: Sequence[Task], stage: str, progress: Progress, jobs: int
) -> tuple[dict[str, Any], list[Failure]]:
    """Return the results by the names of their tasks, and what failed.

    Parameters
    ----------
    function : what to call.
    tasks : the arguments of each call, with different names.
    stage : what to call it where progress is shown.
    progress : follows how far it has come.
    jobs : how many at a time.
    """
    done: dict[str, Any] = {}
    failures: list[Failure] = []
    progress.begin(stage, len(tasks))
    with closing(run_tasks(function, tasks, jobs=jobs)) as outcomes:
        for task, outcome in zip(tasks, outcomes, strict=True):
            progress.step(stage, outcome)
            if outcome.failure is None:
                done[task.scan] = outcome.result
            else:
                failures.append(outcome.failure)
    return done, failures


def reason_of(failure: Failure) -> str:
    """Return why something failed, and what to try, for a note."""
    return f"{failure.cause}; {failure.hint}" if failure.hint else failure.cause
