"""Brain masks that a study finds (``--mask brain``), as files: OUT/masks/<name>.nii.gz.

A mask is found once, when the density of its scan is estimated; everything later reads the file, so
that the network runs once for each scan, and people can look at what it found. The record of the
density holds the hashes of image and mask, so a mask is used again only for the image that it was
found in, by the same version of deepbet, and if nobody has changed it since. Its header says that
it is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents
from ndflow.files.stream import sha256_of
from ndflow.image.mask import BRAIN, holds_found_brain
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.preparation.brain_mask import brain_mask, deepbet_version
from ndflow.scan.reading import selection
from ndflow.scan.records import ScanModel
from ndflow.scan.results import hashes
from ndflow.scan.settings import Reading
from ndflow.study.plan import ResultPaths
from ndflow.study.preparing.prepared_images import write_mask

__all__ = ["find_mask", "found_with", "is_our_mask", "keeps_mask", "with_kept_mask"]


def keeps_mask(scan: Scan) -> bool:
    """Tell whether the study finds the mask of a scan and keeps it as a file."""
    return isinstance(scan.mask, str) and scan.mask == BRAIN


def found_with(scans: Iterable[Scan]) -> dict[str, str]:
    """Return the version of what finds masks, if some are to be found and kept."""
    return {"deepbet": deepbet_version()} if any(map(keeps_mask, scans)) else {}


def with_kept_mask(scan: Scan, paths: ResultPaths) -> Scan:
    """Return a scan with the file of its mask, if the study keeps one; otherwise the same scan."""
    return replace(scan, mask=str(paths.mask)) if keeps_mask(scan) else scan


def find_mask(scan: Scan, paths: ResultPaths, reading: Reading) -> Scan:
    """Find the mask of a scan, if it is to be kept, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    reading : how files are read.

    Returns
    -------
    scan : with the file of its mask; the same scan, if the study keeps none.
    """
    if not keeps_mask(scan) or _found_before(scan, paths):
        return with_kept_mask(scan, paths)
    volume = read_volume(scan.image, max_bytes=reading.max_bytes)
    inside = brain_mask(volume)
    paths.mask.parent.mkdir(parents=True, exist_ok=True)
    write_mask(paths.mask, volume, inside, keep=(), deepbet=deepbet_version())
    return with_kept_mask(scan, paths)


def _found_before(scan: Scan, paths: ResultPaths) -> bool:
    """Tell whether the mask is there, as it was found in this image by this version of deepbet."""
    try:
        before = ScanModel.read(paths.model)
        now = (sha256_of(paths.mask),)
        image = contents(hashes({"image": scan.files()["image"]}))
    except FileError:
        return False
    found, chosen = before.settings or {}, selection(scan)
    same_way = all(found.get(name) == chosen[name] for name in ("mask", "deepbet"))
    return same_way and dict(before.sha256 or {}).items() >= {**image, "mask": now}.items()


def is_our_mask(path: Path) -> bool:
    """Tell whether a file is a mask that a study has found."""
    try:
        return holds_found_brain(read_volume(path).header)
    except FileError:
        return False
