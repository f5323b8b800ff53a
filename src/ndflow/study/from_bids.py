"""A study that is a BIDS dataset, with its results as a BIDS derivative.

*participant* estimates the densities of some participants; any number of such runs may go on at the
same time, on any number of machines. *group* makes the references and normalises; densities that
are not there yet it estimates itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ndflow.bids.derivative import check_dataset
from ndflow.bids.names import check_label
from ndflow.bids.query import DESCRIPTION, BidsImage
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import folder_lock
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.study.folder import PROVENANCE, refuse_foreign
from ndflow.study.listing.bids_scans import TAKEN, describe_derivative
from ndflow.study.listing.columns import nearest
from ndflow.study.listing.repeats import refuse_almost_equal_sites, refuse_repeats
from ndflow.study.ownership import refuse_replacing
from ndflow.study.parallel.tasks import check_jobs, record_failures
from ndflow.study.passes import Progress, check_study, fit_scans
from ndflow.study.plan import Study
from ndflow.study.preparing.prepare_scans import STAGE, check_preparation, prepare_first
from ndflow.study.run import Summary, run_cohort

__all__ = [
    "check_derivative",
    "folders_of_suffixes",
    "lacking_masks",
    "run_group",
    "run_participants",
    "site_hints",
    "unused_columns",
    "unused_derivatives",
    "unused_lesions",
]

_NONE: Mapping[str, Path] = MappingProxyType({})
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
