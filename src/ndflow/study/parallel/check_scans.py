"""The files of many scans, checked in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from ndflow.study.findings import Checked, Finding
from ndflow.study.parallel.followed import Progress
from ndflow.study.parallel.tasks import Task, run_tasks

__all__ = ["check_scans"]


def check_scans(
    check: Callable[..., Checked], tasks: Sequence[Task], jobs: int, follow: Progress
) -> Checked:
    """Check the files of many scans.

    Parameters
    ----------
    check : checks those of one.
    tasks : one per scan.
    jobs : how many scans at a time.
    follow : follows how far the work has come.
    """
    everything = Checked([], [])
    follow.begin("verify", len(tasks))
    with closing(run_tasks(check, tasks, jobs=jobs)) as outcomes:
        for outcome in outcomes:
            follow.step("verify", outcome)
            if outcome.failure is not None:
                found = Finding("changed", outcome.scan, outcome.failure.cause)
                everything.findings.append(found)
                continue
            everything.files.extend(outcome.result.files)
            everything.findings.extend(outcome.result.findings)
    return everything
