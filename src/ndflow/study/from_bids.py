"""A study that is a BIDS dataset, with its results as a BIDS derivative.

*participant* estimates the densities of some participants; any number of such runs may go on at the
same time, on any number of machines. *group* makes the references and normalises; densities that
are not there yet it estimates itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ndflow._version import __version__
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import folder_lock
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.bids_derivative import (
    check_dataset,
    derivative_path,
    source_uris,
    write_dataset_files,
)
from ndflow.study.bids_names import check_label
from ndflow.study.bids_query import DESCRIPTION, BidsImage, JointVisits
from ndflow.study.folder import PROVENANCE, refuse_foreign, refuse_replacing
from ndflow.study.joint_plan import JointStudy, joint_study
from ndflow.study.joint_reference import check_joint_study, refuse_foreign_study
from ndflow.study.joint_run import fit_joint_study, run_joint_study
from ndflow.study.passes import Summary, check_study, fit_scans
from ndflow.study.plan import PREPARED, Study
from ndflow.study.prepare_run import STAGE, check_preparation, prepare_first
from ndflow.study.prepared_study import inherited_metadata
from ndflow.study.run import run_cohort
from ndflow.study.table import (
    FILES,
    OURS,
    TEXTS,
    nearest,
    refuse_almost_equal_sites,
    refuse_repeats,
)
from ndflow.study.tasks import Progress, check_jobs, record_failures
from ndflow.subject.outputs import check_folder, make_folder, sidecar_of, stem
from ndflow.subject.presets import Choices

# ── the scans of a dataset ────────────────────────────────────────────────────────────────────────

# Columns of OUT/scans.tsv, which the tables of a dataset may have too, to mean something else.
TAKEN = {*FILES, *TEXTS, *OURS}
_BRAIN = "_desc-brain_mask"
_NONE: Mapping[str, Path] = MappingProxyType({})
_DATASET_LOCK = ".ndflow-dataset-lock"


def scans_of_dataset(
    found: Sequence[BidsImage],
    *,
    unmasked: FoundMask | None,
    derivatives: Mapping[str, Path] = _NONE,
) -> list[Subject]:
    """Return the images of a dataset as the scans of a study.

    Parameters
    ----------
    found : the images, see `ndflow.study.bids_query.find_scans`.
    unmasked : what to find in scans without a mask; None for nothing.
    derivatives : the folders in which masks and tissue probability maps were looked up, by name.
    """
    scans: dict[str, Subject] = {}
    for one in found:
        name = stem(one.relative)
        if name in scans:
            cause = f"called like {scans[name].origin}"
            raise FileError(one.image, cause, "one of them is in a folder that is not of BIDS")
        output = derivative_path(one)
        mask = str(Path(one.mask).absolute()) if one.mask else None
        scans[name] = Subject(
            str(Path(one.image).absolute()),
            mask or unmasked,
            str(Path(one.lesion).absolute()) if one.lesion else None,
            _tissue_maps(one, mask),
            person=f"sub-{one.entities['sub']}",
            site=one.site,
            name=name,
            origin=one.relative,
            covariates={n: cell for n, cell in one.more.items() if n.lower() not in TAKEN},
            output=output,
            sidecar=str(sidecar_of(output)),
            metadata={
                "Sources": source_uris(one, derivatives),
                "SkullStripped": False,  # unless the sidecar of the scan says so
                **inherited_metadata(one.image),
            },
        )
    return list(scans.values())


def _tissue_maps(scan: BidsImage, mask: str | None) -> TissueMaps:
    """Return the tissue probability maps in derivatives, or beside the mask and named like it."""
    if scan.tissues:
        return TissueMaps(**{t: str(Path(path).absolute()) for t, path in scan.tissues.items()})
    if mask is None or _BRAIN not in Path(mask).name:
        return TissueMaps()
    beside = {
        tissue: Path(mask).with_name(
            Path(mask).name.replace(_BRAIN, f"_label-{tissue.upper()}_probseg")
        )
        for tissue in TissueMaps._fields
    }
    return TissueMaps(**{t: str(path) for t, path in beside.items() if path.exists()})


def describe_derivative(
    study: Study, root: Path, derivatives: Mapping[str, Path], *, force: bool
) -> None:
    """Make the folder of a study a BIDS derivative; many runs may start at the same time.

    Parameters
    ----------
    study : whose folder it is.
    root, derivatives, force : as for `run_participants`.
    """
    prepared = {} if study.preparation is None else {PREPARED: study.preparation.folder}
    with folder_lock(study.folder, name=_DATASET_LOCK, wait=True):
        write_dataset_files(
            study.folder,
            source_root=root,
            version=__version__,
            derivatives={**derivatives, **prepared},
            force=force,
        )


# ── a study of a dataset ──────────────────────────────────────────────────────────────────────────

_LIST_LOCK = ".ndflow-failures-lock"


def folders_of_suffixes(out: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    """Return the folder for the results of each suffix.

    One suffix is a study in the folder itself; each of several is a study, and a derivative of its
    own, in a folder called like the suffix.
    """
    names = {check_label("suffix", name) for name in suffixes}
    if len({name.lower() for name in names}) < len(suffixes):
        raise InvalidValueError(f"--suffix: {' '.join(suffixes)}: the same twice; leave one out")
    if len(suffixes) == 1:
        return {suffixes[0]: out}
    if (out / PROVENANCE).exists() or (out / DESCRIPTION).exists():
        cause = "holds a dataset, but each of several suffixes needs a folder of its own in it"
        raise FileError(out, cause, "choose another folder, or give one --suffix at a time")
    return {name: out / name for name in suffixes}


def unused_columns(found: Sequence[BidsImage]) -> dict[str, str]:
    """Return the columns of the dataset's tables that cannot be covariates, and why."""
    names = {name for one in found for name in one.more if name.lower() in TAKEN}
    why = "means something else in the list of scans; rename to keep"
    return dict.fromkeys(sorted(names), why)


def unused_derivatives(found: Sequence[BidsImage], derivatives: Mapping[str, Path]) -> list[str]:
    """Return which derivatives folders no scan takes a mask or a tissue probability map from."""
    files = {f for one in found for f in (one.mask, one.lesion, *one.tissues.values()) if f}
    return [
        f"{folder}: no mask or tissue probability map of these scans is taken from it"
        for folder in derivatives.values()
        if not any(Path(file).is_relative_to(folder) for file in files)
    ]


def unused_lesions(found: Sequence[BidsImage]) -> list[str]:
    """Return a warning about lesion masks of scans without one that fit no scan by their names."""
    used = {one.lesion for one in found}
    others = dict.fromkeys(file for one in found for file in one.other_lesions if file not in used)
    if not others:
        return []
    what = "a lesion mask whose name matches"
    if len(others) > 1:
        what = f"the first of {len(others)} lesion masks whose names match"
    return [
        f"{next(iter(others))}: {what} none of these scans; name it like the scan that it was "
        f"drawn on, as in sub-01_run-1_label-lesion_mask.nii.gz"
    ]


def lacking_masks(found: Sequence[BidsImage], derivatives: Mapping[str, Path]) -> FileError | None:
    """Return an error if some scans have no mask although derivatives should have them.

    Folders that gave lesion masks and not a single brain mask were given for these alone.
    """
    unmasked = [scan.relative for scan in found if scan.mask is None]
    if not derivatives or not unmasked:
        return None
    masks, lesions = (
        any(file and Path(file).is_relative_to(at) for file in files for at in derivatives.values())
        for files in ([one.mask for one in found], [one.lesion for one in found])
    )
    if lesions and not masks:
        return None
    cause = f"no mask for {len(unmasked)} of {len(found)} scans, such as {unmasked[0]}"
    first = next(iter(derivatives.values()))
    return FileError(first, cause, "add --mask brain, or --mask auto, to find them")


def site_hints(found: Sequence[BidsImage], root: Path) -> list[str]:
    """Return columns that may name the sites, where no scan has a site."""
    if any(one.site for one in found):
        return []
    names = sorted({name for one in found for name in one.more if nearest(name) == "site"})
    table = root / "participants.tsv"
    return [
        f"{table}: no site is known, but there is a column {name!r}; if it names the sites, use "
        f"--site-column {name}"
        for name in names
    ]


def run_participants(
    study: Study,
    root: Path,
    progress: Progress,
    *,
    command: Sequence[str] = (),
    derivatives: Mapping[str, Path] = _NONE,
    force: bool,
) -> Summary:
    """Estimate the densities of some scans of a dataset.

    Parameters
    ----------
    study : which scans, and how.
    root : the dataset.
    progress : follows how far the run has come.
    command : what the user typed, for the record.
    derivatives : the folders in which masks were looked up, by name.
    force : whether the folder of the results may hold something else.
    """
    folder = study.folder
    check_derivative(study, root, force=force)
    make_folder(folder)
    with folder_lock(folder, shared=True):
        describe_derivative(study, root, derivatives, force=force)
        ready, prepared = prepare_first(study, progress, command)
        unprepared = [] if prepared is None else prepared.failures
        fitted = fit_scans(ready, progress)
        with folder_lock(folder, name=_LIST_LOCK, wait=True):
            tried = [*fitted.tried, *(failure.scan for failure in unprepared)]
            failed = {STAGE: unprepared, "fit": fitted.failures}
            record_failures(folder, dict.fromkeys((STAGE, "fit", "normalise"), tried), failed)
    failures = [*unprepared, *fitted.failures]
    doubts = fitted.all_doubts()
    return Summary(len(fitted.done), fitted.kept, failures, doubts, prepared=prepared)


def run_group(
    study: Study,
    root: Path,
    progress: Progress,
    *,
    command: Sequence[str],
    derivatives: Mapping[str, Path] = _NONE,
    force: bool,
) -> Summary:
    """Make references and normalise; parameters as for `run_participants` and `run_cohort`."""
    check_derivative(study, root, force=force)
    check_study(study)
    make_folder(study.folder)
    with folder_lock(study.folder, shared=True):
        describe_derivative(study, root, derivatives, force=force)
    return run_cohort(study, progress, command=command, force=force, ours=True)


def check_derivative(study: Study, root: Path, *, force: bool) -> None:
    """Refuse a folder for the results that is something else; see `run_participants`."""
    folder = study.folder
    check_jobs(study.jobs)
    refuse_repeats(study.scans)
    refuse_almost_equal_sites(study.scans)
    check_folder(study.within or folder)
    check_dataset(folder, source_root=root, force=force)
    refuse_replacing(study, images=False)
    if study.preparation is not None:
        check_preparation(study.preparation)
    if force:
        return
    try:
        refuse_foreign(folder, study.channel)
    except FileError:
        # Densities of participants may be there before there is a study; other runs may start, too.
        if (folder / PROVENANCE).exists() or not (folder / DESCRIPTION).exists():
            raise


# ── a joint study of a dataset ────────────────────────────────────────────────────────────────────


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
    unmasked, derivatives : see `scans_of_dataset`.
    """
    scans = {
        channel: scans_of_dataset(images, unmasked=None, derivatives=derivatives)
        for channel, images in visits.images.items()
    }
    rows = [_shared(row, unmasked) for row in zip(*scans.values(), strict=True)]
    named = {channel: [row[place] for row in rows] for place, channel in enumerate(scans)}
    return joint_study(study, named, visits.names, choices)


def _shared(row: Sequence[Subject], unmasked: FoundMask | None) -> list[Subject]:
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
