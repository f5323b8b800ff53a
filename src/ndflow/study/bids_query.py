"""The scans of a BIDS dataset, with their sites and masks.

Images are looked for only in ``sub-*/[ses-*/]<datatype>/``: not in ``derivatives``, ``sourcedata``,
hidden folders or nested datasets. A symbolic link to a folder is followed, once, unless it points
to a folder that is searched anyway. Links to files are not resolved: a scan that was not fetched
(git-annex, DataLad) is listed, and opening it raises an error that says so.

An image whose name is not made of ``key-label`` pairs, or belongs in another folder, is an error: a
scan that is left out silently might not be missed in time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.study.bids_masks import Derivative, fitting_lesion, fitting_mask, lesion_entities
from ndflow.study.bids_names import (
    IMAGES,
    VALIDATOR,
    Entities,
    Filter,
    check_label,
    entities_of,
    is_labelled,
    labels_of,
    natural,
    suffix_of,
    without_desc,
)
from ndflow.study.bids_sites import Sites

DESCRIPTION = "dataset_description.json"
OURS = "ndflow"  # the ``desc`` label of our own images, which are not scans

_NOT_DATATYPES = ("code", "derivatives", "sourcedata")
_MAX_LISTED = 10  # labels in one message


@dataclass(frozen=True)
class BidsImage:
    """One scan of a dataset.

    Attributes
    ----------
    image : its file.
    relative : its path relative to the dataset, with ``/``.
    entities : the entities of its name, in order, for example ``{"sub": "01", "run": "1"}``.
    suffix : the kind of image, for example ``T1w``.
    site : where it was acquired, if known.
    mask, lesion : the files of its brain mask and its lesion mask, if there are any.
    other_lesions : lesion masks where its own was looked for, none of which fits it.
    tissues : the files of its tissue probability maps in derivatives, by tissue.
    more : the other columns of ``participants.tsv`` for its subject, such as age; those of
        ``sub-*_sessions.tsv`` for its session take precedence.
    """

    image: str
    relative: str
    entities: Entities
    suffix: str
    site: str | None = None
    mask: str | None = None
    lesion: str | None = None
    other_lesions: Sequence[str] = ()
    tissues: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)


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
    """Find the scans of a dataset.

    If there are images of a scan both without and with ``desc-…``, the one without is taken.

    Parameters
    ----------
    root : the folder of the dataset.
    suffix : the kind of images.
    participants, sessions : labels, with or without ``sub-`` and ``ses-``; by default all.
    site_column : the column of ``participants.tsv`` and ``sub-*_sessions.tsv`` (which takes
        precedence) that holds the site; by default ``site``, ``centre``, ``center`` or ``site_id``.
    derivatives : folders with masks (``desc-brain_mask``), lesion masks (`ndflow.study.bids_masks`)
    and
        tissue probability maps (``label-GM_probseg``), for example of fMRIPrep; the first folder
        that has them is taken.
        For a scan without a mask of its own, the mask of all runs or all sessions is taken. Where
        these folders hold no mask, a mask beside the image is taken if all its entities are the
        same; lesion masks are looked up in the same way.
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
    derived = [Derivative(Path(folder)) for folder in derivatives]
    sites = Sites(top, site_column)
    scans: list[BidsImage] = []
    suffixes: set[str] = set()
    for place in _places(tree, *named):
        folder = top / place.folder
        names = [name for name in tree.listing(place.folder).files if name.endswith(IMAGES)]
        suffixes.update(map(suffix_of, names))
        for name, entities in _images(folder, place, names, suffix, chosen).items():
            masks = (pipeline.mask(place.folder, entities) for pipeline in derived)
            lesions = (pipeline.lesion(place.folder, entities, suffix) for pipeline in derived)
            maps = (pipeline.tissues(place.folder, entities) for pipeline in derived)
            lesion = next(filter(None, lesions), None) or fitting_lesion(
                folder, names, entities, suffix, exactly=True
            )
            others: list[str] = []
            if lesion is None:
                others = [str(folder / one) for one in names if lesion_entities(one, suffix)]
                others += [one for each in derived for one in each.lesions_at(place.folder, suffix)]
            scan = BidsImage(
                image=str(folder / name),
                relative=f"{place.folder}/{name}",
                entities=entities,
                suffix=suffix,
                site=sites.of(place.subject, place.session),
                mask=next(filter(None, masks), None)
                or fitting_mask(folder, names, entities, exactly=True),
                lesion=lesion,
                other_lesions=others,
                tissues=next(filter(None, maps), {}),
                more=sites.more_of(place.subject, place.session),
            )
            scans.append(scan)
    if not scans and chosen is not None and suffix in suffixes:
        cause = f"the query {chosen.name!r} fits none of the {suffix} images"
        raise FileError(chosen.path, cause, "correct it; null stands for an entity that is absent")
    if not scans:
        raise _no_scans(top, suffix, suffixes - {suffix})
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
        if not root.is_dir():
            what = "not a folder" if os.path.lexists(root) else "no such folder"
            raise FileError(root, what, "give the folder of a BIDS dataset")
        if not os.path.lexists(root / DESCRIPTION):
            hint = "give the folder that holds this file and the sub-… folders"
            raise FileError(root, f"not a BIDS dataset: there is no {DESCRIPTION}", hint)
        self.root = root
        self._real = os.path.realpath(root)
        self._followed: dict[str, str] = {}

    def listing(self, relative: str) -> _Listing:
        """Return the names of the files in a folder, and of the folders that may be searched."""
        found = _Listing([], [])
        for entry in _entries(self.root / relative):
            if entry.name.startswith("."):
                continue
            # No folder of BIDS has a dot in its name, so links to files need not be resolved.
            if "." in entry.name or not _is_folder(entry):
                found.files.append(entry.name)
            elif not entry.is_symlink() or self._leads_elsewhere(entry.path):
                found.folders.append(entry.name)
        nested_dataset = relative and DESCRIPTION in found.files
        return _Listing([], []) if nested_dataset else found

    def _leads_elsewhere(self, link: str) -> bool:
        """Return whether a link points to a folder that is not searched otherwise."""
        real = os.path.realpath(link)
        if os.path.relpath(real, self._real).startswith("sub-"):
            return False
        return self._followed.setdefault(real, link) == link


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        cause = f"cannot be listed ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False


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
        listed = f"there are {', '.join(there[:_MAX_LISTED])}{more}"
        hint = listed if there else f"there are no {what}s"
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


def _no_scans(root: Path, suffix: str, others: set[str]) -> FileError:
    cause = f"no scans sub-…_{suffix}.nii[.gz] in sub-*/[ses-*/]<datatype>/"
    if others:
        return FileError(
            root, cause, f"there are {', '.join(sorted(others))} images; choose with --suffix"
        )
    return FileError(root, cause, "check that it is the right folder, and that it was fetched")
