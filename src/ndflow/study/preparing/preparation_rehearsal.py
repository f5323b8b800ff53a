"""What a preparation would do for each scan, and why, without doing it."""

from __future__ import annotations

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents
from ndflow.image.subject import Scan
from ndflow.scan.results import hashes
from ndflow.study.plan import Study
from ndflow.study.preparing.copies.copy_job import refuse_edited_copy
from ndflow.study.preparing.copies.copy_paths import copy_paths
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.study.preparing.preparation_records import PreparationRecord
from ndflow.study.preparing.prepare_job import (
    package_versions,
    prepared_before,
    prepared_on_own_grid,
    refuse_edited,
)
from ndflow.study.preparing.raw_scan import choices_for
from ndflow.study.rehearsal import (
    FIT,
    FIT_AND_WRITE,
    KEEP,
    NEW,
    OTHERWISE,
    PERHAPS,
    UP_TO_DATE,
    Rehearsed,
    changed_since,
    rehearse,
    unreadable,
)

__all__ = ["ALIGN", "PREPARE", "rehearse_all", "rehearse_preparation"]

PREPARE, ALIGN = "prepare", "align"

_OTHER_SITE = "up to date; its sidecar will name the other site"
_DEPENDS = "prepared already; the rest depends on the other scans"


def rehearse_preparation(plan: Preparation) -> list[Rehearsed]:
    """Return what a run would do for each scan."""
    return [_rehearsed(plan, scan) for scan in plan.scans]


def rehearse_all(study: Study, *, images: bool = True) -> list[Rehearsed]:
    """Return what a run would do for each scan of a study, from the preparation on.

    Parameters
    ----------
    study : what is to be done.
    images : whether images would be written; otherwise only densities.
    """
    raw = study.preparation
    before = [] if raw is None else rehearse_preparation(raw)
    if all(one.action == KEEP and one.error is None for one in before):
        return rehearse(study, images=images)
    then = FIT_AND_WRITE if images else FIT
    return [
        one._replace(action=f"{PREPARE}, {then}")
        if one.action == PREPARE
        else one._replace(action=PERHAPS, why=_DEPENDS)
        for one in before
    ]


def _rehearsed(plan: Preparation, scan: Scan) -> Rehearsed:
    choices, paths = choices_for(plan, scan), plan.paths(scan)
    files = scan.files(tissues=choices.tissues == "given")
    if (error := unreadable(scan, files)) is not None:
        return Rehearsed(scan, PREPARE, NEW, error)
    if not paths.sidecar.exists():
        return Rehearsed(scan, PREPARE, NEW)
    if prepared_before(scan, paths, choices) is not None:
        same = PreparationRecord.read(paths.sidecar).site == scan.site
        return Rehearsed(scan, KEEP, UP_TO_DATE if same else _OTHER_SITE)
    if (error := _edited_copy(plan, scan)) is not None:
        return Rehearsed(scan, ALIGN, "", error)
    if prepared_on_own_grid(scan, paths, choices) is not None:
        return Rehearsed(scan, ALIGN, _why_aligned(plan, scan))
    try:
        before = PreparationRecord.read(paths.sidecar)
    except FileError:
        return Rehearsed(scan, PREPARE, "its sidecar is damaged")
    try:
        refuse_edited(scan, paths, choices)
    except FileError as edited:
        return Rehearsed(scan, PREPARE, "", edited)
    now = contents(hashes(files))
    packages = package_versions(choices)
    known = {name: before.versions.get(name) for name in packages}
    changed = changed_since(
        before.steps | known, choices.steps | packages, contents(before.inputs), now
    )
    gone = [path.name for path in paths.named(before.outputs).values() if not path.exists()]
    missing = f"missing: {', '.join(gone)}" if gone else None
    return Rehearsed(scan, PREPARE, changed or missing or OTHERWISE)


def _edited_copy(plan: Preparation, scan: Scan) -> FileError | None:
    """Return what would prevent a copy that somebody has changed from being replaced."""
    resolution = plan.preparing.resolution
    if resolution is None:
        return None
    try:
        refuse_edited_copy(plan.paths(scan), resolution)
    except FileError as edited:
        return edited
    return None


def _why_aligned(plan: Preparation, scan: Scan) -> str:
    """Return why the copy of a scan that is prepared already would be made."""
    resolution = plan.preparing.resolution
    if resolution is None:
        return OTHERWISE
    there = copy_paths(plan.paths(scan).image, resolution).sidecar.exists()
    return "its copy is out of date" if there else f"prepared already; no copy of {resolution:g} mm"
