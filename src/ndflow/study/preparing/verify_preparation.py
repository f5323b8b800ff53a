"""Whether prepared scans are still what they were: see `ndflow.study.verify`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ndflow.bids.derivative import DATASET_FILES
from ndflow.errors import FileError
from ndflow.files.atomic import reading
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import kind_in
from ndflow.image.subject import Scan
from ndflow.scan.outputs import sidecar_of
from ndflow.study.findings import Checked, Finding, broken, compared, foreign
from ndflow.study.folder import PROVENANCE, REPORT
from ndflow.study.listing.scan_table import read_scans
from ndflow.study.parallel.check_scans import check_scans
from ndflow.study.parallel.followed import Progress
from ndflow.study.parallel.tasks import FAILURES, Task
from ndflow.study.preparing.copies.copies_in_folder import check_copy
from ndflow.study.preparing.copies.copy_paths import CopyPaths, copy_paths
from ndflow.study.preparing.preparation_plan import Preparation, PreparedPaths
from ndflow.study.preparing.preparation_records import PreparationRecord, PreparedRecord
from ndflow.study.preparing.prepared_tables import STUDY

__all__ = ["CheckedFolder", "is_preparation", "verify_preparation"]


class CheckedFolder(NamedTuple):
    """How many prepared scans there are, which files were checked, and what is wrong with them."""

    scans: int
    files: list[str]
    findings: list[Finding]


def is_preparation(folder: Path) -> bool:
    """Tell whether a folder is that of a preparation."""
    return kind_in(folder / PROVENANCE) == PreparedRecord.kind


def verify_preparation(folder: Path, jobs: int, follow: Progress) -> CheckedFolder:
    """Hash again all that was read and written.

    Parameters
    ----------
    folder : of the preparation.
    jobs : how many scans at a time.
    follow : follows how far the work has come.

    Raises
    ------
    FileError
        Where the preparation was not finished, or none of its scans is left.
    """
    with reading([folder]):
        record = PreparedRecord.read(folder / PROVENANCE)
        if not record.finished or not record.files:
            cause = "holds a preparation that was stopped"
            raise FileError(folder, cause, "run the same command again to finish it")
        scans, found = _prepared_scans(folder, record)
        plan = Preparation(folder, scans)
        copies = _copies(plan, record)
        tasks = [
            Task(one.name, {"paths": plan.paths(one), "copy": copies.get(one.name)}, one.origin)
            for one in plan.scans
        ]
        written = [FileHash(str(folder / name), sha256) for name, sha256 in record.files.items()]
        files = [str(folder / PROVENANCE), *(file.file for file in written)]
        told = {one.path for one in found}
        differ = compared(written, "not what the preparation wrote")
        found += [one for one in differ if one.path not in told]
        checked = check_scans(_check_scan, tasks, jobs, follow)
        files, found = [*files, *checked.files], [*found, *checked.findings]
        ours = (PROVENANCE, FAILURES, REPORT, *DATASET_FILES, *record.files)
        known = {folder / name for name in ours}
        known |= {path for scan in plan.scans for path in plan.paths(scan)}
        known |= {path for copy in copies.values() for path in copy}
        found += foreign(folder, known, "preparation")
    return CheckedFolder(len(tasks), files, found)


def _prepared_scans(folder: Path, record: PreparedRecord) -> tuple[list[Scan], list[Finding]]:
    """Return the scans that the table of a preparation lists, and what is wrong with it.

    If it cannot be read, those of the record are returned that have sidecars.
    """
    table = folder / STUDY
    found: list[Finding] = []
    try:
        listed = [Path(scan.path) for scan in read_scans(table)]
    except FileError as error:
        if not record.prepared:  # all have failed
            return [], []
        found.append(broken(table, error))
        known = [folder.absolute() / name for name in record.outputs]
        listed = [path for path in known if sidecar_of(path).exists()]
    names: list[str] = []
    for path in listed:
        try:
            names.append(_absolute(path).relative_to(_absolute(folder)).as_posix())
        except ValueError:
            cause = f"lists {_absolute(path)}, which is not in this folder"
            found.append(Finding("changed", str(table), cause))
    scans = [
        Scan(str(folder / name), name=name, output=name, sidecar=str(sidecar_of(name)))
        for name in names
    ]
    return scans, found


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 (without "..", and links as they are)


def _copies(plan: Preparation, record: PreparedRecord) -> dict[str, CopyPaths]:
    """Return where the aligned copies of scans are, by their names, if they were asked for."""
    resolution = record.settings.get("resolution")
    if not isinstance(resolution, float):
        return {}
    return {scan.name: copy_paths(plan.paths(scan).image, resolution) for scan in plan.scans}


def _check_scan(paths: PreparedPaths, copy: CopyPaths | None) -> Checked:
    own = _check_own(paths)
    if copy is None:
        return own
    more = check_copy(copy)
    return own._replace(files=own.files + more.files, findings=own.findings + more.findings)


def _check_own(paths: PreparedPaths) -> Checked:
    try:
        record = PreparationRecord.read(paths.sidecar)
    except FileError as error:
        return Checked([str(paths.sidecar)], [broken(paths.sidecar, error)])
    named = paths.named(record.outputs)
    written = [FileHash(str(path), record.outputs[what]) for what, path in named.items()]
    found = [*compared(written, "not what the preparation wrote")]
    read = [file for files in record.inputs.values() for file in files]
    found += compared(read, "not what the preparation read")
    return Checked([str(paths.sidecar), *(file.file for file in (*written, *read))], found)
