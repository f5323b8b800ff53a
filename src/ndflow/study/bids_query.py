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
from typing import Any, NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.bids_names import (
    DESCRIPTION,
    IMAGES,
    OURS,
    RAW,
    VALIDATOR,
    Entities,
    Filter,
    check_label,
    entities_of,
    is_labelled,
    labels_of,
    natural,
    pairs_of,
    read_filters,
    suffix_of,
    without_desc,
)
from ndflow.study.bids_sites import Sites
from ndflow.study.listing import Listing
from ndflow.study.table import nearest, taken_names
from ndflow.values import listed

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
    participants, sessions : labels; all, if there are none.
    filter_file : which images to take, see `ndflow.study.bids_names.read_filters`.
    site_column : names the sites in its tables.
    derivatives : folders with masks and tissue probability maps, by name.
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


@dataclass(frozen=True)
class BidsImage:
    """One scan of a dataset.

    Attributes
    ----------
    image : its file.
    relative : its path relative to the dataset, with ``/``.
    entities : the entities of its name, in order, for example ``{"sub": "01", "run": "1"}``.
    site : where it was acquired, if known.
    more : the other columns of ``participants.tsv`` for its subject, such as age; those of
        ``sub-*_sessions.tsv`` for its session take precedence.
    mask, lesion : the files of its brain mask and its lesion mask, if there are any.
    other_lesions : lesion masks where its own was looked for, none of which fits it.
    tissues : the files of its tissue probability maps, by tissue.
    """

    image: str
    relative: str
    entities: Entities
    site: str | None
    more: Mapping[str, str]
    mask: str | None
    lesion: str | None
    other_lesions: Sequence[str]
    tissues: Mapping[str, str]

    @property
    def files(self) -> list[str]:
        """All masks and tissue probability maps."""
        return [file for file in (self.mask, self.lesion, *self.tissues.values()) if file]


# ── subjects ──────────────────────────────────────────────────────────────────────────────────────

Rows = Mapping[str, Mapping[str, BidsImage]]  # by the name of the visit, then by channel


def read_dataset(dataset: Dataset, *, joint: bool, masks_needed: bool) -> dict[str, Listing]:
    """Find the subjects of a dataset.

    Parameters
    ----------
    dataset : where to look, and for what.
    joint : whether the images of all suffixes belong together, or are listed one by one.
    masks_needed : whether derivatives that are given must have a mask for each.

    Returns
    -------
    listings : by suffix; of all together under ``""``.
    """
    names = [check_label("suffix", name) for name in dataset.suffixes]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--suffix: {' '.join(names)}: the same twice; leave one out")
    filters = dataset.filter_file and read_filters(dataset.filter_file, names)
    hints = []
    if filters and filters.unused:
        unused = ", ".join(filters.unused)
        hints = [f"{dataset.filter_file}: queries for other images are not used: {unused}"]
    found = {
        name: find_scans(
            dataset.path,
            suffix=name,
            participants=dataset.participants,
            sessions=dataset.sessions,
            site_column=dataset.site_column,
            derivatives=dataset.derivatives.values(),
            chosen=filters.of[name] if filters else None,
        )
        for name in names
    }
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
        rows = {one.relative: {name: one} for one in images}
        listings[name] = _listing(dataset, rows, masks_needed, [] if listings else hints)
        if len(names) > 1:
            listings[name] = replace(listings[name], source=f"{dataset.path} ({name})")
    return listings


def _visits(
    found: Mapping[str, Sequence[BidsImage]],
) -> tuple[dict[str, dict[str, BidsImage]], dict[str, str]]:
    """Return the images of each subject and session that belong together, and who lacks some.

    A visit with one image of each channel is a row. Where there are several of some, those belong
    together whose names differ in nothing but the suffix.
    """
    visits: dict[str, dict[str, list[BidsImage]]] = {}
    for channel, images in found.items():
        for image in images:
            own = {key: label for key, label in image.entities.items() if key in ("sub", "ses")}
            visits.setdefault(_called(own), {}).setdefault(channel, []).append(image)
    rows: dict[str, dict[str, BidsImage]] = {}
    left_out = {}
    for name in sorted(visits, key=natural):
        visit = visits[name]
        if missing := [channel for channel in found if channel not in visit]:
            left_out[name] = f"has no {' and no '.join(missing)}"
        elif all(len(images) == 1 for images in visit.values()):
            rows[name] = {channel: visit[channel][0] for channel in found}
        else:
            alike: dict[str, dict[str, BidsImage]] = {}
            for channel in found:
                for image in visit[channel]:
                    alike.setdefault(_called(without_desc(image.entities)), {})[channel] = image
            for shared, row in alike.items():
                if len(row) == len(found):
                    rows[shared] = row
                    continue
                for image in row.values():
                    left_out[image.relative] = "fits no image of each other channel by its name"
    return rows, left_out


def _called(entities: Entities) -> str:
    return "_".join(f"{key}-{label}" for key, label in entities.items())


def _listing(dataset: Dataset, rows: Rows, masks_needed: bool, hints: Sequence[str]) -> Listing:
    """Return the subjects in some rows of images."""
    images = [one for row in rows.values() for one in row.values()]
    first = [_with_masks([*row.values()]) for row in rows.values()]
    if masks_needed:
        _refuse_lacking_masks(first, dataset.derivatives)
    subjects = [
        _subject(name, row, one) for (name, row), one in zip(rows.items(), first, strict=True)
    ]
    ours = taken_names(several=len(images) > len(rows))
    taken = sorted({name for one in images for name in one.more if name.lower() in ours})
    return Listing(
        subjects,
        dataset.path,
        dataset.root,
        unused=dict.fromkeys(taken, _TAKEN_MEANING),
        warnings=[*_site_hints(images, dataset), *hints, *_unused_masks(images, dataset)],
    )


def _with_masks(row: Sequence[BidsImage]) -> BidsImage:
    """Return the first image of a visit, with the masks that any of its images has."""
    mask = next((one.mask for one in row if one.mask), None)
    lesion = next((one.lesion for one in row if one.lesion), None)
    tissues = next((one.tissues for one in row if one.tissues), {})
    return replace(row[0], mask=mask, lesion=lesion, tissues=tissues)


def _subject(name: str, row: Mapping[str, BidsImage], first: BidsImage) -> Subject:
    ours = taken_names(several=len(row) > 1)
    return Subject(
        {channel: str(Path(one.image).absolute()) for channel, one in row.items()},
        str(Path(first.mask).absolute()) if first.mask else None,
        str(Path(first.lesion).absolute()) if first.lesion else None,
        TissueMaps(**{t: str(Path(path).absolute()) for t, path in first.tissues.items()}),
        person=f"sub-{first.entities['sub']}",
        site=first.site,
        name=name if len(row) > 1 else "",
        origin=first.relative,
        covariates={n: cell for n, cell in first.more.items() if n.lower() not in ours},
    )


def _unused_masks(found: Sequence[BidsImage], dataset: Dataset) -> list[str]:
    """Return warnings about derivatives that give no file, and lesion masks that fit no scan."""
    files = [Path(file) for one in found for file in one.files]
    unused = [
        f"{folder}: no mask or tissue probability map of these scans is taken from it"
        for folder in dataset.derivatives.values()
        if not any(file.is_relative_to(folder) for file in files)
    ]
    used = {one.lesion for one in found}
    others = dict.fromkeys(file for one in found for file in one.other_lesions if file not in used)
    if others:
        what = "a lesion mask whose name matches"
        if len(others) > 1:
            what = f"the first of {len(others)} lesion masks whose names match"
        unused.append(
            f"{next(iter(others))}: {what} none of these scans; name it like the scan that it was "
            f"drawn on, as in sub-01_run-1_label-lesion_mask.nii.gz"
        )
    return unused


def _refuse_lacking_masks(found: Sequence[BidsImage], derivatives: Mapping[str, Path]) -> None:
    """Refuse scans without a mask where derivatives should have them.

    Folders that gave lesion masks and not a single brain mask were given for these alone.
    """

    def derived(file: str | None) -> bool:
        return any(file and Path(file).is_relative_to(at) for at in derivatives.values())

    unmasked = [scan.relative for scan in found if scan.mask is None]
    only_lesions = any(derived(scan.lesion) for scan in found)
    only_lesions = only_lesions and not any(derived(scan.mask) for scan in found)
    if derivatives and unmasked and not only_lesions:
        cause = f"no mask for {len(unmasked)} of {len(found)} scans, such as {unmasked[0]}"
        hint = "add --mask brain, or --mask auto, to find them"
        raise FileError(next(iter(derivatives.values())), cause, hint)


def _site_hints(found: Sequence[BidsImage], dataset: Dataset) -> list[str]:
    """Return columns that may name the sites, where no scan has a site."""
    if dataset.site_column or any(one.site for one in found):
        return []
    names = sorted({name for one in found for name in one.more if nearest(name) == "site"})
    table = dataset.root / "participants.tsv"
    return [
        f"{table}: no site is known, but there is a column {name!r}; if it names the sites, use "
        f"--site-column {name}"
        for name in names
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
        if name in (RAW, *folders):
            cause = "names the dataset itself" if name == RAW else "is given twice"
            raise InvalidValueError(
                f"--derivatives: {name!r} {cause}; choose another name, as in NAME=PATH"
            )
        folders[name] = Path(path)
    return folders


# ── images ────────────────────────────────────────────────────────────────────────────────────────


def find_scans(
    root: AnyPath,
    *,
    suffix: str = "T1w",
    participants: Iterable[str] = (),
    sessions: Iterable[str] = (),
    site_column: str | None = None,
    derivatives: Iterable[AnyPath] = (),
    chosen: Filter | None = None,
) -> list[BidsImage]:
    """Find the scans of a BIDS dataset.

    If there are images of a scan both without and with ``desc-…``, the one without is taken.

    Parameters
    ----------
    root : the folder of the dataset.
    suffix : the kind of images.
    participants, sessions : labels, with or without ``sub-`` and ``ses-``; by default all.
    site_column : the column of ``participants.tsv`` and ``sub-*_sessions.tsv`` (which takes
        precedence) that holds the site; by default ``site``, ``centre``, ``center`` or ``site_id``.
    derivatives : folders with masks, lesion masks and tissue probability maps, for example of
        fMRIPrep; the first folder that has them is taken. For a scan without a mask of its own, the
        mask of all runs or all sessions is taken. Where these folders hold no mask, a mask beside
        the image is taken if all its entities are the same; so is a lesion mask.
    chosen : which of these images; by default all.

    Returns
    -------
    scans : at least one, in the natural order of their names (2 comes before 10).

    Raises
    ------
    FileError : if it is not a BIDS dataset, or has no such scans, or its names, tables or masks are
        invalid or ambiguous.
    InvalidValueError : if a label or the suffix is not alphanumeric.
    """
    top = Path(root)
    check_label("suffix", suffix)
    named = labels_of("participant", "sub-", participants), labels_of("session", "ses-", sessions)
    tree = _Tree(top)
    derived = [Path(folder) for folder in derivatives]
    for folder in derived:
        if not any(is_labelled(name, "sub-") for name in _names(folder)):
            cause = "holds no folders sub-…, and so no masks"
            hint = "give the folder of one pipeline, for example derivatives/fmriprep"
            raise FileError(folder, cause if folder.is_dir() else "no such folder", hint)
    sites = Sites(top, site_column)
    scans: list[BidsImage] = []
    suffixes: set[str] = set()
    for place in _places(tree, *named):
        names = [name for name in tree.listing(place.folder).files if name.endswith(IMAGES)]
        suffixes.update(map(suffix_of, names))
        images = _images(top / place.folder, place, names, suffix, chosen)
        shelves = _shelves(derived, place) if images else []
        shelves.append(_Shelf(top / place.folder, names, exactly=True))
        site, more = sites.of(place.subject, place.session) if images else (None, {})
        for name, entities in images.items():
            relative = f"{place.folder}/{name}"
            found = _masks(shelves, entities, suffix)
            scans.append(BidsImage(str(top / relative), relative, entities, site, more, **found))
    if not scans and chosen is not None and suffix in suffixes:
        cause = f"the query {chosen.name!r} fits none of the {suffix} images"
        raise FileError(chosen.path, cause, "correct it; null stands for an entity that is absent")
    if not scans:
        others = ", ".join(sorted(suffixes - {suffix}))
        hint = f"there are {others} images; choose with --suffix"
        if not others:
            hint = "check that it is the right folder, and that it was fetched"
        raise FileError(top, f"no scans sub-…_{suffix}.nii[.gz] in sub-*/[ses-*/]<datatype>/", hint)
    sites.check()
    return sorted(scans, key=lambda scan: natural(scan.relative))


class _Listing(NamedTuple):
    folders: list[str]
    files: list[str]


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

    def listing(self, relative: str) -> _Listing:
        """Return the names of the files in a folder, and of the folders that may be searched."""
        found = _Listing([], [])
        for name in _names(self.root / relative):
            path = self.root / relative / name
            if name.startswith("."):
                continue
            # No folder of BIDS has a dot in its name, so links to files need not be resolved.
            if "." in name or not os.path.isdir(path):  # noqa: PTH112  (not an error)
                found.files.append(name)
            elif not path.is_symlink() or self._leads_elsewhere(str(path)):
                found.folders.append(name)
        nested_dataset = relative and DESCRIPTION in found.files
        return _Listing([], []) if nested_dataset else found

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
    subjects = [name[4:] for name in tree.listing("").folders if is_labelled(name, "sub-")]
    _check_known(tree.root, "participant", participants, subjects)
    visits: list[_Place] = []
    for subject in subjects:
        if not participants or subject in participants:
            home = f"sub-{subject}"
            labelled = [name for name in tree.listing(home).folders if is_labelled(name, "ses-")]
            visits.append(_Place(subject, None, home))
            visits += [_Place(subject, name[4:], f"{home}/{name}") for name in labelled]
    _check_known(tree.root, "session", sessions, {visit.session for visit in visits})
    for visit in visits:
        if not sessions or visit.session in sessions:
            for name in tree.listing(visit.folder).folders:
                if name.isalpha() and name.islower() and name not in _NOT_DATATYPES:
                    yield visit._replace(folder=f"{visit.folder}/{name}")


def _check_known(root: Path, what: str, named: set[str], known: Collection[str | None]) -> None:
    if missing := sorted(named.difference(known), key=natural):
        there = sorted(filter(None, known), key=natural)
        more = f" and {len(there) - _MAX_LISTED} more" if len(there) > _MAX_LISTED else ""
        hint = f"there are {', '.join(there[:_MAX_LISTED]) or f'no {what}s'}{more}"
        raise FileError(root, f"no {what} {', '.join(missing[:_MAX_LISTED])}", hint)


def _images(
    folder: Path, place: _Place, names: Sequence[str], suffix: str, chosen: Filter | None
) -> dict[str, Entities]:
    """Return the images that are scans, one for each acquisition, with their entities."""
    scans: dict[frozenset[tuple[str, str]], tuple[str, Entities]] = {}
    for name in sorted(names, key=lambda name: "_desc-" in name):
        if suffix_of(name) != suffix:
            continue
        entities = entities_of(name)
        if entities is None or not name.endswith(tuple(f"_{suffix}{kind}" for kind in IMAGES)):
            cause = f"its name is not made of key-label pairs, as in sub-01_run-1_{suffix}.nii.gz"
            raise FileError(folder / name, cause, f"rename it; {VALIDATOR}")
        if (entities["sub"], entities.get("ses")) != (place.subject, place.session):
            cause = f"its name does not belong in the folder {place.folder}"
            raise FileError(folder / name, cause, f"rename or move it; {VALIDATOR}")
        if entities.get("desc") == OURS:
            continue
        if chosen is not None and not chosen.accepts(folder.name, name, entities):
            continue
        acquisition = frozenset(without_desc(entities).items())
        other, others = scans.setdefault(acquisition, (name, entities))
        if other != name and ("desc" in others) == ("desc" in entities):
            cause = f"by its name, the same scan as {other}"
            raise FileError(folder / name, cause, "keep one of them in the dataset")
    return dict(scans.values())


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


def _masks(shelves: Sequence[_Shelf], image: Entities, suffix: str) -> dict[str, Any]:
    """Return the masks and tissue maps of an image, each kind from the first shelf that has it."""
    mask = _first(shelves, image, _ending("_desc-brain_mask"))
    lesion = _first(shelves, image, lambda name: lesion_entities(name, suffix))
    others = [
        str(shelf.folder / name)
        for shelf in shelves
        for name in shelf.names
        if lesion is None and lesion_entities(name, suffix)
    ]
    tissues: dict[str, str] = {}
    for shelf in shelves:  # maps beside the image belong to a mask there
        if not tissues and (not shelf.exactly or (mask and Path(mask).parent == shelf.folder)):
            for tissue in TissueMaps._fields:
                kind = _ending(f"_label-{tissue.upper()}_probseg")
                if path := shelf.fitting(image, kind):
                    tissues[tissue] = path
    return {"mask": mask, "lesion": lesion, "other_lesions": others, "tissues": tissues}


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
    if not name.endswith(IMAGES):
        return None
    *parts, kind = name.partition(".")[0].split("_")
    entities, words = pairs_of(parts)
    if kind not in ("mask", "roi") or "sub" not in entities or not {*words} <= {suffix, _LESION}:
        return None
    if entities.pop("mod", suffix) != suffix:
        return None
    label, desc = (entities.get(key, "").lower() for key in ("label", "desc"))
    described = {f"{word}{_LESION}" for word in ("", suffix.lower(), suffix.lower().rstrip("w"))}
    says = _LESION in words or label == _LESION or desc in described
    silent = kind == "roi" and not label and not desc
    return entities if says or silent else None
