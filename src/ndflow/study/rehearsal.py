"""What a run would do for each scan, and why, without doing it.

A density is kept if its fingerprint is the one that a run would compute, and so is an image; but
that of an image includes the reference. Where some densities are still to be estimated, the
reference of a study is not known yet, and what will become of the images depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents, fingerprint_of
from ndflow.files.stream import open_file, sha256_of
from ndflow.image.preview import is_ours
from ndflow.image.subject import Subject
from ndflow.methods.modes import Goal
from ndflow.study.checks import Doubts, odd_scans
from ndflow.study.integrity import MAPPED
from ndflow.study.joint_jobs import fitted_jointly_before, normalised_jointly_before
from ndflow.study.joint_plan import JointStudy
from ndflow.study.joint_reference import make_joint_reference
from ndflow.study.passes import fit_options
from ndflow.study.plan import Preparation, ResultPaths, Study
from ndflow.study.prepare_copies import copy_paths, refuse_edited_copy
from ndflow.study.prepare_job import (
    package_versions,
    prepared_before,
    prepared_on_own_grid,
    refuse_edited,
)
from ndflow.study.prepare_records import PreparationRecord
from ndflow.study.prepared_images import with_kept_mask
from ndflow.study.raw_scan import choices_for
from ndflow.study.references import make_references, read_fits
from ndflow.study.scan_jobs import image_fingerprint, model_settings, uses_tissue_maps
from ndflow.subject.joint_target import JointTarget
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.results import hashes
from ndflow.subject.voxels import selection
from ndflow.values import JSON

FIT, FIT_AND_WRITE, WRITE, KEEP = "fit", "fit and write", "write", "keep"
PERHAPS = "keep or write"
NEW, UP_TO_DATE = "new", "up to date"
_DEPENDS = "depends on the reference, which may change"
OTHERWISE = "made with another version of ndflow"

Contents = Mapping[str, Sequence[str]]  # the hashes of files, by what they are


class _Goals(NamedTuple):
    """What scans are brought to, by site, and what is doubtful in comparison, by scan.

    The study has what its preset decided, now that densities are known.
    """

    study: Study
    of_sites: Mapping[str | None, Goal]
    doubts: Doubts


class Rehearsed(NamedTuple):
    """What a run would do for a scan.

    Attributes
    ----------
    scan : the scan.
    action, why : what would be done, and for what reason.
    error : what would prevent it.
    """

    scan: Subject
    action: str = ""
    why: str = ""
    error: FileError | None = None


@dataclass(frozen=True)
class _Density:
    """The density of a scan: why it has to be estimated, if so, and the hashes of its files."""

    stale: str | None
    inputs: Contents
    error: FileError | None = None


def rehearse(study: Study, *, images: bool = True) -> list[Rehearsed]:
    """Return what a run would do for each scan.

    Parameters
    ----------
    study : what is to be done.
    images : whether images would be written; otherwise only densities.
    """
    densities = [_density(study, scan) for scan in study.scans]
    if not images:
        return [
            Rehearsed(scan, FIT if one.stale else KEEP, one.stale or UP_TO_DATE, one.error)
            for scan, one in zip(study.scans, densities, strict=True)
        ]
    goals = _goals(study, densities)
    return [_rehearsed(study, s, one, goals) for s, one in zip(study.scans, densities, strict=True)]


def _density(study: Study, scan: Subject) -> _Density:
    options = fit_options(study)
    paths = study.paths(scan)
    model = paths.model
    masked = with_kept_mask(scan, paths) if paths.mask.exists() else scan
    files = masked.files(tissues=uses_tissue_maps(scan, options))
    if (error := unreadable(scan, files)) is not None:
        return _Density(NEW, {}, error)
    if not model.exists():
        return _Density(NEW, {})
    inputs = contents(hashes(files))
    chosen = model_settings(scan, options)
    fingerprint = fingerprint_of(inputs=inputs, settings=chosen)
    if ScanModel.up_to_date(model, fingerprint) is not None:
        return _Density(None, inputs)
    try:
        before = ScanModel.read(model)
    except FileError:
        return _Density("its density is damaged", inputs)
    changed = changed_since(before.settings, chosen, before.sha256, inputs)
    return _Density(changed or OTHERWISE, inputs)


def unreadable(scan: Subject, files: Contents) -> FileError | None:
    """Return why one of the files of a scan cannot be opened; None if all can."""
    try:
        for names in files.values():
            for name in names:
                with open_file(name):
                    pass
    except FileError as error:
        return FileError(error.path, f"{error.cause} ({scan.origin})", error.hint)
    return None


def _goals(study: Study, densities: Sequence[_Density]) -> _Goals | None:
    """Return what the scans are brought to; None if that is not known yet."""
    fresh = [
        scan
        for scan, one in zip(study.scans, densities, strict=True)
        if not (one.stale or one.error)
    ]
    complete = len(fresh) == len(study.scans)
    if not complete and (study.given is None or study.mode.by_site):
        return None
    fits = read_fits(study, fresh)
    models = {name: fit.model for name, fit in fits.items()}
    # A reference that was given does not depend on the scans.
    made = make_references(study, fresh, models) if complete else make_references(study, [], {})
    return _Goals(made.study, made.goals, odd_scans(fresh, fits, made.common.mixture))


def _rehearsed(study: Study, scan: Subject, density: _Density, goals: _Goals | None) -> Rehearsed:
    if density.stale or density.error:
        return Rehearsed(scan, FIT_AND_WRITE, density.stale or "", density.error)
    paths = study.paths(scan)
    if not (paths.sidecar.exists() and paths.image.exists() and is_ours(paths.preview)):
        return Rehearsed(scan, WRITE, "fitted already")
    if goals is None:
        return Rehearsed(scan, PERHAPS, _DEPENDS)
    stale = _stale_image(goals.study, scan, paths, density.inputs, goals)
    return Rehearsed(scan, WRITE if stale else KEEP, stale or UP_TO_DATE)


def _stale_image(
    study: Study, scan: Subject, paths: ResultPaths, hashed: Contents, goals: _Goals
) -> str | None:
    """Return why an image has to be written again, if so."""
    inputs = {what: hashed[what] for what in MAPPED if what in hashed}
    model = ScanModel.read(paths.model).model
    goal, doubts = study.mode.goal_of(goals.of_sites, scan.site), goals.doubts.get(scan.name, ())
    fingerprint = image_fingerprint(scan, inputs, model, goal, study.settings, doubts)
    before = MapRecord.up_to_date(paths.sidecar, fingerprint)
    if before is not None:
        return None if before.outputs == (sha256_of(paths.image),) else "its result was changed"
    try:
        record = MapRecord.read(paths.sidecar)
    except FileError:
        return "its sidecar is damaged"
    known = {name: study.settings.get(name) for name in record.settings or {}} | selection(scan)
    read = contents(record.inputs or {})
    before_hashes = {what: read[what] for what in MAPPED if what in read} or None
    changed = changed_since(record.settings, known, before_hashes, inputs)
    return changed or f"the reference has changed, or it was {OTHERWISE}"


def changed_since(
    settings: Mapping[str, JSON] | None,
    chosen: Mapping[str, JSON],
    hashed: Contents | None,
    inputs: Contents,
) -> str | None:
    """Return which settings or files differ from those of an earlier run, in words."""
    known = dict(settings or {})
    names = sorted(n for n in {*known, *chosen} if known.get(n) != _plain(chosen.get(n)))
    if hashed is not None:
        kinds = {*hashed, *inputs}
        names += sorted(k for k in kinds if list(hashed.get(k, ())) != list(inputs.get(k, ())))
    return f"changed: {', '.join(dict.fromkeys(names))}" if names else None


def _plain(value: JSON) -> JSON:
    """Return a setting as it is read back from JSON."""
    return list(value) if isinstance(value, tuple) else value


# ── joint studies ─────────────────────────────────────────────────────────────────────────────────

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
            scan, (), subject, results=results, options=plan.study.options
        )
        if before is None:
            stale[scan.name] = _CHANGED if results[0].model.exists() else NEW
    given = plan.study.given is not None
    target = None
    if images and (given or not (stale or errors)):
        target = make_joint_reference(plan, [scan.name for scan in plan.scans], write=False)
    return [
        _joint_rehearsed(
            plan, scan, stale.get(scan.name), errors.get(scan.name), target, images=images
        )
        for scan in plan.scans
    ]


def _joint_rehearsed(
    plan: JointStudy,
    scan: Subject,
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
    before = normalised_jointly_before(
        scan, (), plan.subjects[scan.name], results=results, target=target
    )
    if before is not None:
        return Rehearsed(scan, KEEP, UP_TO_DATE)
    return Rehearsed(scan, WRITE, "the reference or the settings have changed")


# ── preparations ──────────────────────────────────────────────────────────────────────────────────

PREPARE, ALIGN = "prepare", "align"

_OTHER_SITE = "up to date; its sidecar will name the other site"
_DEPENDS_ON_OTHERS = "prepared already; the rest depends on the other scans"


def rehearse_preparation(plan: Preparation) -> list[Rehearsed]:
    """Return what a run would do for each scan."""
    return [_preparation_rehearsed(plan, scan) for scan in plan.scans]


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
        else one._replace(action=PERHAPS, why=_DEPENDS_ON_OTHERS)
        for one in before
    ]


def _preparation_rehearsed(plan: Preparation, scan: Subject) -> Rehearsed:
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


def _edited_copy(plan: Preparation, scan: Subject) -> FileError | None:
    """Return what would prevent a copy that somebody has changed from being replaced."""
    resolution = plan.preparing.resolution
    if resolution is None:
        return None
    try:
        refuse_edited_copy(plan.paths(scan), resolution)
    except FileError as edited:
        return edited
    return None


def _why_aligned(plan: Preparation, scan: Subject) -> str:
    """Return why the copy of a scan that is prepared already would be made."""
    resolution = plan.preparing.resolution
    if resolution is None:
        return OTHERWISE
    there = copy_paths(plan.paths(scan).image, resolution).sidecar.exists()
    return "its copy is out of date" if there else f"prepared already; no copy of {resolution:g} mm"
