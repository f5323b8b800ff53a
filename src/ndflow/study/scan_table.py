"""Tables of scans: one row per scan, with the names of the columns in the first row.

``image`` is required; ``subject``, ``site`` (or ``centre``), ``mask``, ``gm``, ``wm`` and ``csf``
are known; other columns, such as ``age``, are kept as covariates. Paths are relative to the table.
An empty cell and ``n/a`` both mean that there is no value.

``OUT/scans.tsv`` lists the scans of a study in the same way, with three columns more: the ``name``
of a scan, and where its ``output`` and its ``sidecar`` are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from sys import intern

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.tables import MISSING, read_delimited, write_table
from ndflow.image.scans import AUTO, Scan, TissueMaps, is_auto
from ndflow.scan.outputs import safe_name, stem

__all__ = ["named_scans", "read_scans", "read_study_scans", "scans_in_folder", "write_study_scans"]

_FILES = ("image", "mask", "gm", "wm", "csf")
_TEXTS = ("subject", "site")
_SYNONYMS = {"centre": "site", "center": "site"}
_OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv
_EARLIER = "record"  # what the last of them was called in version 1
_MAX_LISTED = 5  # faulty rows in one message
_IMAGES = ("*.nii", "*.nii.gz", "*.mgh", "*.mgz")


def read_scans(path: AnyPath) -> list[Scan]:
    """Read a table of scans, without checking that their files exist.

    Parameters
    ----------
    path : the table, tab- or comma-separated (see `read_delimited`).

    Returns
    -------
    list of Scan
        One per row, in the order of the table; at least one.

    Raises
    ------
    FileError
        Where the table cannot be read, has no column ``image``, or has faulty rows.
    """
    table = read_delimited(path)
    names = _column_names(path, table.columns)
    folder = Path(path).absolute().parent
    scans, faults = [], []
    seen: dict[str, int] = {}
    for number, cells in table.rows:
        if len(cells) != len(names):
            faults.append(f"row {number} has {len(cells)} cells instead of {len(names)}")
            continue
        scan = _scan(folder, f"row {number}", dict(zip(names, cells, strict=True)))
        if scan is None:
            faults.append(f"row {number} names no image")
            continue
        if scan.path in seen:
            faults.append(f"row {number} has the image of row {seen[scan.path]}")
        seen[scan.path] = number
        scans.append(scan)
    if faults:
        more = f", and {len(faults) - _MAX_LISTED} more" if len(faults) > _MAX_LISTED else ""
        raise FileError(path, ", ".join(faults[:_MAX_LISTED]) + more, "correct the table")
    if not scans:
        raise FileError(path, "a table without scans", "add one row per scan below the header")
    return scans


def scans_in_folder(folder: Path, out: Path, pattern: str | None = None) -> list[Scan]:
    """Return the images in a folder and below; the site of a scan is the folder it lies in.

    Parameters
    ----------
    folder : where to look.
    out : where not to look, because results go there.
    pattern : what the names are like, for example ``"*_T1w.nii.gz"``. Default: any image.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise FileError(folder, "not a folder", "check the spelling, and the folder you are in")
    patterns = _IMAGES if pattern is None else (pattern,)
    found = sorted(
        str(path)
        for path in folder.rglob("*")
        if any(fnmatch(path.name, one) for one in patterns)
        and not path.name.startswith(".")
        and not path.is_relative_to(out)
        and path.is_file()
    )
    if not found:
        cause = f"no image in it is called {' or '.join(patterns)}"
        raise FileError(folder, cause, "choose another --pattern")
    return [
        Scan(path, site=_folder_name(path, folder), origin=f"image {number}")
        for number, path in enumerate(found, 1)
    ]


def _folder_name(path: str, top: Path) -> str | None:
    """Return the name of the folder that a file lies in, unless that is the top one."""
    folder = Path(path).parent
    return None if folder == top else intern(folder.name)


def named_scans(scans: Sequence[Scan], *, auto_mask: bool = False) -> list[Scan]:
    """Return scans with names of their own, and the places of their results.

    A scan is named after its image; where two images have the same name, after subject and image.

    Parameters
    ----------
    scans : as `read_scans` returns them.
    auto_mask : whether to find the foreground of scans without a mask.
    """
    called = Counter(stem(scan.path) for scan in scans)
    named: dict[str, Scan] = {}
    for scan in scans:
        name = stem(scan.path)
        if called[name] > 1:
            name = "_".join(part for part in (scan.subject or scan.site, name) if part)
        name = safe_name(name)
        if name in named:
            cause = f"{scan.origin}: the scan would be called {name}, like that of "
            raise FileError(
                scan.path,
                f"{cause}{named[name].origin}",
                "give them different subjects, or other file names",
            )
        named[name] = replace(
            scan,
            name=name,
            mask=scan.mask or (AUTO if auto_mask else None),
            output=f"images/{name}.nii.gz",
            sidecar=f"maps/{name}.json",
        )
    return list(named.values())


def write_study_scans(path: Path, scans: Sequence[Scan]) -> None:
    """Write the list of a study's scans."""
    more = sorted({name for scan in scans for name in scan.covariates} - set(_OURS))
    columns = (*_OURS, "subject", "site", "image", "mask", "gm", "wm", "csf", *more)
    rows = (
        (
            scan.name,
            scan.output,
            scan.sidecar,
            scan.subject,
            scan.site,
            scan.path,
            _text(None if is_auto(scan.mask) else scan.mask),
            _text(scan.tissues.gm),
            _text(scan.tissues.wm),
            _text(scan.tissues.csf),
            *(scan.covariates.get(name) for name in more),
        )
        for scan in scans
    )
    write_table(path, columns, rows)


def read_study_scans(path: Path) -> list[Scan]:
    """Read the list of a study's scans."""
    return [
        replace(
            scan,
            name=scan.covariates.get("name", ""),
            output=scan.covariates.get("output", ""),
            sidecar=scan.covariates.get("sidecar") or scan.covariates.get(_EARLIER, ""),
            covariates=_without_ours(scan.covariates),
        )
        for scan in read_scans(path)
    ]


def _without_ours(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of OUT/scans.tsv that come from the user's table."""
    ours = _OURS if "sidecar" in columns else (*_OURS, _EARLIER)
    return {name: cell for name, cell in columns.items() if name not in ours}


def _text(source: object) -> str | None:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def _scan(folder: Path, origin: str, cells: Mapping[str, str]) -> Scan | None:
    given = {name: cell.strip() for name, cell in cells.items()}
    given = {name: cell for name, cell in given.items() if cell.lower() not in MISSING}
    files = {name: str(folder / given[name]) for name in _FILES if name in given}
    if "image" not in files:
        return None
    more = {name: cell for name, cell in given.items() if name not in (*_FILES, *_TEXTS)}
    scan = Scan(
        files["image"],
        files.get("mask"),
        tissues=TissueMaps(files.get("csf"), files.get("gm"), files.get("wm")),
        subject=given.get("subject"),
        site=given.get("site"),
        origin=origin,
    )
    return replace(scan, covariates=more) if more else scan


def _column_names(path: AnyPath, first: Sequence[str]) -> list[str]:
    """Return the names of the columns, in our spelling."""
    given = [name.strip() for name in first]
    names = [
        _SYNONYMS.get(name.lower(), name.lower() if name.lower() in (*_FILES, *_TEXTS) else name)
        for name in given
    ]
    if "image" not in names:
        found = ", ".join(name for name in given if name) or "none"
        cause = f"row 1 names no column 'image' (its columns: {found})"
        raise FileError(path, cause, "name the columns in the first row, tab- or comma-separated")
    for name in names:
        if name and names.count(name) > 1:
            also = " ('centre' is the same)" if name == "site" else ""
            raise FileError(path, f"row 1 names the column {name!r} twice{also}", "remove one")
    return names
