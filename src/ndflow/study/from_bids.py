"""A study that is a BIDS dataset, and its results as a BIDS derivative.

*participant* estimates the densities of some participants; any number of such runs may go on at a
time, on any number of machines. *group* makes the references and normalises; densities that are not
there yet it estimates itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ndflow._version import __version__
from ndflow.bids.derivative import check_dataset, derivative_path, source_uri, write_dataset_files
from ndflow.bids.query import BidsScan
from ndflow.errors import FileError
from ndflow.files.lock import folder_lock
from ndflow.files.scan_table import Row
from ndflow.files.stream import open_file
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.scan.reading import AUTO
from ndflow.scan.results import record_name, stem
from ndflow.study.parallel.tasks import check_jobs, record_failures
from ndflow.study.passes import Progress, Study, check_study, fit_scans
from ndflow.study.run import PROVENANCE, Summary, refuse_strange, run_cohort
from ndflow.study.scan_jobs import Member

__all__ = ["bids_members", "check_derivative", "run_group", "run_participants"]

_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans
# Columns of a table of scans, which participants.tsv may have too, to mean something else.
_OURS = {"image", "mask", "gm", "wm", "csf", "subject", "site", "centre", "center"}
_DESCRIPTION = "dataset_description.json"
_LIST_LOCK, _DATASET_LOCK = ".ndflow-failures-lock", ".ndflow-dataset-lock"


def bids_members(
    scans: Sequence[BidsScan], folder: Path, *, auto_mask: bool, skull_stripped: bool
) -> tuple[list[Member], list[Row]]:
    """Return the scans of a dataset as members of a study, and as the rows of a table.

    Parameters
    ----------
    scans : the scans.
    folder : of the results.
    auto_mask : whether to look for the foreground of scans without a mask.
    skull_stripped : whether nothing but the brain is left in the images, unless their own JSON
        says so or the contrary.
    """
    fallback = AUTO if auto_mask else None
    members: list[Member] = []
    rows: list[Row] = []
    seen: dict[str, str] = {}
    for number, scan in enumerate(scans, start=1):
        image = Path(derivative_path(scan))
        name = stem(scan.relative)
        if seen.setdefault(name, scan.relative) != scan.relative:
            cause = f"called like {seen[name]}"
            raise FileError(scan.image, cause, "one of them is in a folder that is not of BIDS")
        more = {"Sources": [source_uri(scan)], "SkullStripped": skull_stripped, **_inherited(scan)}
        mask = str(Path(scan.mask).absolute()) if scan.mask else None
        maps = _tissue_maps(mask)
        members.append(
            Member(
                name=name,
                image=str(Path(scan.image).absolute()),
                mask=mask or fallback,
                folder=folder,
                output=str(image),
                record=str(record_name(image)),
                site=scan.site,
                maps=(maps["csf"], maps["gm"], maps["wm"]) if len(maps) == 3 else None,
                origin=scan.relative,
                more=more,
            )
        )
        subject = f"sub-{scan.entities['sub']}"
        rows.append(
            Row(
                number,
                members[-1].image,
                mask,
                **maps,
                subject=subject,
                site=scan.site,
                more={n: cell for n, cell in scan.more.items() if n.lower() not in _OURS},
            )
        )
    return members, rows


def _tissue_maps(mask: str | None) -> dict[str, str]:
    """Return the maps of tissues that lie beside a mask and are called like it."""
    ending = "_desc-brain_mask"
    if mask is None or ending not in Path(mask).name:
        return {}
    called = Path(mask)
    maps = {
        name: called.with_name(called.name.replace(ending, f"_label-{name.upper()}_probseg"))
        for name in ("gm", "wm", "csf")
    }
    return {name: str(path) for name, path in maps.items() if path.exists()}


def run_participants(study: Study, root: Path, watch: Progress, *, force: bool) -> Summary:
    """Estimate the densities of some scans of a dataset.

    Parameters
    ----------
    study : which scans, and how.
    root : the dataset.
    watch : who looks on.
    force : whether the folder of the results may hold something else.
    """
    folder = study.folder
    check_derivative(study, root, force=force)
    make_folder(folder)
    with folder_lock(folder, shared=True):
        _describe(folder, root, force=force)
        fitted = fit_scans(study, watch)
        with folder_lock(folder, name=_LIST_LOCK, wait=True):
            tried = {"fit": fitted.tried, "normalise": fitted.tried}
            record_failures(folder, tried, {"fit": fitted.failures})
    return Summary(len(fitted.made), fitted.kept, fitted.failures)


def run_group(
    study: Study,
    rows: Sequence[Row],
    root: Path,
    watch: Progress,
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
    return run_cohort(study, rows, watch, command=command, force=force, prepared=True)


def _describe(folder: Path, root: Path, *, force: bool) -> None:
    """Make a folder a BIDS derivative, while many runs may begin at the same time."""
    with folder_lock(folder, name=_DATASET_LOCK, wait=True):
        write_dataset_files(folder, source_root=root, version=__version__, force=force)


def check_derivative(study: Study, root: Path, *, force: bool) -> None:
    """Refuse a folder for the results that is something else; see `run_participants`."""
    folder = study.folder
    check_jobs(study.jobs)
    check_folder(folder)
    check_dataset(folder, source_root=root, force=force)
    try:
        refuse_strange(folder, study.channel, force=force)
    except FileError:
        # Densities of participants may be there before there is a study; and other runs may begin.
        if (folder / PROVENANCE).exists() or not (folder / _DESCRIPTION).exists():
            raise


def _inherited(scan: BidsScan) -> dict[str, Any]:
    """Return what the JSON of a scan says that holds for its result as well."""
    with (
        suppress(FileError, ValueError, RecursionError),
        open_file(record_name(scan.image)) as file,
    ):
        said = json.loads(file.read(1 << 20))
        if isinstance(said, dict):
            return {name: said[name] for name in _INHERITED if name in said}
    return {}
