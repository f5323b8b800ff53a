"""A joint study of a BIDS dataset, with its results as a BIDS derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.bids.derivative import check_dataset
from ndflow.bids.query import DESCRIPTION
from ndflow.errors import FileError
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Scan
from ndflow.scan.outputs import make_folder
from ndflow.scan.presets.preset_rules import Choices
from ndflow.study.channels.joint_checks import check_joint_study, refuse_foreign_study
from ndflow.study.channels.joint_plan import JointStudy, joint_study
from ndflow.study.channels.joint_run import fit_joint_study, run_joint_study
from ndflow.study.channels.joint_visits import JointVisits
from ndflow.study.folder import PROVENANCE
from ndflow.study.listing.bids_scans import describe_derivative, scans_of_dataset
from ndflow.study.passes import Progress, Summary
from ndflow.study.plan import Study

__all__ = ["check_joint_dataset", "joint_study_of_dataset", "run_joint_dataset"]


def joint_study_of_dataset(
    study: Study,
    visits: JointVisits,
    choices: Choices,
    *,
    unmasked: FoundMask | None,
    derivatives: Mapping[str, Path],
) -> JointStudy:
    """Return the plan of a joint study of a dataset.

    The first channel that has a mask, or a lesion mask, gives it to all.

    Parameters
    ----------
    study : how, and where to; its scans do not count.
    visits : the images.
    choices : what the user chose.
    unmasked, derivatives : see `ndflow.study.from_bids.scans_of_dataset`.
    """
    scans = {
        channel: scans_of_dataset(images, unmasked=None, derivatives=derivatives)
        for channel, images in visits.images.items()
    }
    rows = [_shared(row, unmasked) for row in zip(*scans.values(), strict=True)]
    named = {channel: [row[place] for row in rows] for place, channel in enumerate(scans)}
    return joint_study(study, named, visits.names, choices)


def _shared(row: Sequence[Scan], unmasked: FoundMask | None) -> list[Scan]:
    mask = next((scan.mask for scan in row if scan.mask is not None), unmasked)
    lesion = next((scan.lesion for scan in row if scan.lesion is not None), None)
    return [replace(scan, mask=mask, lesion=lesion) for scan in row]


def check_joint_dataset(plan: JointStudy, root: Path, *, force: bool) -> None:
    """Raise an error, before any work, if the study cannot be run; see `run_joint_dataset`."""
    check_dataset(plan.folder, source_root=root, force=force)
    check_joint_study(plan, force=force, ours=True)
    if force:
        return
    try:
        refuse_foreign_study(plan)
    except FileError:
        # Densities of participants may be there before there is a study.
        if (plan.folder / PROVENANCE).exists() or not (plan.folder / DESCRIPTION).exists():
            raise


def run_joint_dataset(
    plan: JointStudy,
    root: Path,
    progress: Progress,
    *,
    group: bool,
    command: Sequence[str] = (),
    derivatives: Mapping[str, Path],
    force: bool,
) -> Summary:
    """Run a joint study of a dataset.

    Parameters
    ----------
    plan : what to do.
    root : the dataset.
    progress : follows how far the run has come.
    group : whether references are made and images written; otherwise only densities are estimated.
    command : what the user typed, for the record.
    derivatives : the folders in which masks were looked up, by name.
    force : whether the folder of the results may hold something else.
    """
    check_joint_dataset(plan, root, force=force)
    make_folder(plan.folder)
    describe_derivative(plan.study, root, derivatives, force=force)
    if not group:
        return fit_joint_study(plan, progress)
    return run_joint_study(plan, progress, command=command, force=True)
