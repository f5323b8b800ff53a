"""What a run of a joint study would do for each subject, and why, without doing it."""

from __future__ import annotations

from ndflow.errors import FileError
from ndflow.image.subject import Scan
from ndflow.scan.channels.channel_targets import JointTarget
from ndflow.study.channels.joint_jobs import fitted_jointly_before, normalised_jointly_before
from ndflow.study.channels.joint_plan import JointStudy
from ndflow.study.channels.joint_reference import make_joint_reference
from ndflow.study.rehearsal import (
    FIT,
    FIT_AND_WRITE,
    KEEP,
    NEW,
    PERHAPS,
    UP_TO_DATE,
    WRITE,
    Rehearsed,
    unreadable,
)

__all__ = ["rehearse_joint_study"]

_CHANGED = "its files or settings have changed"


def rehearse_joint_study(plan: JointStudy, *, images: bool = True) -> list[Rehearsed]:
    """Return what a run would do for each subject.

    Parameters
    ----------
    plan : what is to be done.
    images : whether images would be written; otherwise only densities.
    """
    stale: dict[str, str] = {}
    errors: dict[str, FileError] = {}
    for scan in plan.scans:
        subject, results = plan.subjects[scan.name], plan.results(scan)
        error = unreadable(scan, subject.channels.files())
        if error is not None:
            errors[scan.name] = error
            continue
        before = fitted_jointly_before(
            scan, (), subject, results=results, fitting=plan.study.fitting
        )
        if before is None:
            stale[scan.name] = _CHANGED if results[0].model.exists() else NEW
    given = plan.study.given is not None
    target = None
    if images and (given or not (stale or errors)):
        target = make_joint_reference(plan, [scan.name for scan in plan.scans], write=False)
    return [
        _rehearsed(plan, scan, stale.get(scan.name), errors.get(scan.name), target, images=images)
        for scan in plan.scans
    ]


def _rehearsed(
    plan: JointStudy,
    scan: Scan,
    stale: str | None,
    error: FileError | None,
    target: JointTarget | None,
    *,
    images: bool,
) -> Rehearsed:
    if not images or stale or error:
        todo = FIT_AND_WRITE if images else FIT
        return Rehearsed(scan, todo if stale else KEEP, stale or UP_TO_DATE, error)
    results = plan.results(scan)
    if not all(one.image.exists() and one.sidecar.exists() for one in results):
        return Rehearsed(scan, WRITE, "fitted already")
    if target is None:
        return Rehearsed(scan, PERHAPS, "depends on the reference, which may change")
    study = plan.study
    before = normalised_jointly_before(
        scan,
        (),
        plan.subjects[scan.name],
        results=results,
        target=target,
        fitting=study.fitting,
        writing=study.writing,
    )
    if before is not None:
        return Rehearsed(scan, KEEP, UP_TO_DATE)
    return Rehearsed(scan, WRITE, "the reference or the settings have changed")
