"""Tables of scans: one row per scan, with the names of the columns in the first row.

``image`` is required, or one column per channel, called like the channel; ``subject``, ``site``,
``mask``, ``lesion``, ``gm``, ``wm`` and ``csf`` are known, in upper or lower case. Any other
column, such as ``age``, is a covariate; but one that is named almost like a known column, or that
holds images, was probably meant to be used. Paths are relative to the table. An empty cell and
``n/a`` both mean that there is no value, and blanks around a value do not count.

``OUT/scans.tsv`` lists the images of a study in the same way, with more columns (`OURS`): the
``name`` of an image, and where its ``output`` and its ``sidecar`` are; where channels belong
together, also (`TOGETHER`) the ``channel``, and the name of the ``scan`` that they are of. A column
of the user's table with one of these names is not used, and `Listing.unused` says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import identity_of
from ndflow.files.tables import MISSING, read_delimited, refuse_rows, write_table
from ndflow.image.mask import to_be_found
from ndflow.image.read import kind_of
from ndflow.image.subject import ANY_CHANNEL, CHANNEL, Output, Subject, TissueMaps
from ndflow.study.listing import Listing, alike, kept_mask

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add
TOGETHER = ("channel", "scan")  # more of them, for several channels
_OTHER_MEANING = {*FILES, *TEXTS, *OURS} - {"image"}  # no names of channels
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
_CLOSE_ENOUGH = 0.8  # where a column is missing: "T1" is near "T1w", but "age" is not near "image"
_CLOSE = 0.84  # "masks" is near "mask", but "task", "side" and "age" are near nothing
_OUR_NAME = "names of ours; rename them to keep them"
_ONLY = "is only a covariate"

Cells = Mapping[str, str]  # of a row, by column, without those that have no value


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_table(path: AnyPath, channels: Sequence[str] = ()) -> Listing:
    """Read a table of scans, without checking that their files exist.

    Parameters
    ----------
    path : the table.
    channels : the columns of images, if there are several; or what the column ``image`` shows.

    Raises
    ------
    FileError : if the file cannot be read, or is not such a table; it names the wrong rows.
    """
    check_channel_names(channels)
    several = len(channels) > 1
    columns, rows = _read(path, channels if several else ("image",))
    scans = [_scan(path, number, cells, channels) for number, cells in rows]
    taken = taken_names(several=several)
    unused = {name: _OUR_NAME for name in columns if name in taken - {*FILES, *TEXTS}}
    if any("" in cells for _, cells in rows):
        unused["a column without a name"] = "name it in the first row to keep it"
    warnings = []
    known_names = {"", *taken, *(channels if several else ())}
    for name in columns:
        cells_of = {cells[name] for _, cells in rows if name in cells}
        if name not in known_names and misunderstood(name, cells_of, columns):
            meant = nearest(name)
            meant = None if meant in columns else meant
            unused[name] = f"{meant}?" if meant else "holds images"
            what = "holds images, but is not used" if any(map(is_image, cells_of)) else _ONLY
            hint = f"; rename it to {meant!r} if that is what it is" if meant else ""
            warnings.append(f"{path}: the column {name!r} {what}{hint}")
    if several and "image" in columns:
        unused["image"] = "the channels have columns of their own"
    root = Path(path).absolute().parent
    return Listing(scans, str(path), root, str(path), unused, warnings=warnings)


def taken_names(*, several: bool) -> set[str]:
    """Return the columns of OUT/scans.tsv that are no covariates; `several` channels have more."""
    return {*FILES, *TEXTS, *OURS, *(TOGETHER if several else ())}


def check_channel_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of channels, and the same name twice."""
    for name in names:
        if not re.fullmatch(CHANNEL, name):
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


def _column_names(path: AnyPath, first: Sequence[str], images: Sequence[str]) -> list[str]:
    """Return the names of the columns; those that are known in lower case."""
    given = [name.strip() for name in first]
    names = [
        name.lower() if name not in images and name.lower() in (*FILES, *TEXTS) else name
        for name in given
    ]
    there = {name.lower(): name for name in given if name}
    for image in images:
        if image not in names:
            hint = "name the column of images so, or those of several channels with --channels"
            if close := get_close_matches(image.lower(), there, 1, _CLOSE_ENOUGH):
                hint = f"is it {there[close[0]]!r}? Rename it to {image!r}"
            columns = ", ".join(there.values()) or "none"
            cause = f"row 1 names no column {image!r} (its columns: {columns})"
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


def _read(
    path: AnyPath, images: Sequence[str] = ("image",)
) -> tuple[list[str], list[tuple[int, Cells]]]:
    """Return the columns of a table, and the number and cells of each row."""
    table = read_delimited(path)
    columns = _column_names(path, table.columns, images)
    folder = Path(path).absolute().parent
    rows: list[tuple[int, Cells]] = []
    faults: list[str] = []
    seen: dict[str, str] = {}
    for number, raw in table.rows:
        given = zip(columns, map(str.strip, raw), strict=True)
        cells = {name: cell for name, cell in given if cell.lower() not in MISSING}
        faults += [f"row {number} names no {image}" for image in images if image not in cells]
        for name in FILES[1:]:
            if name in cells and not is_image(cells[name]):
                faults.append(f"row {number} has the {name} {cells[name]!r}, which is no image")
        for image in (image for image in images if image in cells):
            where = f"row {number}" if len(images) == 1 else f"{image} of row {number}"
            other = seen.setdefault(str(folder / cells[image]), where)
            if other != where:
                faults.append(f"{where} has the image of {other}")
        rows.append((number, cells))
    refuse_rows(path, faults)
    if not rows:
        raise FileError(path, "a table without scans", "add one row per scan below the header")
    return columns, rows


def _scan(path: AnyPath, number: int, cells: Cells, channels: Sequence[str] = ()) -> Subject:
    folder = Path(path).absolute().parent
    columns = channels if len(channels) > 1 else ["image"]
    files = {name: str(folder / cells[name]) for name in (*columns, *FILES) if name in cells}
    others = {*columns, *taken_names(several=len(columns) > 1), ""}
    more = {name: cell for name, cell in cells.items() if name not in others}
    named = zip(channels or (ANY_CHANNEL,), columns, strict=True)
    subject = Subject(
        {name: files[column] for name, column in named},
        files.get("mask"),
        files.get("lesion"),
        TissueMaps(files.get("csf"), files.get("gm"), files.get("wm")),
        person=cells.get("subject"),
        site=cells.get("site"),
        origin=f"row {number}",
    )
    return replace(subject, covariates=more) if more else subject


# ── the list of a study ───────────────────────────────────────────────────────────────────────────


def write_study_scans(path: Path, scans: Sequence[Subject]) -> None:
    """Write the list of a study's images; files that lie beside it or below are relative to it."""
    together = any(len(scan.images) > 1 for scan in scans)
    more = sorted({name for scan in scans for name in scan.covariates})
    own = (*OURS, *(TOGETHER if together else ()))
    rows = []
    for scan in scans:
        maps = scan.tissues
        found = kept_mask(scan.name) if scan.finds_brain else None
        mask = found if to_be_found(scan.mask) else scan.mask
        masks = (mask, scan.lesion, maps.gm, maps.wm, maps.csf)
        for channel, image in scan.images.items():
            out = scan.outputs[channel]
            known = (out.name, out.image, out.sidecar, *((channel, scan.name) if together else ()))
            files = [_relative(file, path.parent) for file in (image, *masks)]
            covariates = [scan.covariates.get(name) for name in more]
            rows.append((*known, scan.person, scan.site, *files, *covariates))
    write_table(
        path, (*own, "subject", "site", "image", "mask", "lesion", "gm", "wm", "csf", *more), rows
    )


def read_study_scans(path: Path, channels: Sequence[str] = ()) -> list[Subject]:
    """Read the list of a study's images; `channels` is what they show, as its record says."""
    _, rows = _read(path)
    scans: dict[str, Subject] = {}
    together = len(channels) > 1
    for number, cells in rows:
        given = {n: cell for n, cell in cells.items() if not (together and n in TOGETHER)}
        one = _scan(path, number, given)
        name = cells.get("name", "")
        called = cells.get("scan", name) if together else name
        channel = cells.get("channel", channels[0]) if together else (*channels, ANY_CHANNEL)[0]
        output = Output(name, cells.get("output", ""), cells.get("sidecar", ""))
        images, outputs = {channel: one.image}, {channel: output}
        if whole := scans.get(called):
            images, outputs = {**whole.images, **images}, {**whole.outputs, **outputs}
        scans[called] = replace(one, images=images, name=called, outputs=outputs)
    return list(scans.values())


def _relative(source: object, folder: Path) -> str | None:
    """Return the name of a file; relative, if it belongs to the study itself and moves with it."""
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


# ── repeated scans ────────────────────────────────────────────────────────────────────────────────
# Scans that are the same, and sites that are called almost the same.
#
# A scan that is listed twice would count twice in the reference. The same file, however it is
# named, is refused before any work. Two files with the same content are noticed when their
# densities are estimated, for which they are hashed anyway: the later one fails, and is left out.


def refuse_repeats(scans: Sequence[Subject]) -> None:
    """Refuse scans that are the same file: by path, symbolic link or hard link."""
    seen: dict[Hashable, tuple[Subject, str]] = {}
    for scan in scans:
        for image in map(str, scan.images.values()):
            other, path = seen.setdefault(identity_of(image), (scan, image))
            if path != image or other is not scan:
                cause = f"{scan.origin} is the same file as {other.origin}, {path}"
                raise FileError(image, cause, "list each scan once")


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
