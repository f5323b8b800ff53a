"""The subjects of a BIDS dataset, with their sites, masks and tissue probability maps.

Images are looked for only in ``sub-*/[ses-*/]<datatype>/``: not in ``derivatives``, ``sourcedata``,
hidden folders or nested datasets. Links to files are not resolved: a scan that was not fetched
(git-annex, DataLad) is listed, and opening it raises an error that says so.

The participants are those of the dataset. Their images are the preprocessed ones
(``…_desc-preproc_T1w.nii.gz``) of the first derivatives folder that has any, as fMRIPrep writes
them, or else those of the dataset itself. All images are in one space: their own, without
``space-…``, where there are such. A participant without an image in it is left out, with a warning.

An image whose name is not made of ``key-label`` pairs, or belongs in another folder, is an error: a
scan that is left out silently might not be missed in time. So images that look like scans, but are
not called or placed like them, are named in a warning, and so are participants without scans.

Brain masks are called ``…_desc-brain_mask.nii.gz``, tissue probability maps
``…_label-GM_probseg.nii.gz`` (CSF, GM and WM); the many names of lesion masks are below. Such a
file fits an image if all its other entities are entities of the image too, and it lies in the same
space.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.tables import MISSING, read_delimited, refuse_rows
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study import bids_names
from ndflow.study.bids_names import DESCRIPTION, IMAGES, Entities, check_label, entities_of, natural
from ndflow.study.table import OUR_NAME, Listing, taken_names
from ndflow.values import first_of, listed, plural

_VALIDATOR = "for details, run the BIDS validator: bids-validator-deno"
_NOT_DATATYPES = ("code", "derivatives", "sourcedata")
_PREPROCESSED = "preproc"  # the ``desc`` label of images whose bias fields were corrected


@dataclass(frozen=True)
class Dataset:
    """A BIDS dataset, and what of it is asked for.

    Attributes
    ----------
    path : its folder.
    suffixes : of the images, such as T1w.
    participants, sessions : labels, with or without ``sub-`` and ``ses-``; all, if there are none.
    shard : a part of these participants, such as ``3/100``.
    table : names their sites and covariates; by default ``participants.tsv`` in the folder.
    derivatives : folders with preprocessed images, masks, lesion masks and tissue probability maps,
        by name; the first that has them is taken. For a scan without a mask of its own, the mask of
        all runs or all sessions is taken. Where these folders hold no mask, a mask in the dataset
        is taken if all its entities are the same; so is a lesion mask.
    """

    path: str
    suffixes: Sequence[str] = ("T1w",)
    participants: Sequence[str] = ()
    sessions: Sequence[str] = ()
    shard: str | None = None
    table: str | None = None
    derivatives: Mapping[str, Path] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder of the dataset."""
        return Path(self.path).absolute()

    @property
    def people(self) -> Path:
        """The table of its participants, which need not exist."""
        return Path(self.table or self.root / "participants.tsv")


class _Image(NamedTuple):
    """An image of a dataset.

    Attributes
    ----------
    subject : the image by itself, with all that is known about it.
    entities : of its name, in order, for example ``{"sub": "01", "run": "1"}``.
    """

    subject: Subject
    entities: Entities

    def called(self, *keys: str) -> str:
        """Return its name, or the part of it with some entities."""
        own = {key: self.entities[key] for key in keys or self.entities if key in self.entities}
        return "_".join(f"{key}-{label}" for key, label in own.items() if keys or key != "desc")


# ── subjects ──────────────────────────────────────────────────────────────────────────────────────

Row = Mapping[str, _Image]  # the images of a visit, by channel


def read_dataset(
    dataset: Dataset, *, joint: bool, masks_needed: bool, raw: bool = False
) -> dict[str, Listing]:
    """Find the subjects of a dataset, in the natural order of their names (2 comes before 10).

    Parameters
    ----------
    dataset : where to look, and for what.
    joint : whether the images of all suffixes belong together, or are listed one by one.
    masks_needed : whether derivatives that are given must have a mask for each.
    raw : whether images that were preprocessed are refused.

    Returns
    -------
    listings : by suffix; of all together under ``""``.

    Raises
    ------
    FileError : if it is not a BIDS dataset, or has no such scans, or its names, tables or masks are
        invalid or ambiguous.
    InvalidValueError : if a label or a suffix is not alphanumeric.
    """
    if not os.path.lexists(dataset.root / DESCRIPTION):
        cause = f"not a BIDS dataset: there is no {DESCRIPTION}"
        hint = "give the folder of a BIDS dataset, with the sub-… folders in it"
        raise FileError(dataset.root, cause if dataset.root.is_dir() else "no such folder", hint)
    names = [check_label("suffix", name) for name in dataset.suffixes]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--suffix: {' '.join(names)}: the same twice; leave one out")
    people = _Participants(dataset)
    listings: dict[str, Listing] = {}
    for key, some in [("", names)] if joint else [(name, [name]) for name in names]:
        origin = _origin(dataset, some)
        if raw and origin.preprocessed:
            cause = "holds preprocessed images, which need no --prepare"
            raise FileError(origin.root, cause, "leave out --prepare, or this folder")
        images, seen, warnings = {}, set[str](), [*people.warnings]
        for name in some:
            images[name], persons, more = _find(dataset, origin, name, people)
            seen |= persons
            warnings += more
        warnings += people.missing(seen, listed(some))
        rows: dict[str, Row] = {one.subject.origin: {key: one} for one in images.get(key, ())}
        left_out: dict[str, str] = {}
        if joint:
            rows, left_out = _visits(images)
            words = [f"{name} {why}" for name, why in left_out.items()]
            if not rows:
                cause = f"no subject has all of {listed(names)}; {words[0]}"
                raise FileError(dataset.path, cause, "give other suffixes, or leave out --joint")
            warnings += [f"{dataset.path}: left out: {first_of(words)}"] if words else []
        about = f" ({listed(names)} together)" if joint else f" ({key})" if len(names) > 1 else ""
        listings[key] = replace(
            _listing(dataset, rows, masks_needed, warnings),
            source=f"{dataset.path}{about}",
            skipped=Counter(f"that {why}" for why in left_out.values()),
            images=_described(origin, rows),
        )
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
    dataset: Dataset, rows: Mapping[str, Row], masks_needed: bool, warnings: Sequence[str]
) -> Listing:
    """Return the subjects in some rows of images."""
    taken = taken_names(several=any(len(row) > 1 for row in rows.values()))
    whole = [_together(name, [one.subject for one in row.values()]) for name, row in rows.items()]
    unmasked = [scan.origin for scan in whole if scan.mask is None]
    for_lesions = len(unmasked) == len(whole) and any(scan.lesion for scan in whole)
    if masks_needed and dataset.derivatives and unmasked and not for_lesions:
        cause = f"no mask for {len(unmasked)} of {len(whole)} scans, such as {unmasked[0]}"
        hint = "add --mask brain, or --mask auto, to find them"
        raise FileError(next(iter(dataset.derivatives.values())), cause, hint)
    unused = {name for one in whole for name in one.covariates if name.lower() in taken}
    kept = [{k: cell for k, cell in one.covariates.items() if k not in unused} for one in whole]
    return Listing(
        [replace(one, covariates=more) for one, more in zip(whole, kept, strict=True)],
        dataset.path,
        dataset.root,
        str(dataset.people) if os.path.lexists(dataset.people) else None,
        unused=dict.fromkeys(sorted(unused), OUR_NAME),
        warnings=[*warnings, *_unused_derivatives(whole, dataset)],
    )


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


def _unused_derivatives(subjects: Sequence[Subject], dataset: Dataset) -> list[str]:
    """Return warnings about derivatives that give no file."""
    files = [str(f) for one in subjects for f in (one.mask, one.lesion, *one.tissues) if f]
    return [
        f"{folder}: no mask or tissue probability map of these scans is taken from it"
        for folder in dataset.derivatives.values()
        if not any(Path(file).is_relative_to(folder) for file in files)
    ]


def named_derivatives(given: Iterable[str]) -> dict[str, Path]:
    """Return derivatives folders by their names.

    Parameters
    ----------
    given : each ``NAME=PATH``, or a path, whose last part then is the name.

    Raises
    ------
    InvalidValueError : if a name is taken.

    Examples
    --------
    >>> list(named_derivatives(["prep=/data/fmriprep-24", "synthstrip"]))
    ['prep', 'synthstrip']
    """
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).is_dir():
            name, path = Path(text).absolute().name, text
        name = re.sub(r"[^\w.+-]", "-", name, flags=re.ASCII)
        if name in (bids_names.RAW, *folders):
            cause = "is given twice" if name in folders else "names the dataset itself"
            raise InvalidValueError(f"--derivatives: {name!r} {cause}; choose another: NAME=PATH")
        folders[name] = Path(path).absolute()
    return folders


# ── images ────────────────────────────────────────────────────────────────────────────────────────


class _Origin(NamedTuple):
    """Where images come from.

    Attributes
    ----------
    root : the folder of the dataset, or of derivatives.
    preprocessed : whether only preprocessed images in their own space are taken.
    """

    root: Path
    preprocessed: bool = False

    def takes(self, entities: Entities | None) -> bool:
        """Tell whether an image is meant by its name, which may be invalid."""
        known = entities or {}
        if self.preprocessed:
            return known.get("desc") == _PREPROCESSED and known.keys().isdisjoint(_GRID)
        return known.get("desc") != bids_names.OURS

    def lacks(self, suffix: str) -> str:
        """Return that there are no images."""
        kind = f"desc-{_PREPROCESSED}_{suffix}" if self.preprocessed else suffix
        return f"no {kind} image in native space"


def _origin(dataset: Dataset, suffixes: Sequence[str]) -> _Origin:
    """Return the first derivatives folder with preprocessed images, or else the dataset.

    All participants in a folder count, so that the images of each come from where all others do.
    """
    for folder in dataset.derivatives.values():
        labels = _labelled(_names(folder))
        if not labels:
            cause = "holds no folders sub-…, and so no masks"
            hint = "give the folder of one pipeline, for example derivatives/fmriprep"
            raise FileError(folder, cause if folder.is_dir() else "no such folder", hint)
        origin = _Origin(folder, True)
        if all(any(_scans(origin, at, s) for at in _places(folder, labels)) for s in suffixes):
            return origin
    return _Origin(dataset.root)


def _find(
    dataset: Dataset, origin: _Origin, suffix: str, people: _Participants
) -> tuple[list[_Image], set[str], list[str]]:
    """Return the images with a suffix, at least one, all in one space; of whom; and warnings."""
    unused = _unused(people.places(dataset.root), suffix)
    every = _images(dataset, origin, suffix, people)
    spaces = {image.called(*_GRID): None for image in every}
    if len(spaces) > 1 and "" not in spaces:
        cause = f"its {suffix} images are in several spaces: {listed([*spaces])}"
        raise FileError(origin.root, cause, "list those of one space in a table for ndflow cohort")
    images = [one for one in every if "" not in spaces or not one.called(*_GRID)]
    if not images:
        raise _no_images(origin, suffix, people, unused)
    known, warnings = every, [f"{dataset.path}: {one}" for one in (unused, _mixed(images)) if one]
    if origin.preprocessed:
        known = _images(replace(dataset, derivatives={}), _Origin(dataset.root), suffix, people)
        used = {None, *(image.subject.lesion for image in images)}
        if lesions := [one.subject.origin for one in known if one.subject.lesion not in used]:
            cause = f"the lesion masks of {first_of(lesions)} are not used"
            warnings.append(f"{dataset.path}: {cause}: they fit no preprocessed image")
    covered = {image.called("sub", "ses") for image in images}  # without ses: of all sessions
    visits = {one.called("sub", "ses"): one.called("sub") for one in known}
    if lost := [visit for visit, person in visits.items() if not covered & {visit, person}]:
        warnings.append(f"{origin.root}: left out: {first_of(lost)} ({origin.lacks(suffix)})")
    return images, {one.entities["sub"] for one in (*images, *known)}, warnings


def _unused(places: Iterable[_Place], suffix: str) -> str:
    """Return which images have nearly the names of scans (``…_t1w.mgz``), or are misplaced."""
    word = f"{suffix.removesuffix('w')}w?" if suffix.endswith("w") else suffix
    more = r"(?:_[a-z]+-[a-z0-9]+|[\W_]+\d+)*[\W_]*\.(?:nii|mg[hz]|img|nrrd|mnc)"
    packed, ours = r"(?:\.(?:gz|bz2|xz|zst))?", f"_desc-{bids_names.OURS}_"
    similar = re.compile(rf"(?!.*{ours})(?:.*[\W_])?{word}{more}{packed}", re.IGNORECASE)
    found = defaultdict[str, list[str]](list)
    for place in places:
        for name in filter(similar.fullmatch, place.files):
            if not place.of_scans:
                why = "not in sub-*/[ses-*/]<datatype>, with labels of letters and digits only"
            elif bids_names.suffix_of(name) != suffix:
                why = f"not called …_{suffix}"
            elif not name.endswith(IMAGES):
                why = "not .nii or .nii.gz"
            else:
                continue
            found[why].append(f"{place.folder}/{name}".removeprefix("./"))
    kinds = [f"{first_of(names, 3)} ({why})" for why, names in found.items()]
    text = f"not used, but may be {suffix} scans: {'; '.join(kinds)}"
    return f"{text}; rename, move or convert them" if found else ""


def _mixed(images: Sequence[_Image]) -> str:
    """Return which images differ in contrast agent or part, or within a site in acquisition."""
    kinds: dict[tuple[str, str | None], Counter[str]] = defaultdict(Counter)
    for image in images:
        labels = {k: label for k, label in image.entities.items() if (k, label) != ("part", "mag")}
        for key in ("ce", "part", "acq"):
            site = image.subject.site if key == "acq" else None
            kinds[key, site][f"{key}-{labels[key]}" if key in labels else f"no {key}-…"] += 1
    mixed = [
        " and ".join(f"{kind} ({plural(n, 'scan')})" for kind, n in sorted(some.items()))
        for some in kinds.values()
        if len(some) > 1
    ]
    hint = "if these differ in contrast, list those of one kind in a table for ndflow cohort"
    return f"mixes scans with {first_of(mixed, 3)}; {hint}" if mixed else ""


def _no_images(origin: _Origin, suffix: str, people: _Participants, unused: str) -> FileError:
    """Return the error of participants without images."""
    if origin.preprocessed:
        cause = f"{origin.lacks(suffix)} of {first_of([f'sub-{label}' for label in people.labels])}"
        return FileError(origin.root, cause, "run the pipeline for them first")
    cause = f"no scans sub-…_{suffix}.nii[.gz] in sub-*/[ses-*/]<datatype>/"
    places = (one for one in people.places(origin.root) if one.of_scans)
    names = [name for place in places for name in place.files if name.endswith(IMAGES)]
    others = ", ".join(sorted({*map(bids_names.suffix_of, names)} - {suffix}))
    hint = "check that it is the right folder, and that it was fetched"
    hint = f"there are {others} images; choose with --suffix" if others else hint
    return FileError(origin.root, cause, unused or hint)


def _images(dataset: Dataset, origin: _Origin, suffix: str, people: _Participants) -> list[_Image]:
    """Return the images with a suffix, with their masks, sites and covariates."""
    sessions = bids_names.labels_of("session", "ses-", dataset.sessions)
    places = people.places(origin.root)
    _check_known(origin.root, "session", sessions, {place.session for place in places})
    images: list[_Image] = []
    for place in places:
        found = _scans(origin, place, suffix)
        if not found or (sessions and place.session not in sessions):
            continue
        shelves = _shelves(dataset, place)
        site, more = people.about(place.subject, place.session)
        for name, entities in found.items():
            mask = _first(shelves, entities, _ending("_desc-brain_mask"))
            subject = Subject(
                {suffix: str(origin.root / place.folder / name)},
                mask,
                _first(shelves, entities, lambda name: lesion_entities(name, suffix)),
                _tissues(shelves, entities, mask),
                person=f"sub-{place.subject}",
                site=site,
                origin=f"{place.folder}/{name}",
                covariates=more,
            )
            images.append(_Image(subject, entities))
    return sorted(images, key=lambda image: natural(image.subject.origin))


def _described(origin: _Origin, rows: Mapping[str, Row]) -> str:
    """Return which images were found, in words."""
    images = [image for row in rows.values() for image in row.values()]
    kinds = {image.entities.get("desc") for image in images}
    kind = f"desc-{kinds.pop()} image" if len(kinds) == 1 and None not in kinds else "image"
    space = images[0].called(*_GRID) or "native space"
    return f"{plural(len(images), kind)} of {origin.root.name}, {space}"


class _Place(NamedTuple):
    """A folder, whose it is, the files in it, and whether it is a datatype folder."""

    subject: str
    session: str | None
    folder: str
    files: Sequence[str]
    of_scans: bool


_MISNAMED = re.compile(r"(?!sub-[0-9A-Za-z+]+$)(?i:sub|ses|anat)[^.]*")
_FOLDER = re.compile(r"sub-([0-9A-Za-z+]+)(?:/ses-([0-9A-Za-z+]+))?(/[a-z]+)?")


def _places(root: Path, people: Iterable[str], around: Sequence[str] = ()) -> Iterator[_Place]:
    """Yield the folders of participants, and those among the names `around` that may be theirs."""
    yield _Place("", None, ".", around, of_scans=False)
    waiting = [*(f"sub-{label}" for label in people), *filter(_MISNAMED.fullmatch, around)]
    for place in waiting:  # to which the folders in it are added
        (folders, files), found = _contents(root / place), _FOLDER.fullmatch(place)
        subject, session, datatype = found.groups() if found else ("", None, None)
        yield _Place(subject, session, place, files, of_scans=datatype is not None)
        expected = found is not None and not datatype  # that there are folders in it
        if folders and (expected or not (root / place).is_symlink()):  # maybe to one around it
            waiting += [f"{place}/{name}" for name in folders if name not in _NOT_DATATYPES]


def _labelled(names: Iterable[str]) -> list[str]:
    """Return the labels of participants among some names."""
    return [found[1] for found in map(_FOLDER.fullmatch, names) if found]


def _contents(folder: Path) -> tuple[list[str], list[str]]:
    """Return the folders and the files in a folder; none if it is a dataset of its own."""
    names = [name for name in _names(folder) if not name.startswith(".")]
    if DESCRIPTION in names:
        return [], []
    # No folder of BIDS has a dot in its name, so links to files need not be resolved.
    folders = [name for name in names if "." not in name and (folder / name).is_dir()]
    return folders, [name for name in names if name not in folders]


def _names(folder: Path) -> list[str]:
    """Return what lies in a folder, which need not exist."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  (only names are needed)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"cannot be listed ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None


def _check_known(root: Path, what: str, named: set[str], known: Collection[str | None]) -> None:
    if missing := sorted(named.difference(known), key=natural):
        there = first_of(sorted(filter(None, known), key=natural)) or f"no {what}s"
        raise FileError(root, f"no {what} {first_of(missing)}", f"there are {there}")


def _scans(origin: _Origin, place: _Place, suffix: str) -> dict[str, Entities]:
    """Return the images that are scans, one for each acquisition, with their entities.

    If there are images of a scan both without and with ``desc-…``, the one without is taken.
    """
    names = [one for one in place.files if place.of_scans and one.endswith(IMAGES)]
    folder = origin.root / place.folder if names else origin.root
    scans: dict[frozenset[tuple[str, str]], tuple[str, Entities]] = {}
    for name in sorted(names, key=lambda name: "_desc-" in name):
        if bids_names.suffix_of(name) != suffix:
            continue
        entities = entities_of(name)
        if not origin.takes(entities):
            continue
        if entities is None or not name.endswith(tuple(f"_{suffix}{kind}" for kind in IMAGES)):
            cause = f"its name is not made of key-label pairs, as in sub-01_run-1_{suffix}.nii.gz"
            raise FileError(folder / name, cause, f"rename it; {_VALIDATOR}")
        if (entities["sub"], entities.get("ses")) != (place.subject, place.session):
            cause = f"its name does not belong in the folder {place.folder}"
            raise FileError(folder / name, cause, f"rename or move it; {_VALIDATOR}")
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

Known = tuple[str | None, dict[str, str]]  # a site, if known, and other columns


class _Participants:
    """The participants that are asked for, and what the tables say about them.

    Attributes
    ----------
    labels : of the participants, in natural order.
    places : where images of theirs are, by the folder of a dataset or of derivatives.
    warnings : for the user.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._root = dataset.root
        names = _names(self._root)
        known = _labelled(names)
        asked = bids_names.labels_of("participant", "sub-", dataset.participants)
        _check_known(self._root, "participant", asked, known)
        self.labels = _part(sorted(asked or known, key=natural), dataset.shard)
        everybody = not asked and dataset.shard is None
        around = {self._root: names} if everybody else {}
        self.places = cache(lambda root: [*_places(root, self.labels, around.get(root, ()))])
        self._table = table = dataset.people
        given = dataset.table is not None or os.path.lexists(table)
        self._rows = _read(table, "participant_id", "sub-") if given else {}
        self.warnings = self._spell_alike(known)
        if dataset.table is not None and known and self._rows.keys().isdisjoint(known):
            cause = f"names no participant of {dataset.path}, such as sub-{known[0]}"
            raise FileError(table, cause, "name them in the column participant_id")
        expected = self._rows if given and everybody else self.labels
        self._expected = set[str]() if dataset.sessions else {*expected}

    def _spell_alike(self, known: Iterable[str]) -> list[str]:
        """Give rows the labels of folders that differ only in case and in zeros before numbers."""
        alike, read = defaultdict[str, set[str]](set), []
        for label in (*self._rows, *known):
            alike[str(natural(re.sub("^sub[-_]?", "", label.casefold()))[0])].add(label)
        for labels in alike.values():
            rows, folders = labels & self._rows.keys(), labels.intersection(known)
            if len(labels) == 2 and len(rows) == len(folders) == 1:
                (row,), (folder,) = rows, folders
                self._rows[folder] = self._rows.pop(row)
                read.append(f"{row} as sub-{folder}")
        cause = f"{self._table}: read {first_of(sorted(read, key=natural), 3)}"
        return [f"{cause}; name participants as their folders are called"] if read else []

    def missing(self, scanned: set[str], what: str) -> list[str]:
        """Return warnings about participants without scans, and about scans of others."""
        about = {
            f"{self._root}: no {what} image of": self._expected - scanned,
            f"{self._table}: no row (site, age, …) for": self._rows and scanned - self._rows.keys(),
        }
        return [
            f"{cause} {first_of([f'sub-{label}' for label in sorted(some, key=natural)])}"
            for cause, some in about.items()
            if some
        ]

    def about(self, label: str, session: str | None) -> Known:
        """Return the site of a session or else of its subject, if known, and the other columns."""
        site, more = self._rows.get(label, (None, {}))
        table = self._root / f"sub-{label}" / f"sub-{label}_sessions.tsv"
        if session is None or not os.path.lexists(table):
            return site, more
        own, others = _read(table, "session_id", "ses-").get(session, (None, {}))
        return own or site, more | others


def _part(labels: list[str], shard: str | None) -> list[str]:
    """Return one of several parts of all participants; each is in one of them."""
    if shard is None:
        return labels
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", shard)
    part, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= part <= parts:
        raise InvalidValueError(f"--shard must be a part of several, such as 3/100, not {shard!r}")
    if parts > len(labels):
        count = plural(len(labels), "participant")
        raise InvalidValueError(f"--shard {shard}: there are only {count}; take fewer parts")
    return labels[part - 1 :: parts]


def _read(table: Path, key: str, prefix: str) -> dict[str, Known]:
    """Return what a table says about each label."""
    header, rows = read_delimited(table)
    columns = [name.strip() for name in header]
    if key not in columns:
        cause = f"no column {key!r} (its columns: {', '.join(columns) or 'none'})"
        raise FileError(table, cause, f"separate the columns by tabs; {_VALIDATOR}")
    of_site = next((name for word in _USUAL for name in columns if name.lower() == word), "")
    found: dict[str, Known] = {}
    faults = []
    for number, row in rows:
        given = dict(zip(columns, map(str.strip, row), strict=True))
        cells = {name: cell for name, cell in given.items() if cell.lower() not in MISSING}
        label = cells.pop(key, "").removeprefix(prefix)
        if not label or label in found:
            faults.append(f"row {number} has {f'{label} again' if label else f'no {key}'}")
        cells.pop("", None)
        found[label] = cells.pop(of_site, None), cells
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


def _shelves(dataset: Dataset, place: _Place) -> list[_Shelf]:
    """Return where masks are: in derivatives, of a session or of a subject; or in the dataset."""
    subject, *_, datatype = place.folder.split("/")
    places = (place.folder, f"{subject}/{datatype}")
    folders = dict.fromkeys(at / one for at in dataset.derivatives.values() for one in places)
    own = dataset.root / place.folder
    derived = [_Shelf(folder, _names(folder)) for folder in folders]
    return [*derived, _Shelf(own, _contents(own)[1], exactly=True)]


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
