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
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol
from unicodedata import normalize

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import identity_of
from ndflow.files.outputs import safe_name, stem
from ndflow.files.tables import MISSING, read_delimited, refuse_rows, write_table
from ndflow.image.mask import FoundMask, to_be_found
from ndflow.image.read import kind_of
from ndflow.image.subject import ANY_CHANNEL, CHANNEL, Output, Subject, TissueMaps

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add
TOGETHER = ("channel", "scan")  # more of them, for several channels
_OTHER_MEANING = {*FILES, *TEXTS, *OURS} - {"image"}  # no names of channels
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
_CLOSE_ENOUGH = 0.8  # where a column is missing: "T1" is near "T1w", but "age" is not near "image"
_CLOSE = 0.84  # "masks" is near "mask", but "task", "side" and "age" are near nothing
_OUR_NAME = "names of ours; rename them to keep them"

Cells = Mapping[str, str]  # of a row, by column, without those that have no value


@dataclass(frozen=True)
class Listing:
    """Subjects, and where they were listed.

    Attributes
    ----------
    subjects : as they were listed.
    source : what messages call the list.
    root : the folder that the sources of results are relative to.
    table : the file of the list, if it is one.
    unused : columns that are not used, and why not.
    skipped : how many images are not scans, by reason.
    warnings : for the user.
    """

    subjects: Sequence[Subject]
    source: str
    root: Path
    table: str | None = None
    unused: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def alone(self, channel: str) -> Listing:
        """Return the same with one of several channels only."""
        subjects = [subject.alone(channel) for subject in self.subjects]
        return replace(self, subjects=subjects, source=f"{self.source} ({channel})")


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
    for name in (one for one in columns if one not in {"", *taken, *(channels if several else ())}):
        holds_images = any(is_image(cells[name]) for _, cells in rows if name in cells)
        meant = nearest(name) if nearest(name) not in columns else None
        if holds_images or meant in TEXTS:
            unused[name] = f"{meant}?" if meant else "holds images"
            what = "holds images, but is not used" if holds_images else "is only a covariate"
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
            words = f"--channels: {name!r} is not a name of letters, digits, _, + and -"
            raise InvalidValueError(f"{words}; rename the column, for example to T1w")
        if name.lower() in _OTHER_MEANING:
            words = f"--channels: the column {name!r} has another meaning"
            raise InvalidValueError(f"{words}; name columns of images")
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


# ── names of results ──────────────────────────────────────────────────────────────────────────────
# Plain results are ``OUT/images/<name>.nii.gz`` with sidecars ``OUT/maps/<name>.json``; those of a
# BIDS dataset have the names of a BIDS derivative, with sidecars beside the images.


class Naming(Protocol):
    """What results are called."""

    def output(self, subject: Subject, image: str, name: str) -> Output:
        """Return where the result of an image goes.

        Parameters
        ----------
        subject : that it is of.
        image : the file.
        name : its name among others.
        """


class PlainNames:
    """Results in a folder of images and one of sidecars."""

    def output(self, subject: Subject, image: str, name: str) -> Output:
        """Return where the result of an image goes; see `Naming`."""
        return Output(name, f"images/{name}.nii.gz", f"maps/{name}.json", {})


def named(
    subjects: Sequence[Subject], naming: Naming, unmasked: FoundMask | None = None
) -> list[Subject]:
    """Return subjects with names of their own, and the places of their results.

    An image is called like its file. Where several files have the same name, that of the person, or
    else of the site, comes first.

    Parameters
    ----------
    subjects : as they were listed.
    naming : what results are called.
    unmasked : the mask to find for subjects without one.

    Raises
    ------
    FileError : if two images would have the same name, apart from upper and lower case.
    """
    called = Counter(alike(stem(str(image))) for one in subjects for image in one.images.values())
    within = any(
        len({alike(stem(str(image))) for image in one.images.values()}) < len(one.images)
        for one in subjects
    )
    seen: dict[str, tuple[int, str, str]] = {}  # by name: which subject and channel, and its name
    found = []
    for place, subject in enumerate(subjects):
        outputs = {}
        for channel, image in subject.images.items():
            name = stem(str(image))
            if called[alike(name)] > (len(subject.images) if within else 1):
                name = "_".join(part for part in (subject.person or subject.site, name) if part)
            name = safe_name(f"{name}_{channel}" if within else name)
            other = seen.setdefault(alike(name), (place, channel, name))
            if other[:2] != (place, channel):
                like = subjects[other[0]].origin
                cause = f"{subject.origin}: the scan would be called {name}, like that of {like}"
                but = "" if other[2] == name else f" ({other[2]})"
                hint = "give them different subjects, or other file names"
                raise FileError(str(image), f"{cause}{but}", hint)
            outputs[channel] = naming.output(subject, str(image), name)
        found.append(replace(subject, mask=subject.mask or unmasked, outputs=outputs))
    return [replace(one, name=name) for one, name in zip(found, _names(found), strict=True)]


def _names(subjects: Sequence[Subject]) -> list[str]:
    """Return what subjects are called: like their only image; of several channels, like people."""
    people = [subject.name or subject.person or "" for subject in subjects]
    single = all(len(subject.images) == 1 for subject in subjects)
    if single or not all(people) or len({*map(alike, people)}) < len(people):
        return [subject.output.name for subject in subjects]
    return [*map(safe_name, people)]


def alike(name: str) -> str:
    """Return what names have in common that differ only in case or in how accents are encoded."""
    return normalize("NFC", normalize("NFC", name).casefold())


def kept_mask(name: str) -> str:
    """Return the file of a brain mask that a study finds, relative to its folder."""
    return f"masks/{name}.nii.gz"


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
        output = Output(name, cells.get("output", ""), cells.get("sidecar", ""), {})
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
