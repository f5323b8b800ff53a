"""The tables of a preparation: ``study.tsv`` for what comes next, ``preparation.tsv`` for people.

``study.tsv`` has the rows of the user with the prepared files instead of the raw ones, relative to
the table, so the folder can be moved. Scans that failed are not in it. ``study_space-MNI.tsv`` is
the same for aligned copies, where they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.tables import read_delimited, write_table
from ndflow.image.subject import Scan, TissueMaps
from ndflow.scan.outputs import sidecar_of
from ndflow.study.preparing.copies.copy_paths import copy_paths
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.study.preparing.preparation_records import PreparationRecord

__all__ = ["ALIGNED", "MEASURES", "STUDY", "WrittenTables", "records_of", "write_tables"]

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


def _copy(ready: Scan, resolution: float) -> Scan:
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


def _listed(plan: Preparation, ready: Scan) -> Row:
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
    return {**ready.covariates, "subject": ready.subject, "site": ready.site, **relative}


def _relative(path: str, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _measured(scan: Scan, record: PreparationRecord) -> Row:
    known = record.measures
    tissues = known.tissues_ml or (None, None, None)
    field = known.field or (None, None)
    return {
        "name": scan.name,
        "subject": scan.subject,
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
