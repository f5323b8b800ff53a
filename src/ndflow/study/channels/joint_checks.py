"""Whether a joint study can be run: checked before any work."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.scan.channels.channel_records import JointModel
from ndflow.scan.channels.channel_subject import listed
from ndflow.scan.outputs import check_folder
from ndflow.scan.records import MapRecord, ReferenceModel
from ndflow.scan.results import is_result
from ndflow.study.channels.joint_plan import JointStudy, JointStudyRecord
from ndflow.study.channels.joint_reference import joint_target
from ndflow.study.folder import PROVENANCE, SCANS, refuse_inputs_inside
from ndflow.study.listing.repeats import refuse_almost_equal_sites, refuse_repeats
from ndflow.study.parallel.tasks import check_jobs
from ndflow.study.references import reference_name

__all__ = ["check_joint_study", "refuse_foreign_study"]

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
