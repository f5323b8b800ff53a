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
from ndflow.errors import FileError
from ndflow.io import (
    BidsScan,
    Row,
    derivative_path,
    locked,
    open_file,
    source_uri,
    write_dataset_files,
)
from ndflow.workflow.cohort import Summary, refuse_strange, run_cohort
from ndflow.workflow.member import Member
from ndflow.workflow.outputs import make_folder
from ndflow.workflow.results import record_name, stem
from ndflow.workflow.scan import AUTO
from ndflow.workflow.several import record_failures
from ndflow.workflow.study import Study, Watch, fit_scans

__all__ = ["bids_members", "run_group", "run_participants"]

_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans
_DESCRIPTION = "dataset_description.json"
_LIST_LOCK = ".ndflow-failures-lock"


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
    members, rows = [], []
    for number, scan in enumerate(scans, start=1):
        image = Path(derivative_path(scan))
        name = stem(scan.relative)
        more = {"Sources": [source_uri(scan)], "SkullStripped": skull_stripped, **_inherited(scan)}
        members.append(
            Member(
                name=name,
                image=str(Path(scan.image).absolute()),
                mask=str(Path(scan.mask).absolute()) if scan.mask else fallback,
                folder=folder,
                output=str(image),
                record=str(record_name(image)),
                centre=scan.site,
                origin=scan.relative,
                more=more,
            )
        )
        subject = f"sub-{scan.entities['sub']}"
        rows.append(Row(number, scan.image, scan.mask, subject=subject, centre=scan.site))
    return members, rows


def run_participants(study: Study, root: Path, watch: Watch, *, force: bool) -> Summary:
    """Estimate the densities of some scans of a dataset.

    Parameters
    ----------
    study : which scans, and how.
    root : the dataset.
    watch : who looks on.
    force : whether the folder of the results may hold something else.
    """
    folder = study.folder
    make_folder(folder)
    with locked(folder, shared=True):
        _prepare(folder, root, force=force)
        fitted = fit_scans(study, watch)
        with locked(folder, name=_LIST_LOCK, wait=True):
            names = [member.name for member in study.members]
            record_failures(folder, {"fit": names}, {"fit": fitted.failures})
    return Summary(len(fitted.made), fitted.kept, fitted.failures)


def run_group(
    study: Study,
    rows: Sequence[Row],
    root: Path,
    watch: Watch,
    *,
    command: Sequence[str],
    force: bool,
) -> Summary:
    """Make references and normalise; parameters as for `run_participants` and `run_cohort`."""
    make_folder(study.folder)
    with locked(study.folder, shared=True):
        _prepare(study.folder, root, force=force)
    return run_cohort(study, rows, watch, command=command, force=True)


def _prepare(folder: Path, root: Path, *, force: bool) -> None:
    """Make the folder of the results a BIDS derivative; refuse one that is something else."""
    if not (folder / _DESCRIPTION).exists():
        refuse_strange(folder, force=force)
    write_dataset_files(folder, source_root=root, version=__version__, force=force)


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
