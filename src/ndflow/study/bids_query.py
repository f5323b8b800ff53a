"""The subjects of a BIDS dataset, with their sites, masks and tissue probability maps.

Images are looked for only in ``sub-*/[ses-*/]<datatype>/``: not in ``derivatives``, ``sourcedata``,
hidden folders or nested datasets. A symbolic link to a folder is followed, once, unless it points
to a folder that is searched anyway. Links to files are not resolved: a scan that was not fetched
(git-annex, DataLad) is listed, and opening it raises an error that says so.

An image whose name is not made of ``key-label`` pairs, or belongs in another folder, is an error: a
scan that is left out silently might not be missed in time.

Brain masks are called ``…_desc-brain_mask.nii.gz``, tissue probability maps
``…_label-GM_probseg.nii.gz`` (CSF, GM and WM); the many names of lesion masks are below. Such a
file fits an image if all its other entities are entities of the image too, and it lies in the same
space.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.tables import MISSING, read_delimited, refuse_rows
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study import bids_names
from ndflow.study.bids_names import DESCRIPTION, IMAGES, Entities, Filter, entities_of, natural
from ndflow.study.table import Listing, nearest, taken_names
from ndflow.values import listed

_VALIDATOR = "for details, run the BIDS validator: bids-validator-deno"
_NOT_DATATYPES = ("code", "derivatives", "sourcedata")
_MAX_LISTED = 10  # labels in one message
_NAMED = 5  # subjects that are left out, in warnings
_TAKEN_MEANING = "means something else in the list of scans; rename to keep"


@dataclass(frozen=True)
class Dataset:
    """A BIDS dataset, and what of it is asked for.

    Attributes
    ----------
    path : its folder.
    suffixes : of the images, such as T1w.
    participants, sessions : labels, with or without ``sub-`` and ``ses-``; all, if there are none.
    filter_file : which images to take, see `ndflow.study.bids_names.read_filters`.
    site_column : names the sites in its tables; by default ``site``, ``centre``, ``center`` or
        ``site_id``.
    derivatives : folders with masks, lesion masks and tissue probability maps, by name; the first
        that has them is taken. For a scan without a mask of its own, the mask of all runs or all
        sessions is taken. Where these folders hold no mask, a mask beside the image is taken if all
        its entities are the same; so is a lesion mask.
    """

    path: str
    suffixes: Sequence[str] = ("T1w",)
    participants: Sequence[str] = ()
    sessions: Sequence[str] = ()
    filter_file: str | None = None
    site_column: str | None = None
    derivatives: Mapping[str, Path] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder of the dataset."""
        return Path(self.path).absolute()


class _Image(NamedTuple):
    """An image of a dataset.

    Attributes
    ----------
    subject : the image by itself, with all that is known about it.
    entities : of its name, in order, for example ``{"sub": "01", "run": "1"}``.
    strays : lesion masks where its own was looked for, none of which fits it.
    """

    subject: Subject
    entities: Entities
    strays: Sequence[str]

    def called(self, *keys: str) -> str:
        """Return its name, or the part of it with some entities."""
        own = {key: self.entities[key] for key in keys or self.entities if key in self.entities}
        return "_".join(f"{key}-{label}" for key, label in own.items() if keys or key != "desc")


# ── subjects ──────────────────────────────────────────────────────────────────────────────────────

Row = Mapping[str, _Image]  # the images of a visit, by channel


def read_dataset(dataset: Dataset, *, joint: bool, masks_needed: bool) -> dict[str, Listing]:
    """Find the subjects of a dataset, in the natural order of their names (2 comes before 10).

    Parameters
    ----------
    dataset : where to look, and for what.
    joint : whether the images of all suffixes belong together, or are listed one by one.
    masks_needed : whether derivatives that are given must have a mask for each.

    Returns
    -------
    listings : by suffix; of all together under ``""``.

    Raises
    ------
    FileError : if it is not a BIDS dataset, or has no such scans, or its names, tables or masks are
        invalid or ambiguous.
    InvalidValueError : if a label or a suffix is not alphanumeric.
    """
    names = [bids_names.check_label("suffix", name) for name in dataset.suffixes]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--suffix: {' '.join(names)}: the same twice; leave one out")
    filters: dict[str, Filter] = {}
    hints = []
    if dataset.filter_file:
        filters, unused = bids_names.read_filters(dataset.filter_file, names)
        if unused:
            text = f"queries for other images are not used: {', '.join(unused)}"
            hints = [f"{dataset.filter_file}: {text}"]
    found = {name: _find(dataset, name, filters.get(name)) for name in names}
    if joint:
        rows, left_out = _visits(found)
        if not rows:
            name, why = next(iter(left_out.items()))
            cause = f"no subject has all of {listed(names)}; {name}, for example, {why}"
            raise FileError(dataset.path, cause, "give other suffixes, or leave out --joint")
        out = [f"{dataset.path}: {name} {why}; left out" for name, why in left_out.items()]
        more = [f"{dataset.path}: {len(out) - _NAMED} more left out"] if len(out) > _NAMED else []
        whole = _listing(dataset, rows, masks_needed, [*hints, *out[:_NAMED], *more])
        skipped = Counter(f"that {why}" for why in left_out.values())
        source = f"{dataset.path} ({listed(names)} together)"
        return {"": replace(whole, source=source, skipped=skipped)}
    listings: dict[str, Listing] = {}
    for name, images in found.items():
        rows = {one.subject.origin: {name: one} for one in images}
        listings[name] = _listing(dataset, rows, masks_needed, [] if listings else hints)
        if len(names) > 1:
            listings[name] = replace(listings[name], source=f"{dataset.path} ({name})")
    return listings


def _visits(found: Mapping[str, Sequence[_Image]]) -> tuple[dict[str, Row], dict[str, str]]:
    """Return the images of each subject and session that belong together, and who lacks some.

    A visit with one image of each channel is a row. Where there are several of some, those belong
    together whose names differ in nothing but the suffix.
    """
    visits: dict[str, dict[str, list[_Image]]] = {}
    for channel, images in found.items():
        for image in images:
            visit = visits.setdefault(image.called("sub", "ses"), {})
            visit.setdefault(channel, []).append(image)
    rows: dict[str, Row] = {}
    left_out = {}
    for name in sorted(visits, key=natural):
        visit = visits[name]
        if missing := [channel for channel in found if channel not in visit]:
            left_out[name] = f"has no {' and no '.join(missing)}"
            continue
        single = all(len(images) == 1 for images in visit.values())
        alike: dict[str, dict[str, _Image]] = {}
        for channel in found:
            for image in visit[channel]:
                alike.setdefault(name if single else image.called(), {})[channel] = image
        for shared, row in alike.items():
            if len(row) == len(found):
                rows[shared] = row
                continue
            for image in row.values():
                left_out[image.subject.origin] = "fits no image of each other channel by its name"
    return rows, left_out


def _listing(
    dataset: Dataset, rows: Mapping[str, Row], masks_needed: bool, hints: Sequence[str]
) -> Listing:
    """Return the subjects in some rows of images."""
    several = any(len(row) > 1 for row in rows.values())
    whole = [_together(name, [one.subject for one in row.values()]) for name, row in rows.items()]
    if masks_needed:
        _refuse_lacking_masks(whole, dataset.derivatives)
    images = [one for row in rows.values() for one in row.values()]
    ours = taken_names(several=several)
    given = {name for one in images for name in one.subject.covariates}
    return Listing(
        [replace(one, covariates=_without(one.covariates, ours)) for one in whole],
        dataset.path,
        dataset.root,
        unused=dict.fromkeys(sorted(n for n in given if n.lower() in ours), _TAKEN_MEANING),
        warnings=[*_site_hints(whole, given, dataset), *hints, *_unused_masks(images, dataset)],
    )


def _without(cells: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: cell for name, cell in cells.items() if name.lower() not in names}


def _together(name: str, channels: Sequence[Subject]) -> Subject:
    """Return the images of a visit as one subject, with the masks that any of them has."""
    return replace(
        channels[0],
        images={channel: image for one in channels for channel, image in one.images.items()},
        mask=next((one.mask for one in channels if one.mask), None),
        lesion=next((one.lesion for one in channels if one.lesion), None),
        tissues=next((one.tissues for one in channels if any(one.tissues)), TissueMaps()),
        name=name if len(channels) > 1 else "",
    )


def _unused_masks(found: Sequence[_Image], dataset: Dataset) -> list[str]:
    """Return warnings about derivatives that give no file, and lesion masks that fit no scan."""
    subjects = [one.subject for one in found]
    files = [str(f) for one in subjects for f in (one.mask, one.lesion, *one.tissues) if f]
    unused = [
        f"{folder}: no mask or tissue probability map of these scans is taken from it"
        for folder in dataset.derivatives.values()
        if not any(Path(file).is_relative_to(folder) for file in files)
    ]
    others = dict.fromkeys(file for one in found for file in one.strays if file not in files)
    if others:
        what = "a lesion mask whose name matches"
        if len(others) > 1:
            what = f"the first of {len(others)} lesion masks whose names match"
        unused.append(
            f"{next(iter(others))}: {what} none of these scans; name it like the scan that it was "
            f"drawn on, as in sub-01_run-1_label-lesion_mask.nii.gz"
        )
    return unused


def _refuse_lacking_masks(found: Sequence[Subject], derivatives: Mapping[str, Path]) -> None:
    """Refuse scans without a mask where derivatives should have them.

    Folders that gave lesion masks and not a single brain mask were given for these alone.
    """

    def derived(files: Iterable[object]) -> bool:
        paths = [Path(str(file)) for file in files if file]
        return any(path.is_relative_to(at) for path in paths for at in derivatives.values())

    unmasked = [scan.origin for scan in found if scan.mask is None]
    masks, lesions = (scan.mask for scan in found), (scan.lesion for scan in found)
    if derivatives and unmasked and (derived(masks) or not derived(lesions)):
        cause = f"no mask for {len(unmasked)} of {len(found)} scans, such as {unmasked[0]}"
        hint = "add --mask brain, or --mask auto, to find them"
        raise FileError(next(iter(derivatives.values())), cause, hint)


def _site_hints(found: Sequence[Subject], columns: Iterable[str], dataset: Dataset) -> list[str]:
    """Return columns that may name the sites, where no scan has a site."""
    if dataset.site_column or any(one.site for one in found):
        return []
    return [
        f"{dataset.root / 'participants.tsv'}: no site is known, but there is a column {name!r}; "
        f"if it names the sites, use --site-column {name}"
        for name in sorted(columns)
        if nearest(name) == "site"
    ]


def named_derivatives(given: Iterable[str]) -> dict[str, Path]:
    """Return derivatives folders by their names.

    Parameters
    ----------
    given : each ``NAME=PATH``, or a path, whose last part then is the name.

    Raises
    ------
    InvalidValueError : if a name is taken, or a path is empty.

    Examples
    --------
    >>> list(named_derivatives(["prep=/data/fmriprep-24", "synthstrip"]))
    ['prep', 'synthstrip']
    """
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (equals and re.fullmatch(r"[\w.+-]+", name, re.ASCII)) or Path(text).is_dir():
            path, name = text, re.sub(r"[^\w.+-]", "-", Path(text).absolute().name, flags=re.ASCII)
        if not path:
            raise InvalidValueError(f"--derivatives {text!r} names no folder; give NAME=PATH")
        if name in (bids_names.RAW, *folders):
            cause = "is given twice" if name in folders else "names the dataset itself"
            raise InvalidValueError(
                f"--derivatives: {name!r} {cause}; choose another name, as in NAME=PATH"
            )
        folders[name] = Path(path).absolute()
    return folders


# ── images ────────────────────────────────────────────────────────────────────────────────────────


def _find(dataset: Dataset, suffix: str, chosen: Filter | None) -> list[_Image]:
    """Return the images of a dataset with a suffix, at least one; those that are chosen, or all."""
    root, derived = dataset.root, [*dataset.derivatives.values()]
    participants = bids_names.labels_of("participant", "sub-", dataset.participants)
    sessions = bids_names.labels_of("session", "ses-", dataset.sessions)
    tree = _Tree(root)
    for folder in derived:
        if not any(bids_names.is_labelled(name, "sub-") for name in _names(folder)):
            cause = "holds no folders sub-…, and so no masks"
            hint = "give the folder of one pipeline, for example derivatives/fmriprep"
            raise FileError(folder, cause if folder.is_dir() else "no such folder", hint)
    tables = _Tables(root, dataset.site_column)
    images: list[_Image] = []
    suffixes: set[str] = set()
    for place in _places(tree, participants, sessions):
        names = [name for name in tree.listing(place.folder)[1] if name.endswith(IMAGES)]
        suffixes.update(map(bids_names.suffix_of, names))
        found = _scans(root / place.folder, place, names, suffix, chosen)
        shelves = _shelves(derived, place) if found else []
        shelves.append(_Shelf(root / place.folder, names, exactly=True))
        site, more = tables.about(place.subject, place.session) if found else (None, {})
        for name, entities in found.items():
            relative = f"{place.folder}/{name}"
            subject = Subject(
                {suffix: str(root / relative)},
                _first(shelves, entities, _ending("_desc-brain_mask")),
                _first(shelves, entities, lambda name: lesion_entities(name, suffix)),
                person=f"sub-{place.subject}",
                site=site,
                origin=relative,
                covariates=more,
            )
            subject = replace(subject, tissues=_tissues(shelves, entities, subject.mask))
            strays = [
                str(shelf.folder / one)
                for shelf in shelves
                for one in shelf.names
                if subject.lesion is None and lesion_entities(one, suffix)
            ]
            images.append(_Image(subject, entities, strays))
    if not images and chosen is not None and suffix in suffixes:
        cause = f"the query {chosen.name!r} fits none of the {suffix} images"
        raise FileError(chosen.path, cause, "correct it; null stands for an entity that is absent")
    if not images:
        others = ", ".join(sorted(suffixes - {suffix}))
        hint = "check that it is the right folder, and that it was fetched"
        hint = f"there are {others} images; choose with --suffix" if others else hint
        cause = f"no scans sub-…_{suffix}.nii[.gz] in sub-*/[ses-*/]<datatype>/"
        raise FileError(root, cause, hint)
    tables.check()
    return sorted(images, key=lambda image: natural(image.subject.origin))


class _Place(NamedTuple):
    """A folder, and the subject and session that it belongs to."""

    subject: str
    session: str | None
    folder: str


class _Tree:
    """The folders of a dataset that are searched."""

    def __init__(self, root: Path) -> None:
        if not os.path.lexists(root / DESCRIPTION):
            cause = f"not a BIDS dataset: there is no {DESCRIPTION}"
            hint = "give the folder of a BIDS dataset, with the sub-… folders in it"
            raise FileError(root, cause if root.is_dir() else "no such folder", hint)
        self.root = root
        self._real = os.path.realpath(root)
        self._followed: dict[str, str] = {}

    def listing(self, relative: str) -> tuple[list[str], list[str]]:
        """Return the folders in a folder that may be searched, and the files."""
        folders, files = [], []
        for name in _names(self.root / relative):
            path = self.root / relative / name
            if name.startswith("."):
                continue
            # No folder of BIDS has a dot in its name, so links to files need not be resolved.
            if "." in name or not os.path.isdir(path):  # noqa: PTH112  (not an error)
                files.append(name)
            elif not path.is_symlink() or self._leads_elsewhere(str(path)):
                folders.append(name)
        nested_dataset = relative and DESCRIPTION in files
        return ([], []) if nested_dataset else (folders, files)

    def _leads_elsewhere(self, link: str) -> bool:
        """Return whether a link points to a folder that is not searched otherwise."""
        real = os.path.realpath(link)
        if os.path.relpath(real, self._real).startswith("sub-"):
            return False
        return self._followed.setdefault(real, link) == link


def _names(folder: Path) -> list[str]:
    """Return what lies in a folder, which need not exist."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  (only names are needed)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"cannot be listed ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None


def _places(tree: _Tree, participants: set[str], sessions: set[str]) -> Iterator[_Place]:
    """Yield the datatype folders of the given participants and sessions, or of all."""

    def labelled(folder: str, prefix: str) -> list[str]:
        folders, _ = tree.listing(folder)
        return [name[4:] for name in folders if bids_names.is_labelled(name, prefix)]

    subjects = labelled("", "sub-")
    _check_known(tree.root, "participant", participants, subjects)
    visits: list[_Place] = []
    for subject in subjects:
        if not participants or subject in participants:
            home = f"sub-{subject}"
            visits.append(_Place(subject, None, home))
            visits += [_Place(subject, s, f"{home}/ses-{s}") for s in labelled(home, "ses-")]
    _check_known(tree.root, "session", sessions, {visit.session for visit in visits})
    for visit in visits:
        if not sessions or visit.session in sessions:
            for name in tree.listing(visit.folder)[0]:
                if name.isalpha() and name.islower() and name not in _NOT_DATATYPES:
                    yield visit._replace(folder=f"{visit.folder}/{name}")


def _check_known(root: Path, what: str, named: set[str], known: Collection[str | None]) -> None:
    if missing := sorted(named.difference(known), key=natural):
        there = sorted(filter(None, known), key=natural)
        more = f" and {len(there) - _MAX_LISTED} more" if len(there) > _MAX_LISTED else ""
        hint = f"there are {', '.join(there[:_MAX_LISTED]) or f'no {what}s'}{more}"
        raise FileError(root, f"no {what} {', '.join(missing[:_MAX_LISTED])}", hint)


def _scans(
    folder: Path, place: _Place, names: Sequence[str], suffix: str, chosen: Filter | None
) -> dict[str, Entities]:
    """Return the images that are scans, one for each acquisition, with their entities.

    If there are images of a scan both without and with ``desc-…``, the one without is taken.
    """
    scans: dict[frozenset[tuple[str, str]], tuple[str, Entities]] = {}
    for name in sorted(names, key=lambda name: "_desc-" in name):
        if bids_names.suffix_of(name) != suffix:
            continue
        entities = entities_of(name)
        if entities is None or not name.endswith(tuple(f"_{suffix}{kind}" for kind in IMAGES)):
            cause = f"its name is not made of key-label pairs, as in sub-01_run-1_{suffix}.nii.gz"
            raise FileError(folder / name, cause, f"rename it; {_VALIDATOR}")
        if (entities["sub"], entities.get("ses")) != (place.subject, place.session):
            cause = f"its name does not belong in the folder {place.folder}"
            raise FileError(folder / name, cause, f"rename or move it; {_VALIDATOR}")
        if entities.get("desc") == bids_names.OURS:
            continue
        if chosen is not None and not chosen.accepts(folder.name, name, entities):
            continue
        acquisition = frozenset(bids_names.without_desc(entities).items())
        other, others = scans.setdefault(acquisition, (name, entities))
        if other != name and ("desc" in others) == ("desc" in entities):
            cause = f"by its name, the same scan as {other}"
            raise FileError(folder / name, cause, "keep one of them in the dataset")
    return dict(scans.values())


# ── sites and covariates ──────────────────────────────────────────────────────────────────────────
# ``participants.tsv`` has one row per subject, ``sub-01/sub-01_sessions.tsv`` one per session. The
# site of a session takes precedence, and so do its other columns, such as the age at that session;
# where they are ``n/a``, those of the subject hold.

_USUAL = ("site", "centre", "center", "site_id")


class _Tables:
    """The tables of a dataset; `column` is that with the sites."""

    def __init__(self, root: Path, column: str | None) -> None:
        self._root, self._column = root, column
        self._columns: dict[str, None] = {}  # of all tables, in order
        self._rows: dict[Path, dict[str, tuple[list[str], dict[str, str]]]] = {}

    def about(self, subject: str, session: str | None) -> tuple[str | None, dict[str, str]]:
        """Return the site of a session or else of its subject, if known, and the other columns."""
        visits = self._root / f"sub-{subject}" / f"sub-{subject}_sessions.tsv"
        tables = [(visits, "session_id", session), (self._participants, "participant_id", subject)]
        site: str | None = None
        more: dict[str, str] = {}
        for table, key, label in tables:
            if label is None:
                continue
            if table not in self._rows:
                self._rows[table] = self._read(table, key)
            sites, others = self._rows[table].get(label, ([], {}))
            if site is None and len(sites) > 1:
                cause = f"{label} has two sites, {sites[0]} and {sites[1]}"
                hint = "name the site of each session in sub-…_sessions.tsv, once"
                raise FileError(table, cause, hint)
            site = site or next(iter(sites), None)
            more = others | more
        return site, more

    @property
    def _participants(self) -> Path:
        return self._root / "participants.tsv"

    def check(self) -> None:
        """Raise a FileError if none of the tables read so far has the column that was asked for."""
        if self._column is not None and self._column not in self._columns:
            names = ", ".join(self._columns)
            there = f"its columns: {names}" if names else "there is no table"
            cause = f"no column {self._column!r} ({there})"
            raise FileError(self._participants, cause, "name another with --site-column")

    def _read(self, table: Path, key: str) -> dict[str, tuple[list[str], dict[str, str]]]:
        """Return the sites and other cells that a table, which need not exist, has by label."""
        if not os.path.lexists(table):
            return {}
        header, rows = read_delimited(table, delimiter="\t")
        columns = [name.strip() for name in header]
        self._columns.update(dict.fromkeys(columns))
        if key not in columns:
            cause = f"no column {key!r} (its columns: {', '.join(columns) or 'none'})"
            raise FileError(table, cause, f"separate the columns by tabs; {_VALIDATOR}")
        usual = (name for word in _USUAL for name in columns if name.lower() == word)
        of_site = self._column or next(usual, None)
        found: dict[str, tuple[list[str], dict[str, str]]] = {}
        faults = []
        for number, row in rows:
            cells = dict(zip(columns, map(str.strip, row), strict=True))
            label = cells[key].removeprefix("sub-" if key == "participant_id" else "ses-")
            if label.lower() in MISSING:
                faults.append(f"row {number} has no {key}")
            sites, more = found.setdefault(label, ([], {}))
            for name, cell in cells.items():
                if name in ("", key) or cell.lower() in MISSING:
                    continue
                if name == of_site:
                    sites += [cell] if cell not in sites else []
                elif more.setdefault(name, cell) != cell:
                    faults.append(f"row {number} gives {cells[key]} another {name}")
        refuse_rows(table, faults)
        return found


# ── masks and tissue maps ─────────────────────────────────────────────────────────────────────────

_GRID = ("space", "cohort", "res")  # these must be the same, or both absent

Kind = Callable[[str], Entities | None]  # the entities of files of a kind; None of all others


class _Shelf(NamedTuple):
    """A folder in which masks of an image may be.

    Attributes
    ----------
    folder, names : the folder, and what is in it.
    exactly : whether a mask must have all entities of the image.
    """

    folder: Path
    names: Sequence[str]
    exactly: bool = False

    def fitting(self, image: Entities, kind: Kind) -> str | None:
        """Return the file of a kind for an image: of those that fit, that with most entities.

        Raises
        ------
        FileError : if several files fit equally well.
        """
        wanted = _acquired(image)
        fitting: dict[str, int] = {}
        for name in self.names:
            own = _acquired(kind(name) or {})
            same_grid = all(own.get(key) == wanted.get(key) for key in _GRID)
            fits = own == wanted if self.exactly else own.items() <= wanted.items()
            if own and same_grid and fits:
                fitting[name] = len(own)
        best = sorted(name for name, length in fitting.items() if length == max(fitting.values()))
        if len(best) > 1:
            cause = f"fits the same scan as {best[1]}"
            raise FileError(self.folder / best[0], cause, "remove one of the two")
        return str(self.folder / best[0]) if best else None


def _shelves(derivatives: Iterable[Path], place: _Place) -> list[_Shelf]:
    """Return where masks of a folder of images are in derivatives: beside them, or of a subject."""
    subject, *_, datatype = place.folder.split("/")
    places = (place.folder, f"{subject}/{datatype}")
    folders = dict.fromkeys(root / one for root in derivatives for one in places)
    return [_Shelf(folder, _names(folder)) for folder in folders]


def _tissues(shelves: Sequence[_Shelf], image: Entities, mask: object) -> TissueMaps:
    """Return the tissue maps of an image, from the first shelf that has any."""
    for shelf in shelves:  # maps beside the image belong to a mask there
        if not shelf.exactly or (mask and Path(str(mask)).parent == shelf.folder):
            kinds = (_ending(f"_label-{t.upper()}_probseg") for t in TissueMaps._fields)
            found = TissueMaps(*(shelf.fitting(image, kind) for kind in kinds))
            if any(found):
                return found
    return TissueMaps()


def _first(shelves: Sequence[_Shelf], image: Entities, kind: Kind) -> str | None:
    return next(filter(None, (shelf.fitting(image, kind) for shelf in shelves)), None)


def _ending(ending: str) -> Kind:
    """Return what finds the entities of images whose names end in this way."""
    endings = tuple(ending + kind for kind in IMAGES)
    return lambda name: entities_of(name) if name.endswith(endings) else None


def _acquired(entities: Entities) -> Entities:
    """Return entities without those that say how an image was processed, or what it shows."""
    return {key: label for key, label in entities.items() if key not in ("desc", "label")}


# ── lesion masks ──────────────────────────────────────────────────────────────────────────────────
# BIDS has changed what they are called, and people call them what their tools want, so all of these
# are lesion masks of ``sub-01_T1w``:
#
#     sub-01_label-lesion_mask   sub-01_desc-lesion_mask   sub-01_desc-T1lesion_mask
#     sub-01_label-lesion_roi    sub-01_lesion_roi         sub-01_roi
#     sub-01_T1w_label-lesion_roi                          sub-01_T1w_lesion_mask
#
# A region of interest with another label (``label-hippocampus_roi``) is not, nor are those of what
# is around a lesion (``desc-perilesion_mask``), or of another image
# (``sub-01_FLAIR_label-lesion_roi``, ``sub-01_desc-FLAIRlesion_mask``). The other entities decide
# which scan it is of, as those of brain masks do.

_LESION = "lesion"


def lesion_entities(name: str, suffix: str) -> Entities | None:
    """Return the entities of a lesion mask; None for other files, and masks of other images.

    Parameters
    ----------
    name : of the file.
    suffix : the kind of images that it should be of, such as ``T1w``.

    Examples
    --------
    >>> lesion_entities("sub-01_run-1_T1w_label-lesion_roi.nii.gz", "T1w")
    {'sub': '01', 'run': '1', 'label': 'lesion'}
    >>> lesion_entities("sub-01_desc-brain_mask.nii.gz", "T1w") is None
    True
    """
    *parts, kind = name.partition(".")[0].split("_")
    entities, words = bids_names.pairs_of(parts)
    other = entities.pop("mod", suffix) != suffix or not {*words} <= {suffix, _LESION}
    if not name.endswith(IMAGES) or kind not in ("mask", "roi") or "sub" not in entities or other:
        return None
    label, desc = (entities.get(key, "").lower() for key in ("label", "desc"))
    described = {f"{word}{_LESION}" for word in ("", suffix.lower(), suffix.lower().rstrip("w"))}
    says = _LESION in words or label == _LESION or desc in described
    silent = kind == "roi" and not label and not desc
    return entities if says or silent else None
