"""Tables of scans: one row per scan, with the names of the columns in the first row.

`ndflow.study.listing.columns` says which columns are known; the others, such as ``age``, are kept
as covariates. Paths are relative to the table. An empty cell and ``n/a`` both mean that there is no
value, and blanks around a value do not count.

``OUT/scans.tsv`` lists the scans of a study in the same way, with three columns more: the ``name``
of a scan, and where its ``output`` and its ``sidecar`` are. So these names are ours: a column of
the user's that has one of them is not used, and `ScanTable.unused` says so.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.tables import MISSING, read_delimited, refuse_rows, write_table
from ndflow.image.mask import BRAIN, FoundMask, to_be_found
from ndflow.image.subject import Scan, TissueMaps
from ndflow.scan.outputs import safe_name, stem
from ndflow.study.listing.columns import (
    FILES,
    OURS,
    TEXTS,
    column_names,
    is_image,
    misunderstood,
    nearest,
    table_of_channel,
)
from ndflow.study.plan import kept_mask_name

__all__ = [
    "ScanTable",
    "alike",
    "named_scans",
    "read_scans",
    "read_study_scans",
    "read_table",
    "write_study_scans",
]

_OUR_NAME = "names of ours; rename them to keep them"
_ONLY = "is only a covariate"

Cells = Mapping[str, str]  # of a row, by column, without those that have no value


class ScanTable(NamedTuple):
    """A table of scans, and what was not understood in it.

    Attributes
    ----------
    scans : one per row, in the order of the table; at least one.
    unused : columns that are probably misnamed, or cannot even be covariates, and why.
    warnings : for the user, about those that are probably misnamed.
    """

    scans: list[Scan]
    unused: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()


def read_scans(path: AnyPath) -> list[Scan]:
    """Read the scans of a table; see `read_table`."""
    return read_table(path).scans


def read_table(
    path: AnyPath, *, channel: str | None = None, channels: Sequence[str] = ()
) -> ScanTable:
    """Read a table of scans, without checking that their files exist.

    Parameters
    ----------
    path : the table, tab- or comma-separated (see `read_delimited`).
    channel : the channel to read, of a table with one column of images per channel.
    channels : all of its channels.

    Raises
    ------
    FileError
        Where the table cannot be read, has no column of images, or has faulty rows.
    """
    columns, rows = _read(path, channel, channels)
    scans = [_scan(path, number, cells) for number, cells in rows]
    unused = {name: _OUR_NAME for name in columns if name in OURS}
    if any("" in cells for _, cells in rows):
        unused["a column without a name"] = "name it in the first row to keep it"
    warnings = []
    for name in columns:
        cells_of = {cells[name] for _, cells in rows if name in cells}
        known = not name or name in (*FILES, *TEXTS, *OURS)
        if not known and misunderstood(name, cells_of, columns):
            meant = nearest(name)
            meant = None if meant in columns else meant
            unused[name] = f"{meant}?" if meant else "holds images"
            what = "holds images, but is not used" if any(map(is_image, cells_of)) else _ONLY
            hint = f"; rename it to {meant!r} if that is what it is" if meant else ""
            warnings.append(f"{path}: the column {name!r} {what}{hint}")
    return ScanTable(scans, unused, tuple(warnings))


def _read(
    path: AnyPath, channel: str | None = None, channels: Sequence[str] = ()
) -> tuple[list[str], list[tuple[int, Cells]]]:
    """Return the columns of a table, and the number and cells of each row."""
    table = read_delimited(path)
    if channel is not None:
        table = table_of_channel(path, table, channel, channels)
    columns = column_names(path, table.columns)
    folder = Path(path).absolute().parent
    rows: list[tuple[int, Cells]] = []
    faults: list[str] = []
    seen: dict[str, int] = {}
    for number, raw in table.rows:
        given = dict(zip(columns, map(str.strip, raw), strict=True))
        cells = {name: cell for name, cell in given.items() if cell.lower() not in MISSING}
        faults += _faults(folder, number, dict(zip(columns, raw, strict=True)), cells, channel)
        if "image" in cells:
            image = str(folder / cells["image"])
            if image in seen:
                faults.append(f"row {number} has the image of row {seen[image]}")
            seen[image] = number
        rows.append((number, cells))
    refuse_rows(path, faults)
    if not rows:
        raise FileError(path, "a table without scans", "add one row per scan below the header")
    return columns, rows


def _faults(
    folder: Path, number: int, raw: Mapping[str, str], cells: Cells, channel: str | None
) -> list[str]:
    """Return what is wrong with a row."""
    found = [] if "image" in cells else [f"row {number} names no {channel or 'image'}"]
    for name in FILES:
        if name not in cells:
            continue
        if name != "image" and not is_image(cells[name]):
            found.append(f"row {number} has the {name} {cells[name]!r}, which is no image")
        if raw[name] != cells[name] and os.path.lexists(folder / raw[name]):
            found.append(f"row {number} names the file {raw[name]!r}, with a blank at its end")
    return found


def named_scans(scans: Sequence[Scan], *, unmasked: FoundMask | None = None) -> list[Scan]:
    """Return scans with names of their own, and the places of their results.

    A scan is named after its image; where two images have the same name, after subject and image.
    Names that differ only in case or in how an accent is encoded count as the same, because they
    are the same on the discs of many computers.

    Parameters
    ----------
    scans : as `read_scans` returns them.
    unmasked : what to find in scans without a mask; by default nothing.
    """
    called = Counter(alike(stem(scan.path)) for scan in scans)
    named: dict[str, Scan] = {}
    for scan in scans:
        name = stem(scan.path)
        if called[alike(name)] > 1:
            name = "_".join(part for part in (scan.subject or scan.site, name) if part)
        name = safe_name(name)
        if (other := named.get(alike(name))) is not None:
            cause = f"{scan.origin}: the scan would be called {name}, like that of {other.origin}"
            but = "" if other.name == name else f" ({other.name})"
            hint = "give them different subjects, or other file names"
            raise FileError(scan.path, f"{cause}{but}", hint)
        named[alike(name)] = replace(
            scan,
            name=name,
            mask=scan.mask or unmasked,
            output=f"images/{name}.nii.gz",
            sidecar=f"maps/{name}.json",
        )
    return list(named.values())


def alike(name: str) -> str:
    """Return what names have in common that differ only in case or in how accents are encoded."""
    return normalize("NFC", normalize("NFC", name).casefold())


def write_study_scans(path: Path, scans: Sequence[Scan]) -> None:
    """Write the list of a study's scans; files that lie beside it or below are relative to it."""
    more = sorted({name for scan in scans for name in scan.covariates})
    columns = (*OURS, "subject", "site", "image", "mask", "lesion", "gm", "wm", "csf", *more)
    rows = (
        (
            scan.name,
            scan.output,
            scan.sidecar,
            scan.subject,
            scan.site,
            *(
                _relative(file, path.parent)
                for file in (scan.path, _mask(scan), scan.lesion, *_gm_wm_csf(scan))
            ),
            *(scan.covariates.get(name) for name in more),
        )
        for scan in scans
    )
    write_table(path, columns, rows)


def read_study_scans(path: Path) -> list[Scan]:
    """Read the list of a study's scans."""
    _, rows = _read(path)
    return [
        replace(
            _scan(path, number, cells),
            name=cells.get("name", ""),
            output=cells.get("output", ""),
            sidecar=cells.get("sidecar", ""),
        )
        for number, cells in rows
    ]


def _mask(scan: Scan) -> str | None:
    """Return the file of a mask; a study that finds the brain keeps one in its folder."""
    if to_be_found(scan.mask):
        return kept_mask_name(scan.name) if scan.mask == BRAIN else None
    return _text(scan.mask)


def _gm_wm_csf(scan: Scan) -> tuple[object, ...]:
    return scan.tissues.gm, scan.tissues.wm, scan.tissues.csf


def _relative(source: object, folder: Path) -> str | None:
    """Return the name of a file; relative, if it belongs to the study itself and moves with it."""
    text = _text(source)
    inside = text is not None and Path(text).is_relative_to(folder)
    return Path(text).relative_to(folder).as_posix() if text and inside else text


def _text(source: object) -> str | None:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def _scan(path: AnyPath, number: int, cells: Cells) -> Scan:
    folder = Path(path).absolute().parent
    files = {name: str(folder / cells[name]) for name in FILES if name in cells}
    more = {
        name: cell for name, cell in cells.items() if name and name not in (*FILES, *TEXTS, *OURS)
    }
    scan = Scan(
        files["image"],
        files.get("mask"),
        files.get("lesion"),
        TissueMaps(files.get("csf"), files.get("gm"), files.get("wm")),
        subject=cells.get("subject"),
        site=cells.get("site"),
        origin=f"row {number}",
    )
    return replace(scan, covariates=more) if more else scan
