"""The folder of a preparation: what is in it, and what must not be.

OUT/sub-*/[ses-*/]anat/    the prepared images, masks and tissue probability maps, as in BIDS
OUT/figures/<image>.png    a picture of each scan for quality control
OUT/study.tsv              the prepared scans, for ``ndflow cohort``
OUT/study_space-MNI.tsv    their aligned copies, where there are any
OUT/preparation.tsv        what was measured
OUT/failures.tsv           the scans that failed, and why
OUT/provenance.json        what was run
OUT/dataset_description.json, README, .bidsignore   what BIDS wants to know
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.files.stream import sha256_of
from ndflow.study.folder import PROVENANCE
from ndflow.study.parallel.tasks import FAILURES, Failure
from ndflow.study.preparing.copies.copies_in_folder import (
    foreign_in_copy,
    refuse_shared_copies,
    remove_copies,
)
from ndflow.study.preparing.preparation_plan import Preparation, PreparedPaths
from ndflow.study.preparing.preparation_records import PreparationRecord, PreparedRecord
from ndflow.study.preparing.prepared_tables import ALIGNED, MEASURES, STUDY
from ndflow.values import plural

__all__ = ["check_place", "record_in", "remove_failed_scans"]

_ELSEWHERE = "move it, or choose another folder for the results"


def record_in(folder: Path) -> PreparedRecord | None:
    """Return the record of a preparation in a folder; None if there is none that can be read."""
    try:
        return PreparedRecord.read(folder / PROVENANCE)
    except FileError:
        return None


def check_place(plan: Preparation) -> None:
    """Refuse, before any work, a folder that holds something else, or files of somebody else."""
    refuse_shared_copies(plan)
    before = record_in(plan.folder)
    if not plan.force:
        _refuse_foreign(plan, before)
        _refuse_other_scans(plan, before)
    _refuse_table_inside(plan)
    for path in _foreign(plan, before):
        raise FileError(path, "exists, and no sidecar says that ndflow wrote it", _ELSEWHERE)


def remove_failed_scans(plan: Preparation, failures: Sequence[Failure]) -> None:
    """Remove what an earlier run made of scans that failed now, unless somebody has changed it."""
    failed = {failure.scan for failure in failures}
    for scan in plan.scans:
        if scan.name not in failed:
            continue
        paths = plan.paths(scan)
        if not remove_copies(paths.image):
            continue  # that is why it failed
        with suppress(FileError, OSError):
            written = _written(paths)
            if all(sha256_of(path) == sha256 for path, sha256 in written.items()):
                for path in (paths.sidecar, *written):
                    path.unlink(missing_ok=True)


def _written(paths: PreparedPaths) -> dict[Path, str]:
    """Return the files of a scan that its sidecar knows, with their hashes."""
    outputs = PreparationRecord.read(paths.sidecar).outputs
    return {path: outputs[what] for what, path in paths.named(outputs).items()}


def _refuse_foreign(plan: Preparation, before: PreparedRecord | None) -> None:
    folder = plan.folder
    if before is not None or not folder.is_dir():
        return
    if kind_in(folder / PROVENANCE) == PreparedRecord.kind:
        return  # damaged
    if any(not path.name.startswith(".ndflow-") for path in folder.iterdir()):
        cause = "not empty, and not the result of a preparation"
        raise FileError(folder, cause, "choose another folder, or --force to use it")


def _refuse_other_scans(plan: Preparation, before: PreparedRecord | None) -> None:
    """Refuse a folder with results of other scans, which would be missing from its tables."""
    if before is None or plan.partial:
        return
    ours = {scan.output for scan in plan.scans}
    others = [name for name in before.outputs if name not in ours and (plan.folder / name).exists()]
    if others:
        are = "is" if len(others) == 1 else "are"
        count = plural(len(others), "prepared scan")
        cause = f"holds {count} that {are} not listed now, such as {others[0]}"
        raise FileError(plan.folder, cause, "choose another folder, or --force to leave them out")


def _refuse_table_inside(plan: Preparation) -> None:
    if plan.table is None:
        return
    ours = {os.path.realpath(plan.folder / name) for name in (STUDY, ALIGNED, MEASURES, FAILURES)}
    if os.path.realpath(plan.table) in ours:
        cause = "lies where a table of that name is written"
        raise FileError(plan.table, cause, "give the table of the raw scans, or move it")


def _foreign(plan: Preparation, before: PreparedRecord | None) -> Iterator[Path]:
    """Yield the files that would be replaced and that are not ours."""
    if before is None and kind_in(plan.folder / PROVENANCE) != PreparedRecord.kind:
        tops = (plan.folder / name for name in (PROVENANCE, STUDY, ALIGNED, MEASURES))
        yield from (path for path in tops if os.path.lexists(path))
    for scan in plan.scans:
        yield from _foreign_results(plan.paths(scan))
        if plan.preparing.resolution is not None:
            yield from foreign_in_copy(plan.paths(scan).image, plan.preparing.resolution)


def _foreign_results(paths: PreparedPaths) -> Iterator[Path]:
    try:
        written = {*_written(paths), paths.sidecar}
    except FileError:
        damaged = kind_in(paths.sidecar) == PreparationRecord.kind
        written = {*paths} if damaged or paths.unfinished.exists() else set()
    for path in paths:
        if os.path.lexists(path) and path not in written and not path.is_dir():
            yield path
