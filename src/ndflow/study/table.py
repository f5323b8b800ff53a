"""Tables of scans: one row per scan, with the names of the columns in the first row.

Some columns are known; the others, such as ``age``, are kept
as covariates. Paths are relative to the table. An empty cell and ``n/a`` both mean that there is no
value, and blanks around a value do not count.

``OUT/scans.tsv`` lists the scans of a study in the same way, with three columns more: the ``name``
of a scan, and where its ``output`` and its ``sidecar`` are. So these names are ours: a column of
the user's that has one of them is not used, and `ScanTable.unused` says so.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import identity_of
from ndflow.files.tables import MISSING, Table, read_delimited, refuse_rows, write_table
from ndflow.image.mask import BRAIN, FoundMask, to_be_found
from ndflow.image.read import kind_of
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.plan import kept_mask_name
from ndflow.study.tasks import Failure, Outcome
from ndflow.subject.channels import NAME
from ndflow.subject.outputs import safe_name, stem

# ── columns ───────────────────────────────────────────────────────────────────────────────────────
# The columns of a table of scans: those that are known, and what others may have been meant to be.
#
# ``image`` is required; ``subject``, ``site``, ``mask``, ``lesion``, ``gm``, ``wm`` and ``csf`` are
# known, in upper or lower case. Any other column is a covariate; but one that is named almost like
# a known column, or that holds images, was probably meant to be used. A table with several channels
# has one column of images per channel instead of ``image``, called like the channel.

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add

_OTHER_MEANING = {*FILES, *TEXTS, *OURS} - {"image"}  # no names of channels
_FEWEST = 2  # channels
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
_CLOSE = 0.84  # "masks" is near "mask", but "task", "side" and "age" are near nothing


def column_names(path: AnyPath, first: Sequence[str]) -> list[str]:
    """Return the names of the columns; those that are known in lower case.

    Parameters
    ----------
    path : the table, for messages.
    first : the cells of its first row.
    """
    given = [name.strip() for name in first]
    names = [name.lower() if name.lower() in (*FILES, *TEXTS) else name for name in given]
    if "image" not in names:
        found = ", ".join(name for name in given if name) or "none"
        cause = f"row 1 names no column 'image' (its columns: {found})"
        close = next((name for name in given if nearest(name) == "image"), None)
        hint = (
            "rename the column of images, or name the columns of several channels with --channels"
            if close is None
            else f"rename {close!r} to 'image'"
        )
        raise FileError(path, cause, hint)
    for name in names:
        if name and names.count(name) > 1:
            raise FileError(path, f"row 1 names the column {name!r} twice", "remove one")
    return names


def nearest(name: str) -> str | None:
    """Return the known column that another may have been meant to be; None if there is none.

    >>> nearest("Masks"), nearest("sites"), nearest("age")
    ('mask', 'site', None)
    """
    word = re.sub(r"[\W_]", "", name.lower())
    known = [one for one in (*FILES, *TEXTS) if len(one) > 3]
    return next(iter(get_close_matches(word, known, 1, _CLOSE)), None)


def is_image(cell: str) -> bool:
    """Tell whether a cell is the name of an image."""
    return kind_of(cell) in _IMAGES


def misunderstood(name: str, cells: Collection[str], known: Collection[str]) -> bool:
    """Tell whether a covariate looks as if it was meant to be something else.

    That is so if it holds images, or is named like a subject or a site that the table lacks. Other
    numbers and words, such as the volume of a lesion, are covariates whatever their name.

    Parameters
    ----------
    name : of the column.
    cells : its values.
    known : the known columns that the table has.
    """
    meant = nearest(name)
    return any(map(is_image, cells)) or (meant in TEXTS and meant not in known)


def check_channel_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of channels, the same name twice, and a single one."""
    for name in names:
        if not re.fullmatch(NAME, name):
            raise InvalidValueError(
                f"--channels: {name!r} is not a name of letters, digits, _, + and -; rename the "
                f"column, for example to T1w"
            )
        if name.lower() in _OTHER_MEANING:
            raise InvalidValueError(
                f"--channels: the column {name!r} has another meaning; name columns of images"
            )
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--channels: {' '.join(names)}: the same twice; leave one out")
    if len(names) < _FEWEST:
        raise InvalidValueError(
            f"--channels: {names[0]} alone; for one channel, call its column image and give "
            f"--channels {names[0]}"
        )


def table_of_channel(path: AnyPath, table: Table, channel: str, channels: Sequence[str]) -> Table:
    """Return the table of one channel: its column becomes ``image``, those of others go.

    Parameters
    ----------
    path : the table, for messages.
    table : its cells.
    channel : the channel.
    channels : all of them.

    Raises
    ------
    FileError : if a channel has no column, or a row has one file for two channels.
    """
    columns = [name.strip() for name in table.columns]
    for name in channels:
        if name not in columns:
            raise _no_column(path, name, columns)
    dropped = {columns.index(name) for name in channels if name != channel}
    if channel != "image":
        dropped |= {place for place, name in enumerate(columns) if name.lower() == "image"}
    kept = [place for place in range(len(columns)) if place not in dropped]
    own = columns.index(channel)
    for number, cells in table.rows:
        for name in channels:
            cell = cells[columns.index(name)].strip()
            same = name != channel and cell == cells[own].strip()
            if same and cell.lower() not in MISSING:
                cause = f"row {number} has one file for the channels {channel} and {name}"
                raise FileError(path, cause, "give each channel a file of its own")
    return Table(
        ["image" if place == own else table.columns[place] for place in kept],
        [(number, [cells[place] for place in kept]) for number, cells in table.rows],
    )


def _no_column(path: AnyPath, name: str, columns: Sequence[str]) -> FileError:
    named = [one for one in columns if one]
    lower = {one.lower(): one for one in named}
    close = get_close_matches(name.lower(), lower, 1)
    cause = f"row 1 names no column {name!r} (its columns: {', '.join(named) or 'none'})"
    hint = f"give one column of images per channel, called like the channel: {name}"
    if close:
        hint = f"is it {lower[close[0]]}? Names must agree, letter by letter"
    return FileError(path, cause, hint)


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────

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

    scans: list[Subject]
    unused: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()


def read_scans(path: AnyPath) -> list[Subject]:
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


def named_scans(scans: Sequence[Subject], *, unmasked: FoundMask | None = None) -> list[Subject]:
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
    named: dict[str, Subject] = {}
    for scan in scans:
        name = stem(scan.path)
        if called[alike(name)] > 1:
            name = "_".join(part for part in (scan.person or scan.site, name) if part)
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


def write_study_scans(path: Path, scans: Sequence[Subject]) -> None:
    """Write the list of a study's scans; files that lie beside it or below are relative to it."""
    more = sorted({name for scan in scans for name in scan.covariates})
    columns = (*OURS, "subject", "site", "image", "mask", "lesion", "gm", "wm", "csf", *more)
    rows = (
        (
            scan.name,
            scan.output,
            scan.sidecar,
            scan.person,
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


def read_study_scans(path: Path) -> list[Subject]:
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


def _mask(scan: Subject) -> str | None:
    """Return the file of a mask; a study that finds the brain keeps one in its folder."""
    if to_be_found(scan.mask):
        return kept_mask_name(scan.name) if scan.mask == BRAIN else None
    return _text(scan.mask)


def _gm_wm_csf(scan: Subject) -> tuple[object, ...]:
    return scan.tissues.gm, scan.tissues.wm, scan.tissues.csf


def _relative(source: object, folder: Path) -> str | None:
    """Return the name of a file; relative, if it belongs to the study itself and moves with it."""
    text = _text(source)
    inside = text is not None and Path(text).is_relative_to(folder)
    return Path(text).relative_to(folder).as_posix() if text and inside else text


def _text(source: object) -> str | None:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def _scan(path: AnyPath, number: int, cells: Cells) -> Subject:
    folder = Path(path).absolute().parent
    files = {name: str(folder / cells[name]) for name in FILES if name in cells}
    more = {
        name: cell for name, cell in cells.items() if name and name not in (*FILES, *TEXTS, *OURS)
    }
    scan = Subject(
        files["image"],
        files.get("mask"),
        files.get("lesion"),
        TissueMaps(files.get("csf"), files.get("gm"), files.get("wm")),
        person=cells.get("subject"),
        site=cells.get("site"),
        origin=f"row {number}",
    )
    return replace(scan, covariates=more) if more else scan


# ── repeated scans ────────────────────────────────────────────────────────────────────────────────
# Scans that are the same, and sites that are called almost the same.
#
# A scan that is listed twice would count twice in the reference. The same file, however it is
# named, is refused before any work. Two files with the same content are noticed when their
# densities are estimated, for which they are hashed anyway: the later one fails, and is left out.


def refuse_repeats(scans: Sequence[Subject]) -> None:
    """Refuse scans that are the same file: by path, symbolic link or hard link."""
    seen: dict[Hashable, Subject] = {}
    for scan in scans:
        other = seen.setdefault(identity_of(scan.path), scan)
        if other is not scan:
            cause = f"{scan.origin} is the same file as {other.origin}, {other.path}"
            raise FileError(scan.path, cause, "list each scan once")


def refuse_almost_equal_sites(scans: Sequence[Subject]) -> None:
    """Refuse names of sites that differ only in case, or in how an accent is encoded.

    They are probably one site; and on many discs their references would be one file.
    """
    seen: dict[str, Subject] = {}
    for scan in scans:
        if scan.site is None:
            continue
        other = seen.setdefault(alike(scan.site), scan)
        if other.site != scan.site:
            cause = f"{scan.origin} has the site {scan.site!r}, {other.origin} {other.site!r}"
            hint = (
                "write one site in one way, and give two sites names that differ in more than case"
            )
            raise FileError(scan.path, cause, hint)


def without_repeats(
    scans: Sequence[Subject], outcomes: Iterable[Outcome]
) -> Iterator[tuple[Subject, Outcome]]:
    """Yield each scan with its outcome; that of one with the content of an earlier is a failure.

    Parameters
    ----------
    scans : in the order of their outcomes.
    outcomes : whose results say what the images hold, see `ndflow.study.scan_jobs.ScanDone`.
    """
    seen: dict[tuple[str, ...], Subject] = {}
    for scan, outcome in zip(scans, outcomes, strict=True):
        content = outcome.result.content if outcome.failure is None else ()
        other = seen.setdefault(content, scan) if content else scan
        if other is scan:
            yield scan, outcome
        else:
            yield scan, Outcome(scan.name, None, _repeats(scan, other))


def _repeats(scan: Subject, other: Subject) -> Failure:
    cause = f"the same image as {other.path} ({scan.origin} and {other.origin})"
    error = FileError(scan.path, cause, "remove one of them")
    return Failure(scan.name, f"{scan.path}: {cause}", error.hint, str(error), "")
