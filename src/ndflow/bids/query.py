"""BIDS datasets: which scans there are, where each was made, and the mask that belongs to it.

Images are looked for in ``sub-*/[ses-*/]<datatype>/`` and nowhere else, so neither in
``derivatives`` and ``sourcedata``, nor in a dataset inside the dataset, nor in what is hidden. A
linked folder is followed if it leads out of these, and once. Links to files are not resolved: a
scan that was not fetched is in the list, and opening it says so.

An image whose name is not made of ``key-label`` pairs, or belongs into another folder, is refused:
a scan that is left out silently may be missed too late.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ndflow.bids.masks import Masks, fitting_mask
from ndflow.bids.names import (
    IMAGES,
    VALIDATOR,
    Entities,
    check_label,
    entities_of,
    is_labelled,
    labels_of,
    natural,
    suffix_of,
    without_desc,
)
from ndflow.bids.sites import Sites
from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath

__all__ = ["DESCRIPTION", "OURS", "BidsScan", "find_scans"]

DESCRIPTION = "dataset_description.json"
OURS = "ndflow"  # the label of ``desc`` of our own images, which are not scans

_NOT_DATA = ("code", "derivatives", "sourcedata")
_SHOWN = 10  # labels in one message


@dataclass(frozen=True)
class BidsScan:
    """One image of a dataset.

    Attributes
    ----------
    image : its file.
    relative : the same inside the dataset, with ``/``.
    entities : what its name says, in that order, for example ``{"sub": "01", "run": "1"}``.
    suffix : of what kind it is, for example ``T1w``.
    site : where it was made.
    mask : the file with the mask of its brain.
    more : what else ``participants.tsv`` says of the participant, such as age.
    """

    image: str
    relative: str
    entities: Entities
    suffix: str
    site: str | None = None
    mask: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)


def find_scans(
    root: AnyPath,
    *,
    suffix: str = "T1w",
    participants: Iterable[str] = (),
    sessions: Iterable[str] = (),
    site_column: str | None = None,
    masks: AnyPath | None = None,
) -> list[BidsScan]:
    """Return the scans of a dataset, in the order of their names, where 2 comes before 10.

    Where there is an image without and with ``desc-…``, the one without is the scan.

    Parameters
    ----------
    root : the folder of the dataset.
    suffix : the kind of images.
    participants, sessions : labels, with or without ``sub-`` and ``ses-``; none means all.
    site_column : where ``participants.tsv`` or, with precedence, ``sub-*_sessions.tsv`` say where a
        scan was made; by default ``site``, ``centre``, ``center`` or ``site_id``.
    masks : a derivatives folder with ``desc-brain_mask`` images, for example of fMRIPrep. A mask
        for all runs or all sessions is taken where a scan has none of its own. Without the folder,
        or a mask in it, one beside the image is taken, if it has exactly the same name.
    """
    top = Path(root)
    check_label("suffix", suffix)
    chosen = labels_of("participant", "sub-", participants), labels_of("session", "ses-", sessions)
    tree = _Tree(top)
    stored = None if masks is None else Masks(Path(masks))
    sites = Sites(top, site_column)
    scans: list[BidsScan] = []
    others: set[str] = set()
    for place in _places(tree, *chosen):
        folder = top / place.folder
        names = [name for name in tree.look(place.folder).files if name.endswith(IMAGES)]
        others.update(map(suffix_of, names))
        for name, entities in _images(folder, place, names, suffix).items():
            mask = stored.of(place.folder, entities) if stored else None
            scan = BidsScan(
                image=str(folder / name),
                relative=f"{place.folder}/{name}",
                entities=entities,
                suffix=suffix,
                site=sites.of(place.subject, place.session),
                mask=mask or fitting_mask(folder, names, entities, exactly=True),
                more=sites.said_of(place.subject),
            )
            scans.append(scan)
    if not scans:
        raise _nothing(top, suffix, others - {suffix})
    sites.check()
    return sorted(scans, key=lambda scan: natural(scan.relative))


class _Listing(NamedTuple):
    folders: list[str]
    files: list[str]


class _Place(NamedTuple):
    """A folder with images of one datatype."""

    subject: str
    session: str | None
    folder: str


class _Tree:
    """The folders of a dataset."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            what = "not a folder" if os.path.lexists(root) else "no such folder"
            raise FileError(root, what, "give the folder of a BIDS dataset")
        if not os.path.lexists(root / DESCRIPTION):
            hint = "give the folder that holds this file and the folders sub-…"
            raise FileError(root, f"not a BIDS dataset: there is no {DESCRIPTION}", hint)
        self.root = root
        self._real = os.path.realpath(root)
        self._followed: dict[str, str] = {}

    def look(self, relative: str) -> _Listing:
        """Return the names of the folders that may be looked into, and of the files."""
        inside = _Listing([], [])
        for entry in _entries(self.root / relative):
            if entry.name.startswith("."):
                continue
            # No folder of ours has a dot in its name; so links to files need not be followed.
            if "." in entry.name or not _is_folder(entry):
                inside.files.append(entry.name)
            elif not entry.is_symlink() or self._leads_out(entry.path):
                inside.folders.append(entry.name)
        return _Listing([], []) if relative and DESCRIPTION in inside.files else inside

    def _leads_out(self, link: str) -> bool:
        """Tell whether a linked folder is not among those that are looked into anyway."""
        real = os.path.realpath(link)
        if os.path.relpath(real, self._real).startswith("sub-"):
            return False
        return self._followed.setdefault(real, link) == link


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        cause = f"cannot be looked into ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _places(tree: _Tree, participants: set[str], sessions: set[str]) -> Iterator[_Place]:
    """Go through the folders with images of the participants and sessions, if any are named."""
    subjects = [name[4:] for name in tree.look("").folders if is_labelled(name, "sub-")]
    _check_known(tree.root, "participant", participants, subjects)
    visits: list[_Place] = []
    for subject in subjects:
        if not participants or subject in participants:
            home = f"sub-{subject}"
            labelled = [name for name in tree.look(home).folders if is_labelled(name, "ses-")]
            visits.append(_Place(subject, None, home))
            visits += [_Place(subject, name[4:], f"{home}/{name}") for name in labelled]
    _check_known(tree.root, "session", sessions, {visit.session for visit in visits})
    for visit in visits:
        if not sessions or visit.session in sessions:
            for name in tree.look(visit.folder).folders:
                if name.isalpha() and name.islower() and name not in _NOT_DATA:
                    yield visit._replace(folder=f"{visit.folder}/{name}")


def _check_known(root: Path, what: str, named: set[str], known: Collection[str | None]) -> None:
    if missing := sorted(named.difference(known), key=natural):
        there = sorted(filter(None, known), key=natural)
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        hint = f"there are {', '.join(there[:_SHOWN])}{more}" if there else "there is none"
        raise FileError(root, f"no {what} {', '.join(missing[:_SHOWN])}", hint)


def _images(folder: Path, place: _Place, names: Sequence[str], suffix: str) -> dict[str, Entities]:
    """Return what the names of the images say that are scans, one for each acquisition."""
    scans: dict[frozenset[tuple[str, str]], tuple[str, Entities]] = {}
    for name in sorted(names, key=lambda name: "_desc-" in name):
        if suffix_of(name) != suffix:
            continue
        entities = entities_of(name)
        if entities is None or not name.endswith(tuple(f"_{suffix}{kind}" for kind in IMAGES)):
            cause = f"its name is not made of key-label pairs, as in sub-01_run-1_{suffix}.nii.gz"
            raise FileError(folder / name, cause, f"rename it; {VALIDATOR}")
        if (entities["sub"], entities.get("ses")) != (place.subject, place.session):
            cause = f"its name does not belong into the folder {place.folder}"
            raise FileError(folder / name, cause, f"rename or move it; {VALIDATOR}")
        if entities.get("desc") == OURS:
            continue
        other, said = scans.setdefault(frozenset(without_desc(entities).items()), (name, entities))
        if other != name and ("desc" in said) == ("desc" in entities):
            cause = f"by its name, the same scan as {other}"
            raise FileError(folder / name, cause, "keep one of them in the dataset")
    return dict(scans.values())


def _nothing(root: Path, suffix: str, others: set[str]) -> FileError:
    cause = f"no scans sub-…_{suffix}.nii[.gz] in sub-*/[ses-*/]<datatype>/"
    if others:
        return FileError(root, cause, f"there are {', '.join(sorted(others))}: see --suffix")
    return FileError(root, cause, "check that it is the right folder, and that it was fetched")
