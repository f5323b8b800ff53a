"""A folder of images instead of a table: which of them are scans, and which are not.

Many images in a folder are not scans: results of earlier runs, masks, tissue maps. What is skipped
is counted by its reason, so that a scan that is missing will be missed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.files.outputs import sidecar_of, stem
from ndflow.image.subject import Subject
from ndflow.study.bids_names import is_our_derivative
from ndflow.study.plan import PROVENANCE
from ndflow.study.table import Listing
from ndflow.subject.records import MapRecord, StudyRecord

_IMAGES = ("*.nii", "*.nii.gz", "*.mgh", "*.mgz")
_NOT_SCANS = re.compile(r"(^|[_.*-])(mask|brainmask|probseg|dseg|seg|lesion|roi)$", re.IGNORECASE)
_DATATYPES = ("anat", "dwi", "fmap", "func", "perf", "pet")  # folders of BIDS, which are no sites


def read_folder(source: str, out: Path, pattern: str | None, channel: str) -> Listing:
    """Return the images in a folder and below; the site of a scan is the folder it lies in.

    Skipped are results of ours: folders of studies, and images with our sidecar. So are images that
    by their names are masks or the like (``*_mask``, ``*_probseg``, ``*_dseg``, ``*_lesion``),
    unless the pattern asks for just these.

    Parameters
    ----------
    source : where to look.
    out : where not to look, because results go there.
    pattern : what the names are like, for example ``"*_T1w.nii.gz"``. Default: any image.
    channel : what they show.

    Raises
    ------
    FileError
        Where there are no scans, or it is a BIDS dataset, whose folders are not sites.
    """
    folder = Path(source).absolute()
    patterns = _IMAGES if pattern is None else (pattern,)
    masks_too = pattern is not None and _NOT_SCANS.search(stem(pattern)) is not None
    skipped: Counter[str] = Counter()
    scans: list[Subject] = []
    for path, reason in sorted(_below(folder, out), key=lambda one: str(one[0])):
        if reason != _LINKS and not any(fnmatch(path.name, one) for one in patterns):
            continue
        if not reason and not masks_too and _NOT_SCANS.search(stem(path)):
            reason = "masks and tissue maps"
        if reason:
            skipped[reason] += 1
            continue
        place = path.parent
        if place.name in _DATATYPES:
            cause = f"the site of {path.name} would be called {place.name}"
            hint = "for a BIDS dataset use 'ndflow bids'; otherwise give a table with a column site"
            raise FileError(folder, cause, hint)
        site = None if place == folder else place.name.strip()
        scans.append(Subject({channel: str(path)}, site=site, origin=f"image {len(scans) + 1}"))
    if not scans:
        counts = ", ".join(f"{number} {what}" for what, number in sorted(skipped.items()))
        cause = f"no image in it is called {' or '.join(patterns)}"
        cause += f" ({counts} skipped)" if counts else ""
        raise FileError(folder, cause, "choose another folder or --pattern")
    return Listing(scans, source, folder, skipped=skipped)


_RESULTS, _LINKS = "results of ndflow", "links to folders"  # why not


def _below(top: Path, out: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below a folder, and the links to folders, which are not followed.

    With each comes why it is no scan, if so. Hidden files and folders are left out.
    """
    ours: set[Path] = set()
    for root, folders, names in os.walk(top):
        place = Path(root)
        folders[:] = [name for name in folders if not name.startswith(".") and place / name != out]
        yield from ((place / name, _LINKS) for name in folders if (place / name).is_symlink())
        is_study = kind_in(place / PROVENANCE) == StudyRecord.kind
        if place.parent in ours or is_study or is_our_derivative(place):
            ours.add(place)
        for path in (place / name for name in names if not name.startswith(".")):
            result = place in ours or kind_in(sidecar_of(path)) == MapRecord.kind
            yield path, _RESULTS if result else ""
