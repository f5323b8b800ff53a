"""A joint study from the first subject to the last: densities, reference, images."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ndflow._version import versions
from ndflow.files.atomic import folder_lock
from ndflow.files.stream import sha256_of
from ndflow.image.subject import Subject
from ndflow.study.folder import PROVENANCE, SCANS, remove_leftovers, remove_page
from ndflow.study.joint_jobs import (
    fit_jointly_job,
    fitted_jointly_before,
    normalise_jointly_job,
    normalised_jointly_before,
)
from ndflow.study.joint_plan import JointStudy, JointStudyRecord
from ndflow.study.joint_reference import check_joint_study, make_joint_reference
from ndflow.study.passes import Pass, Summary, over_scans
from ndflow.study.references import reference_name
from ndflow.study.scan_pass import ScanTasks, Work
from ndflow.study.table import write_study_scans
from ndflow.study.tasks import Failure, Progress, record_failures
from ndflow.subject.joint_target import JointTarget
from ndflow.subject.outputs import make_folder


def run_joint_study(
    plan: JointStudy, progress: Progress, *, command: Sequence[str] = (), force: bool
) -> Summary:
    """Run a joint study.

    Parameters
    ----------
    plan : what to do.
    progress : follows how far the run has come.
    command : what the user typed, for the record.
    force : whether the folder may hold something else.
    """
    check_joint_study(plan, force=force)
    make_folder(plan.folder)
    with folder_lock(plan.folder):
        remove_leftovers(plan)
        _record(plan, command)
        write_study_scans(plan.folder / SCANS, plan.images)
        try:
            fitted, normalised, target = _fit(plan, progress), Pass(), None
            if fitted.done:
                target = make_joint_reference(plan, fitted.done)
                normalised = _normalise(plan, fitted.done, target, progress)
        except BaseException:
            remove_leftovers(plan)  # of workers that had to stop at once
            raise
        _remove_failed(plan, fitted.failures, normalised.failures)
        failures = [*fitted.failures, *normalised.failures]
        if normalised.kept < len(normalised.done) or failures:
            remove_page(plan.folder)
        stages = {"fit": fitted.failures, "normalise": normalised.failures}
        record_failures(plan.folder, None, stages)
        _record(plan, command, fitted, normalised, target)
    return Summary(
        len(normalised.done),
        normalised.kept,
        failures,
        normalised.all_doubts(),
        preset=plan.study.preset,
    )


def fit_joint_study(plan: JointStudy, progress: Progress) -> Summary:
    """Estimate the joint densities of some subjects, and nothing else."""
    with folder_lock(plan.folder, shared=True):
        fitted = _fit(plan, progress)
        with folder_lock(plan.folder, name=".ndflow-failures-lock", wait=True):
            tried = dict.fromkeys(("fit", "normalise"), fitted.tried)
            record_failures(plan.folder, tried, {"fit": fitted.failures})
    return Summary(len(fitted.done), fitted.kept, fitted.failures, fitted.all_doubts())


def _tasks(plan: JointStudy, scans: Sequence[Subject], **more: Any) -> ScanTasks:
    return ScanTasks(
        plan,
        scans,
        lambda scan: {
            "subject": plan.subjects[scan.name],
            "results": plan.results(scan),
            **more,
        },
    )


def _fit(plan: JointStudy, progress: Progress) -> Pass:
    options = plan.study.options
    work = Work(
        "fit",
        partial(fit_jointly_job, options=options),
        partial(fitted_jointly_before, options=options),
    )
    return over_scans(plan, work, _tasks(plan, plan.scans), progress)


def _normalise(
    plan: JointStudy, done: Container[str], target: JointTarget, progress: Progress
) -> Pass:
    work = Work(
        "normalise",
        partial(normalise_jointly_job, target=target),
        partial(normalised_jointly_before, target=target),
    )
    scans = [scan for scan in plan.scans if scan.name in done]
    return over_scans(plan, work, _tasks(plan, scans), progress)


def _remove_failed(
    plan: JointStudy, unfitted: Sequence[Failure], unwritten: Sequence[Failure]
) -> None:
    """Remove what an earlier run made of subjects that failed now; valid densities stay."""
    without_model = {failure.scan for failure in unfitted}
    without_image = without_model | {failure.scan for failure in unwritten}
    for scan in plan.scans:
        if scan.name in without_image:
            model, *others = plan.paths(scan)
            for path in (model, *others) if scan.name in without_model else others:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _written(plan: JointStudy, fitted: Pass, normalised: Pass) -> dict[str, str]:
    """Return the hashes of all that a study wrote except images, whose sidecars hold theirs."""
    names = [SCANS, *([reference_name(None)] if fitted.done else [])]
    for scan in plan.scans:
        written: list[Path] = []
        if scan.name in fitted.done:
            written.append(plan.results(scan)[0].model)
        if scan.name in normalised.done:
            written += [p for one in plan.results(scan) for p in (one.sidecar, one.preview)]
        names += [path.relative_to(plan.folder).as_posix() for path in written]
    return {name: sha256_of(plan.folder / name) for name in names if (plan.folder / name).exists()}


def _record(
    plan: JointStudy,
    command: Sequence[str],
    fitted: Pass | None = None,
    normalised: Pass | None = None,
    target: JointTarget | None = None,
) -> None:
    """Write what is run; at the end, with what came of it."""
    study = plan.study
    outcome: dict[str, Any] = {}
    chosen = {} if target is None else target.options.of("match")
    if fitted is not None and normalised is not None:
        read = () if target is None else target.files.get("target", ())
        outcome = {
            "inputs": tuple(read),
            "files": _written(plan, fitted, normalised),
            "finished": True,
            "fitted": len(fitted.done),
            "normalised": len(normalised.done),
            "failed": len(fitted.failures) + len(normalised.failures),
            "doubts": normalised.all_doubts(),
        }
    JointStudyRecord(
        settings=study.settings | chosen | {"joint": True},
        command=tuple(command),
        versions=versions(),
        reference=study.given,
        channel=study.channel,
        scans=len(study.scans),
        sites=study.site_counts,
        preset=study.preset,
        channel_names=plan.channel_names,
        **outcome,
    ).write(plan.folder / PROVENANCE, force=True)
