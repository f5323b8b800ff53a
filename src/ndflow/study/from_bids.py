"""A study that is a BIDS dataset, with its results as a BIDS derivative.

*participant* estimates the densities of some participants; any number of such runs may go on at the
same time, on any number of machines. *group* makes the references and normalises; densities that
are not there yet it estimates itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ndflow._version import __version__
from ndflow.bids.derivative import check_dataset, derivative_path, source_uri, write_dataset_files
from ndflow.bids.query import BidsImage
from ndflow.errors import FileError
from ndflow.files.lock import folder_lock
from ndflow.files.stream import open_file
from ndflow.image.scans import AUTO, Scan, TissueMaps
from ndflow.scan.outputs import check_folder, make_folder, sidecar_of, stem
from ndflow.study.folder import PROVENANCE, refuse_foreign
from ndflow.study.parallel.tasks import check_jobs, record_failures
from ndflow.study.passes import Progress, check_study, fit_scans
from ndflow.study.plan import Study
from ndflow.study.run import Summary, run_cohort

__all__ = ["check_derivative", "run_group", "run_participants", "scans_of_dataset"]

_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans
# Columns of a table of scans, which participants.tsv may have too, to mean something else.
_OURS = {"image", "mask", "gm", "wm", "csf", "subject", "site", "centre", "center"}
_DESCRIPTION = "dataset_description.json"
_LIST_LOCK, _DATASET_LOCK = ".ndflow-failures-lock", ".ndflow-dataset-lock"


def scans_of_dataset(
    found: Sequence[BidsImage], *, auto_mask: bool, skull_stripped: bool
) -> list[Scan]:
    """Return the images of a dataset as the scans of a study.

    Parameters
    ----------
    found : the images, see `ndflow.bids.query.find_scans`.
    auto_mask : whether to find the foreground of scans without a mask.
    skull_stripped : whether the images show the brain alone, unless their own sidecar says so or
        the contrary.
    """
    scans: dict[str, Scan] = {}
    for one in found:
        name = stem(one.relative)
        if name in scans:
            cause = f"called like {scans[name].origin}"
            raise FileError(one.image, cause, "one of them is in a folder that is not of BIDS")
        output = derivative_path(one)
        mask = str(Path(one.mask).absolute()) if one.mask else None
        scans[name] = Scan(
            str(Path(one.image).absolute()),
            mask or (AUTO if auto_mask else None),
            tissues=_tissue_maps(mask),
            subject=f"sub-{one.entities['sub']}",
            site=one.site,
            name=name,
            origin=one.relative,
            covariates={n: cell for n, cell in one.more.items() if n.lower() not in _OURS},
            output=output,
            sidecar=str(sidecar_of(output)),
            metadata={
                "Sources": [source_uri(one)],
                "SkullStripped": skull_stripped,
                **_inherited(one),
            },
        )
    return list(scans.values())


def _tissue_maps(mask: str | None) -> TissueMaps:
    """Return the tissue probability maps beside a mask that are named like it."""
    ending = "_desc-brain_mask"
    if mask is None or ending not in Path(mask).name:
        return TissueMaps()
    beside = {
        tissue: Path(mask).with_name(
            Path(mask).name.replace(ending, f"_label-{tissue.upper()}_probseg")
        )
        for tissue in TissueMaps._fields
    }
    return TissueMaps(**{t: str(path) for t, path in beside.items() if path.exists()})


def run_participants(study: Study, root: Path, progress: Progress, *, force: bool) -> Summary:
    """Estimate the densities of some scans of a dataset.

    Parameters
    ----------
    study : which scans, and how.
    root : the dataset.
    progress : follows how far the run has come.
    force : whether the folder of the results may hold something else.
    """
    folder = study.folder
    check_derivative(study, root, force=force)
    make_folder(folder)
    with folder_lock(folder, shared=True):
        _describe(folder, root, force=force)
        fitted = fit_scans(study, progress)
        with folder_lock(folder, name=_LIST_LOCK, wait=True):
            tried = {"fit": fitted.tried, "normalise": fitted.tried}
            record_failures(folder, tried, {"fit": fitted.failures})
    return Summary(len(fitted.done), fitted.kept, fitted.failures)


def run_group(
    study: Study,
    root: Path,
    progress: Progress,
    *,
    command: Sequence[str],
    force: bool,
) -> Summary:
    """Make references and normalise; parameters as for `run_participants` and `run_cohort`."""
    check_derivative(study, root, force=force)
    check_study(study)
    make_folder(study.folder)
    with folder_lock(study.folder, shared=True):
        _describe(study.folder, root, force=force)
    return run_cohort(study, progress, command=command, force=force, prepared=True)


def _describe(folder: Path, root: Path, *, force: bool) -> None:
    """Make a folder a BIDS derivative; many runs may start at the same time."""
    with folder_lock(folder, name=_DATASET_LOCK, wait=True):
        write_dataset_files(folder, source_root=root, version=__version__, force=force)


def check_derivative(study: Study, root: Path, *, force: bool) -> None:
    """Refuse a folder for the results that is something else; see `run_participants`."""
    folder = study.folder
    check_jobs(study.jobs)
    check_folder(folder)
    check_dataset(folder, source_root=root, force=force)
    if force:
        return
    try:
        refuse_foreign(folder, study.channel)
    except FileError:
        # Densities of participants may be there before there is a study; other runs may start, too.
        if (folder / PROVENANCE).exists() or not (folder / _DESCRIPTION).exists():
            raise


def _inherited(scan: BidsImage) -> dict[str, Any]:
    """Return what the sidecar of a scan says that holds for its result as well."""
    with (
        suppress(FileError, ValueError, RecursionError),
        open_file(sidecar_of(scan.image)) as file,
    ):
        said = json.loads(file.read(1 << 20))
        if isinstance(said, dict):
            return {name: said[name] for name in _INHERITED if name in said}
    return {}
