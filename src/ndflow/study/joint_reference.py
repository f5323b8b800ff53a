"""What the subjects of a joint study are brought to: one reference for all of them."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.options import Options
from ndflow.population import Reference
from ndflow.study.folder import PROVENANCE, SCANS, refuse_inputs_inside
from ndflow.study.joint_plan import JointStudy, JointStudyRecord
from ndflow.study.references import reference_name
from ndflow.study.table import refuse_almost_equal_sites, refuse_repeats
from ndflow.study.tasks import check_jobs
from ndflow.subject.channels import check_joint, listed
from ndflow.subject.joint_target import JointTarget, read_joint_target
from ndflow.subject.outputs import check_folder
from ndflow.subject.records import InputRecord, JointModel, MapRecord, ReferenceModel
from ndflow.subject.reference import average_models
from ndflow.subject.results import is_result

_OWN = "the joint reference of these subjects"


def joint_target(plan: JointStudy, to: Reference | str | None) -> JointTarget | None:
    """Return what all subjects are brought to; None, if that is not known yet.

    Parameters
    ----------
    plan : what is to be done; what a joint map cannot honour is refused.
    to : a joint reference, or the path of one; None, if it is still to be made.
    """
    first = next(iter(plan.subjects.values())).channels
    choices = plan.choices
    if to is None:
        check_joint(first, choices)
        return None
    target = read_joint_target(first, to, choices)
    if target.has_units:
        cause = "the density of a subject, not a reference"
        raise FileError(target.name, cause, "make one with 'ndflow reference'")
    return target if plan.study.given is not None else target._replace(name=_OWN)


def make_joint_reference(
    plan: JointStudy, done: Container[str], *, write: bool = True
) -> JointTarget:
    """Return what subjects are brought to: the given reference, or one of all that were fitted.

    Parameters
    ----------
    plan : what is to be done.
    done : the names of the subjects whose densities are known.
    write : whether to write the reference to the folder of the study.
    """
    path = plan.folder / reference_name(None)
    if plan.study.given is not None:
        target = joint_target(plan, plan.study.given)
        if write:
            ReferenceModel.read(plan.study.given).write_if_changed(path)
    else:
        names = sorted(scan.name for scan in plan.scans if scan.name in done)
        models = {n: JointModel.read(plan.folder / "models" / f"{n}.json") for n in names}
        reference = average_models(
            [one.model for one in models.values()],
            Options(),
            names=names,
            average="density",
            channel_names=plan.channel_names,
        )
        if write:
            inputs = tuple(
                InputRecord(name, tuple(h for own in (one.sha256 or {}).values() for h in own))
                for name, one in models.items()
            )
            ReferenceModel(reference, inputs).write_if_changed(path)
        target = joint_target(plan, reference)
    if target is None:
        raise TypeError("a joint target is expected")
    return target


# ── checks before the run ─────────────────────────────────────────────────────────────────────────

_ANOTHER = "choose another folder for the results"


def check_joint_study(plan: JointStudy, *, force: bool, ours: bool = False) -> None:
    """Raise an error, before any work, if a joint study cannot be run.

    Parameters
    ----------
    plan : what to do.
    force : whether the folder may hold something else.
    ours : whether the caller has checked what else the folder holds.
    """
    check_jobs(plan.jobs)
    every = [scan for subject in plan.subjects.values() for scan in subject.scans]
    refuse_repeats(every)
    refuse_almost_equal_sites(plan.scans)
    check_folder(plan.folder)
    refuse_inputs_inside(replace(plan.study, scans=every))
    joint_target(plan, plan.study.given)  # refuses what cannot be honoured
    if not (force or ours):
        refuse_foreign_study(plan)
    for path in _foreign(plan):
        cause = "exists, and was not written by ndflow"
        raise FileError(path, cause, f"move it, or {_ANOTHER}")
    for source in (plan.study.table, plan.study.given):
        top = (plan.folder / name for name in (PROVENANCE, SCANS, reference_name(None)))
        if source is not None and os.path.realpath(source) in map(os.path.realpath, top):
            cause = "lies where the study writes a file of that name"
            raise FileError(source, cause, f"move it, or {_ANOTHER}")


def refuse_foreign_study(plan: JointStudy) -> None:
    """Refuse a folder that holds something else than a joint study of such channels."""
    folder = plan.folder
    inside = [] if not folder.is_dir() else [*folder.iterdir()]
    if all(path.name.startswith(".ndflow-") for path in inside):
        return
    try:
        before = JointStudyRecord.read(folder / PROVENANCE).channel_names
    except FileError:
        cause = "not empty, and not the result of a joint study"
        raise FileError(folder, cause, "choose another folder, or --force to use it") from None
    if before != plan.channel_names:
        cause = f"holds a joint study of {listed(before)}, not of {listed(plan.channel_names)}"
        raise FileError(folder, cause, "choose another folder, or --force to use it")


def _foreign(plan: JointStudy) -> list[Path]:
    """Return the files that the study would replace and that are not ours."""
    if kind_in(plan.folder / PROVENANCE) == JointStudyRecord.kind:
        return []
    found = [plan.folder / PROVENANCE, plan.folder / SCANS]
    found += (
        []
        if _is(plan.folder / reference_name(None), ReferenceModel.kind)
        else [plan.folder / reference_name(None)]
    )
    for scan in plan.scans:
        for one in plan.results(scan):
            found += [] if _is(one.model, JointModel.kind) else [one.model]
            found += [] if _is(one.sidecar, MapRecord.kind) else [one.sidecar]
            if one.image.exists() and not is_result(one.image, one.sidecar):
                found.append(one.image)
    return [path for path in found if path.is_file()]


def _is(path: Path, kind: str) -> bool:
    return kind_in(path) == kind
