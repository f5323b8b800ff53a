"""The tables of a preparation: ``study.tsv`` for what comes next, ``preparation.tsv`` for people.

``study.tsv`` has the rows of the user with the prepared files instead of the raw ones, relative to
the table, so the folder can be moved. Scans that failed are not in it. ``study_space-MNI.tsv`` is
the same for aligned copies, where they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.files.stream import sha256_of
from ndflow.files.tables import read_delimited, write_table
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.folder import PROVENANCE
from ndflow.study.plan import Preparation, PreparedPaths
from ndflow.study.prepare_copies import (
    copy_paths,
    foreign_in_copy,
    refuse_shared_copies,
    remove_copies,
)
from ndflow.study.prepare_records import PreparationRecord, PreparedRecord
from ndflow.study.tasks import FAILURES, Failure
from ndflow.subject.outputs import sidecar_of
from ndflow.values import plural

STUDY = "study.tsv"
ALIGNED = "study_space-MNI.tsv"
MEASURES = "preparation.tsv"

_FIRST = ("subject", "site", "image", "mask", "csf", "gm", "wm", "lesion")
_MEASURED = (
    *("name", "subject", "site", "mask", "bias_field", "tissues", "brain_ml"),
    *("csf_ml", "gm_ml", "wm_ml", "field_min", "field_max", "overlap", "likeness", "agreement"),
    *("doubts", "seconds"),
)

Row = Mapping[str, str | None]


class _Table(NamedTuple):
    """The rows of a table by their image, and its columns."""

    columns: Sequence[str]
    rows: Mapping[str, Row]


class WrittenTables(NamedTuple):
    """The names of the tables that were written, and the rows of that of the measures."""

    names: list[str]
    measured: list[Row]


def write_tables(plan: Preparation, records: Mapping[str, PreparationRecord]) -> WrittenTables:
    """Write all tables; rows of other scans stay where the run was about part of a dataset.

    Parameters
    ----------
    plan : what was to be prepared.
    records : of the scans that did not fail, by their images.
    """
    scans = [scan for scan in plan.scans if scan.output in records]
    more = sorted({name for scan in scans for name in scan.covariates})
    listed = _Table(
        (*_FIRST, *more), {scan.output: _listed(plan, plan.prepared(scan)) for scan in scans}
    )
    measured = _Table(
        (*_MEASURED, "image"),
        {scan.output: _measured(scan, records[scan.output]) for scan in scans},
    )
    tables = {STUDY: listed, MEASURES: measured}
    if (resolution := plan.preparing.resolution) is None:
        _remove_aligned(plan.folder / ALIGNED)
    else:
        copies = {
            scan.output: _listed(plan, _copy(plan.prepared(scan), resolution)) for scan in scans
        }
        tables[ALIGNED] = _Table(listed.columns, copies)
    ours = {scan.output for scan in plan.scans}
    for name, table in tables.items():
        tables[name] = _merged(plan, name, table, ours) if plan.partial else table
        columns, rows = tables[name]
        write_table(
            plan.folder / name,
            columns,
            ([row.get(one) for one in columns] for row in rows.values()),
        )
    return WrittenTables([*tables], [*tables[MEASURES].rows.values()])


def records_of(
    plan: Preparation, rows: Sequence[Row], records: Mapping[str, PreparationRecord]
) -> dict[str, PreparationRecord]:
    """Return the sidecars of all scans in the table, by their names; none that is damaged.

    Parameters
    ----------
    plan : says where they are.
    rows : of the table.
    records : those that are known already, by their images.
    """
    found: dict[str, PreparationRecord] = {}
    for row in rows:
        image = str(row["image"])
        with suppress(FileError):
            record = records.get(image) or PreparationRecord.read(sidecar_of(plan.folder / image))
            found[str(row["name"])] = record
    return found


def _merged(plan: Preparation, name: str, table: _Table, ours: Collection[str]) -> _Table:
    """Return a table with the rows of other scans that are still there."""
    path = plan.folder / name
    if not path.exists():
        return table
    columns, lines = read_delimited(path)
    rows = dict(table.rows)
    for _, cells in lines:
        row = dict(zip(columns, cells, strict=True))
        image = row.get("image", "")
        if image not in ours and (plan.folder / image).is_file():
            rows[image] = row
    return _Table(
        list(dict.fromkeys((*table.columns, *columns))), {key: rows[key] for key in sorted(rows)}
    )


def _copy(ready: Subject, resolution: float) -> Subject:
    """Return the aligned copy of a prepared scan."""
    paths = copy_paths(Path(ready.path), resolution)
    return replace(
        ready,
        image=str(paths.image),
        mask=str(paths.mask),
        lesion=None if ready.lesion is None else str(paths.lesion),
        tissues=TissueMaps(*map(str, paths.tissues)) if ready.tissues.complete else TissueMaps(),
    )


def _remove_aligned(path: Path) -> None:
    """Remove the table of copies that an earlier run made."""
    with suppress(FileError, OSError):
        if read_delimited(path)[0][: len(_FIRST)] == [*_FIRST]:
            path.unlink()


def _listed(plan: Preparation, ready: Subject) -> Row:
    files = {
        "image": ready.image,
        "mask": ready.mask,
        "lesion": ready.lesion,
        **ready.tissues._asdict(),
    }
    relative = {
        what: None if source is None else _relative(str(source), plan.folder)
        for what, source in files.items()
    }
    return {**ready.covariates, "subject": ready.person, "site": ready.site, **relative}


def _relative(path: str, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _measured(scan: Subject, record: PreparationRecord) -> Row:
    known = record.measures
    tissues = known.tissues_ml or (None, None, None)
    field = known.field or (None, None)
    return {
        "name": scan.name,
        "subject": scan.person,
        "site": scan.site,
        "mask": record.steps.get("mask"),
        "bias_field": record.steps.get("bias field"),
        "tissues": record.steps.get("tissues"),
        "brain_ml": _number(known.brain_ml, 1),
        "csf_ml": _number(tissues[0], 1),
        "gm_ml": _number(tissues[1], 1),
        "wm_ml": _number(tissues[2], 1),
        "field_min": _number(field[0], 3),
        "field_max": _number(field[1], 3),
        "overlap": _number(known.overlap, 3),
        "likeness": _number(known.likeness, 3),
        "agreement": _number(known.agreement, 3),
        "doubts": "; ".join(doubt.kind for doubt in record.doubts) or None,
        "seconds": f"{sum(record.seconds.values()):.1f}",
        "image": scan.output,
    }


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


# ── the folder ────────────────────────────────────────────────────────────────────────────────────
# The folder of a preparation: what is in it, and what must not be.
#
# OUT/sub-*/[ses-*/]anat/ the prepared images, masks and tissue probability maps, as in BIDS
# OUT/figures/<image>.png a picture of each scan for quality control OUT/study.tsv the prepared
# scans, for ``ndflow cohort`` OUT/study_space-MNI.tsv their aligned copies, where there are any
# OUT/preparation.tsv what was measured OUT/failures.tsv the scans that failed, and why
# OUT/provenance.json what was run OUT/dataset_description.json, README, .bidsignore what BIDS wants
# to know

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
