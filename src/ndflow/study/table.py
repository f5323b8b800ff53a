"""Tables of scans: one row per scan, with the names of the columns in the first row.

``image`` is required, or one column per channel, called like the channel; ``subject``, ``site``,
``mask``, ``lesion``, ``gm``, ``wm`` and ``csf`` are known, in upper or lower case. Any other
column, such as ``age``, is a covariate; but one that holds images was
probably meant to be used. Paths are relative to the table. An empty cell and
``n/a`` both mean that there is no value, and blanks around a value do not count.

``OUT/scans.tsv`` lists the images of a study in the same way, with more columns (`OURS`): the
``name`` of an image, and where its ``output`` and its ``sidecar`` are; where channels belong
together, also (`TOGETHER`) the ``channel``, and the name of the ``scan`` that they are of. A column
of the user's table with one of these names is not used, and `Listing.unused` says so.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unicodedata import normalize

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.outputs import safe_name, stem
from ndflow.files.stream import identity_of
from ndflow.files.tables import MISSING, read_delimited, refuse_rows, refuse_twice, table_bytes
from ndflow.image.mask import FoundMask, to_be_found
from ndflow.image.read import kind_of
from ndflow.image.subject import ANY_CHANNEL, Output, Subject, TissueMaps
from ndflow.values import first_of

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add
TOGETHER = ("channel", "scan")  # more of them, for several channels
_OTHER_MEANING = {*FILES, *TEXTS, *OURS} - {"image"}  # no names of channels
MANY = 30  # columns that are named to the user
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
OUR_NAME = "names of ours; rename them to keep them"

Cells = Mapping[str, str]  # of a row, by column, without those that have no value


@dataclass(frozen=True)
class Listing:
    """Subjects, and where they were listed.

    A scan that is listed twice would count twice in the reference, so the same file, however it is
    named, is refused. (Two files with the same content are noticed when they are read.) So are
    names of sites that differ only in case, or in how an accent is encoded: they are probably one
    site, and on many discs their references would be one file.

    Attributes
    ----------
    subjects : as they were listed.
    source : what messages call the list.
    root : the folder that the sources of results are relative to.
    table : the file of the list, or of the participants of a dataset, if there is one.
    unused : columns that are not used, and why not.
    skipped : how many images are not scans, by reason.
    warnings : for the user.
    images : which images of a BIDS dataset these are, in words.
    whole : the same with all channels, if this lists one of several.
    """

    subjects: Sequence[Subject]
    source: str
    root: Path
    table: str | None = None
    unused: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    images: str | None = None
    whole: Listing | None = None

    def __post_init__(self) -> None:
        """Refuse the same file twice, and sites that are called almost the same."""
        files: dict[Hashable, tuple[Subject, str]] = {}
        sites: dict[str, Subject] = {}
        for scan in self.subjects:
            for image in map(str, scan.images.values()):
                other, path = files.setdefault(identity_of(image), (scan, image))
                if path != image or other is not scan:
                    cause = f"{scan.origin} is the same file as {other.origin}, {path}"
                    raise FileError(image, cause, "list each scan once")
            other = sites.setdefault(alike(scan.site or ""), scan)
            if (other.site or "") != (scan.site or ""):
                cause = f"{scan.origin} has the site {scan.site!r}, {other.origin} {other.site!r}"
                hint = "write one site in one way, and let others differ in more than case"
                raise FileError(scan.path, cause, hint)

    def refuse_missing(self) -> None:
        """Refuse a table that names files that are not there."""
        named = [
            (column, files[0], scan.origin)
            for scan in self.subjects
            for column, files in scan.files(tissues=True).items()
        ]
        lost = [one for one in named if self.table and not os.path.lexists(one[1])]
        if self.table and lost:
            column, path, row = lost[0]
            count = f"{sum(one[0] == column for one in lost)} of {len(self.subjects)}"
            what = f"{column}s" if column in FILES[:2] else f"{column} files"
            cause = f"{count} {what} not found, such as {path} ({row})"
            raise FileError(self.table, cause, f"paths are relative to {self.root}")

    def alone(self, channel: str) -> Listing:
        """Return the same with one of several channels only."""
        subjects = [subject.alone(channel) for subject in self.subjects]
        return replace(self, subjects=subjects, source=f"{self.source} ({channel})", whole=self)


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
    for name in channels:
        if name.lower() in _OTHER_MEANING:
            words = f"--channels: the column {name!r} has another meaning"
            raise InvalidValueError(f"{words}; name columns of images")
    if len({name.lower() for name in channels}) < len(channels):
        raise InvalidValueError(f"--channels: {' '.join(channels)}: the same twice; leave one out")
    several = len(channels) > 1
    images = channels if several else ("image",)
    columns, rows = _read(path, images)
    shown = dict(zip(channels or (ANY_CHANNEL,), images, strict=True))
    taken = {"", *images, *taken_names(several=several)}
    root = Path(path).absolute().parent
    scans = [_scan(root, number, cells, shown, taken) for number, cells in rows]
    unused = {name: OUR_NAME for name in columns if name in taken - {"", *images, *FILES, *TEXTS}}
    if any("" in cells for _, cells in rows):
        unused["a column without a name"] = "name it in the first row to keep it"
    if several and "image" in columns:
        unused["image"] = "the channels have columns of their own"
    warnings = []
    for name in (one for one in columns if one not in taken):
        if any(is_image(cells[name]) for _, cells in rows if name in cells):
            unused[name] = "holds images"
            hint = f"rename it if it is one of {', '.join(FILES[1:])}"
            warnings.append(f"{path}: the column {name!r} holds images, but is not used; {hint}")
    return Listing(scans, str(path), root, str(path), unused, warnings=warnings)


def taken_names(*, several: bool) -> set[str]:
    """Return the columns of OUT/scans.tsv that are no covariates; `several` channels have more."""
    return {*FILES, *TEXTS, *OURS, *(TOGETHER if several else ())}


def _column_names(path: AnyPath, first: Sequence[str], images: Sequence[str]) -> list[str]:
    """Return the names of the columns; those that are known in lower case."""
    given = [name.strip() for name in first]
    names = [
        name.lower() if name not in images and name.lower() in (*FILES, *TEXTS) else name
        for name in given
    ]
    for image in images:
        if image not in names:
            hint = "name the column of images so, or those of several channels with --channels"
            columns = first_of([*filter(None, given)], MANY) or "none"
            cause = f"row 1 names no column {image!r} (its columns: {columns})"
            raise FileError(path, cause, hint)
    refuse_twice(path, names)
    return names


def is_image(cell: str) -> bool:
    """Tell whether a cell is the name of an image."""
    return kind_of(cell) in _IMAGES


def _read(
    path: AnyPath, images: Sequence[str] = ("image",)
) -> tuple[list[str], list[tuple[int, Cells]]]:
    """Return the columns of a table, and the number and cells of each row."""
    table = read_delimited(path)
    columns = _column_names(path, table.columns, images)
    rows: list[tuple[int, Cells]] = []
    faults: list[str] = []
    for number, raw in table.rows:
        given = zip(columns, map(str.strip, raw), strict=True)
        cells = {name: cell for name, cell in given if cell.lower() not in MISSING}
        faults += [f"row {number} names no {image}" for image in images if image not in cells]
        for name in FILES[1:]:
            if name in cells and not is_image(cells[name]):
                faults.append(f"row {number} has the {name} {cells[name]!r}, which is no image")
        rows.append((number, cells))
    refuse_rows(path, faults)
    if not rows:
        raise FileError(path, "a table without scans", "add one row per scan below the header")
    return columns, rows


def _scan(
    root: Path, number: int, cells: Cells, shown: Mapping[str, str], taken: set[str]
) -> Subject:
    """Return the scan of a row; `shown` names the columns of its channels."""
    files = {name: str(root / cells[name]) for name in (*shown.values(), *FILES) if name in cells}
    return Subject(
        {channel: files[column] for channel, column in shown.items()},
        files.get("mask"),
        files.get("lesion"),
        TissueMaps(files.get("csf"), files.get("gm"), files.get("wm")),
        person=cells.get("subject"),
        site=cells.get("site"),
        origin=f"row {number}",
        covariates={name: cell for name, cell in cells.items() if name not in taken},
    )


# ── names of results ──────────────────────────────────────────────────────────────────────────────
# Plain results are ``OUT/images/<name>.nii.gz`` with sidecars ``OUT/maps/<name>.json``; those of a
# BIDS dataset have the names of a BIDS derivative, with sidecars beside the images.


# Where the result of an image goes, given its subject, its file, and its name among others.
Naming = Callable[[Subject, str, str], Output]


def plain_names(_: Subject, __: str, name: str) -> Output:
    """Return where the result of an image goes: in a folder of images, and one of sidecars."""
    return Output(name, f"images/{name}.nii.gz", f"maps/{name}.json", {})


def named(
    subjects: Sequence[Subject], naming: Naming = plain_names, unmasked: FoundMask | None = None
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
    seen: dict[str, Subject] = {}  # by name
    found = []
    for subject in subjects:
        outputs = {}
        for channel, image in subject.images.items():
            name = stem(str(image))
            if called[alike(name)] > (len(subject.images) if within else 1):
                name = "_".join(part for part in (subject.person or subject.site, name) if part)
            name = safe_name(f"{name}_{channel}" if within else name)
            if other := seen.get(alike(name)):
                like = f"like that of {other.origin} ({other.path})"
                cause = f"{subject.origin}: the scan would be called {name}, {like}"
                hint = "give them different subjects, or other file names"
                raise FileError(str(image), cause, hint)
            seen[alike(name)] = subject
            outputs[channel] = naming(subject, str(image), name)
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


def study_scans(folder: Path, scans: Sequence[Subject], within: Path | None = None) -> bytes:
    """Return the list of the images of a study in a folder.

    Files in that folder, or in `within`, are relative to it.
    """
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
            files = [_relative(file, folder, within or folder) for file in (image, *masks)]
            covariates = [scan.covariates.get(name) for name in more]
            rows.append((*known, scan.person, scan.site, *files, *covariates))
    columns = (*own, "subject", "site", "image", "mask", "lesion", "gm", "wm", "csf", *more)
    return table_bytes(columns, rows)


def read_study_scans(path: Path, channels: Sequence[str] = ()) -> list[Subject]:
    """Read the list of a study's images; `channels` is what they show, as its record says."""
    _, rows = _read(path)
    scans: dict[str, Subject] = {}
    together = len(channels) > 1
    taken = {"", *taken_names(several=together)}
    for number, cells in rows:
        name, channel = cells.get("name", ""), (*channels, ANY_CHANNEL)[0]
        called = cells.get("scan", name) if together else name
        channel = cells.get("channel", channel) if together else channel
        one = _scan(path.absolute().parent, number, cells, {channel: "image"}, taken)
        outputs = {channel: Output(name, cells.get("output", ""), cells.get("sidecar", ""), {})}
        images = one.images
        if whole := scans.get(called):
            images, outputs = {**whole.images, **images}, {**whole.outputs, **outputs}
        scans[called] = replace(one, images=images, name=called, outputs=outputs)
    return list(scans.values())


def _relative(source: object, folder: Path, within: Path) -> str | None:
    """Return the name of a file; relative, if it belongs to the results and moves with them."""
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    inside = path.is_relative_to(within)
    return Path(os.path.relpath(path, folder)).as_posix() if inside else str(path)
