"""A folder of images instead of a table: which of them are scans, and which are not.

Many images in a folder are not scans: results of earlier runs, masks, tissue maps. What is skipped
is counted by its reason, so that a scan that is missing will be missed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from sys import intern

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.files.outputs import sidecar_of, stem
from ndflow.image.subject import Subject
from ndflow.study.bids_derivative import is_our_derivative
from ndflow.study.plan import PROVENANCE
from ndflow.study.table import Listing
from ndflow.subject.records import MapRecord, StudyRecord

_IMAGES = ("*.nii", "*.nii.gz", "*.mgh", "*.mgz")
_NOT_SCANS = re.compile(r"(^|[_.*-])(mask|brainmask|probseg|dseg|seg|lesion|roi)$", re.IGNORECASE)
_DATATYPES = ("anat", "dwi", "fmap", "func", "perf", "pet")  # folders of BIDS, which are no sites

_RESULTS = "results of ndflow"
_MASKS = "masks and tissue maps"
_LINKS = "links to folders"


def read_folder(source: str, out: Path, pattern: str | None, channel: str) -> Listing:
    """Return the images in a folder and below; the site of a scan is the folder it lies in.

    Skipped are results of ours: folders of studies, and images with our sidecar. So are images that
    by their names are masks or the like (``*_mask``, ``*_probseg``, ``*_dseg``, ``*_lesion``),
    unless the pattern asks for just these.

    Parameters
    ----------
    folder : where to look.
    out : where not to look, because results go there.
    pattern : what the names are like, for example ``"*_T1w.nii.gz"``. Default: any image.

    Raises
    ------
    FileError
        Where there are no scans, or their folders cannot be the names of sites.
    """
    folder = Path(source).absolute()
    patterns = _IMAGES if pattern is None else (pattern,)
    masks_too = pattern is not None and _NOT_SCANS.search(stem(pattern)) is not None
    images, links = _images(folder, out, patterns)
    reasons = {path: _reason(path, ours, masks_too) for path, ours in images.items()}
    found = sorted(str(path) for path, reason in reasons.items() if reason is None)
    skipped = Counter(reason for reason in reasons.values() if reason)
    if links:
        skipped[_LINKS] = links
    if not found:
        cause = f"no image in it is called {' or '.join(patterns)}"
        if skipped:
            counts = ", ".join(f"{number} {what}" for what, number in sorted(skipped.items()))
            cause += f" ({counts} skipped)"
        raise FileError(folder, cause, "choose another folder or --pattern")
    scans = [
        Subject({channel: path}, site=_site(path, folder), origin=f"image {number}")
        for number, path in enumerate(found, 1)
    ]
    _check_sites(folder, scans)
    return Listing(scans, source, folder, skipped=skipped)


def _images(top: Path, out: Path, patterns: tuple[str, ...]) -> tuple[dict[Path, bool], int]:
    """Return the images below a folder, with whether they lie in a folder with results of ours.

    Hidden files and folders are left out. Links to folders are not followed, but counted.
    """
    found: dict[Path, bool] = {}
    ours: set[Path] = set()
    links = 0
    for root, folders, names in os.walk(top):
        place = Path(root)
        folders[:] = [name for name in folders if not name.startswith(".") and place / name != out]
        if place.parent in ours or _holds_results(place):
            ours.add(place)
        links += sum((place / name).is_symlink() for name in folders)
        for name in names:
            if not name.startswith(".") and any(fnmatch(name, one) for one in patterns):
                found[place / name] = place in ours
    return found, links


def _reason(path: Path, ours: bool, masks_too: bool) -> str | None:
    """Return why an image is not a scan, if so."""
    if ours or kind_in(sidecar_of(path)) == MapRecord.kind:
        return _RESULTS
    return _MASKS if not masks_too and _NOT_SCANS.search(stem(path)) else None


def _holds_results(folder: Path) -> bool:
    """Tell whether a folder is that of a study, or a BIDS derivative of ours."""
    return kind_in(folder / PROVENANCE) == StudyRecord.kind or is_our_derivative(folder)


def _site(path: str, top: Path) -> str | None:
    """Return the name of the folder that a file lies in, unless that is the top one."""
    folder = Path(path).parent
    if folder == top:
        return None
    if folder.name != folder.name.strip():
        cause = f"the site would be called {folder.name!r}, with a blank at its end"
        raise FileError(folder, cause, "rename the folder")
    return intern(folder.name)


def _check_sites(folder: Path, scans: list[Subject]) -> None:
    """Refuse the tree of a BIDS dataset, whose folders are not sites."""
    for scan in scans:
        if scan.site in _DATATYPES:
            cause = f"the site of {Path(scan.path).name} would be called {scan.site}"
            hint = "for a BIDS dataset use 'ndflow bids'; otherwise give a table with a column site"
            raise FileError(folder, cause, hint)
