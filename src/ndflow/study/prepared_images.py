"""The images of a prepared scan, on its own grid: written with its geometry and header.

- The corrected scan is float32, so that no value is rounded away, whatever its units.
- Masks are of 0 and 1, 8 bits.
- Tissue probabilities are stored in 8 bits as multiples of 1/255, which is far below what a
  segmentation can tell. The three maps of a head of 1 × 1.33 × 1.33 mm then take 1.9 MB instead of
  7.7 in float32, for a fifth of a second more. The three probabilities of a voxel are rounded
  together, so that their sum never exceeds 1.
- Tissue probability maps that were given are copied as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents
from ndflow.files.stream import sha256_of
from ndflow.image.headers import nifti_header
from ndflow.image.mask import BRAIN, holds_found_brain, mark_found_brain
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.image.volume import Volume
from ndflow.image.write import Written, write_volume
from ndflow.options import Options
from ndflow.preparation.brain import brain_mask, deepbet_version
from ndflow.preparation.grid import Bools, Map
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import ScanModel
from ndflow.subject.results import hashes
from ndflow.subject.voxels import selection

_LEVELS = 255
# The largest float32 whose 255-fold does not exceed 1: the header stores no more digits.
STEP = float(np.nextafter(np.float32(1 / _LEVELS), np.float32(0)))


def write_on_grid(
    path: Path,
    like: Volume,
    array: NDArray[Any],
    *,
    keep: Sequence[str],
    dtype: str = "float32",
    scaling: tuple[float, float] = (1.0, 0.0),
    then: Callable[[Written], None] | None = None,
) -> str:
    """Write an image on the grid of a scan, and return its hash.

    Parameters
    ----------
    path : the file, which is replaced if it exists.
    like : the scan.
    array : the stored voxels.
    keep : the files that must not be replaced.
    dtype, scaling, then : see `write_volume`.
    """
    flat = array.reshape(-1, order="F")
    options: dict[str, Any] = {"dtype": dtype, "scaling": scaling, "then": then}
    written = write_volume(path, like, [flat], force=True, inputs=keep, **options)
    return written.sha256[0]


def write_mask(
    path: Path, like: Volume, inside: Bools, *, keep: Sequence[str], deepbet: str | None = None
) -> str:
    """Write a mask, and return its hash.

    Parameters
    ----------
    path, like, keep : as for `write_on_grid`.
    inside : which voxels are inside.
    deepbet : the version that found the brain, which the header then names.
    """
    if deepbet is not None:
        header = nifti_header(like, "uint8")
        mark_found_brain(header, deepbet)
        like = replace(like, header=header)
    return write_on_grid(path, like, inside, keep=keep, dtype="uint8")


def write_probabilities(path: Path, like: Volume, levels: NDArray[np.uint8], **keep: Any) -> str:
    """Write a tissue probability map, in steps as of `in_steps`; else as for `write_on_grid`."""
    return write_on_grid(path, like, levels, dtype="uint8", scaling=(STEP, 0.0), **keep)


def copy_map(path: Path, given: Volume, *, keep: Sequence[str]) -> str:
    """Write a tissue probability map as it was given; parameters as for `write_on_grid`."""
    dtype = given.stored.dtype.newbyteorder("=").name
    scaling = float(given.slope), float(given.inter)
    return write_on_grid(path, given, given.stored, keep=keep, dtype=dtype, scaling=scaling)


def in_steps(tissues: Map) -> NDArray[np.uint8]:
    """Return probabilities as multiples of 1/255 whose sum is that of the probabilities, rounded.

    Each is rounded down, and what is missing of the sum goes to those that lost most.

    Parameters
    ----------
    tissues : (3, ...), whose sum is at most 1.

    Examples
    --------
    >>> in_steps(np.array([[0.5], [0.25], [0.25]], np.float32)).ravel().tolist()
    [127, 64, 64]
    """
    levels = np.zeros(tissues.shape, np.uint8)
    some = tissues.any(axis=0)
    exact = np.clip(tissues[:, some], 0, 1).astype(np.float64) * _LEVELS
    down = np.floor(exact)
    missing = np.minimum(np.rint(exact.sum(axis=0)), _LEVELS) - down.sum(axis=0)
    order = np.argsort(down - exact, axis=0, kind="stable")  # who lost most comes first
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(exact))[:, np.newaxis], axis=0)
    levels[:, some] = down + (rank < missing)
    return levels


# ── masks that a study keeps ──────────────────────────────────────────────────────────────────────
# Brain masks that a study finds (``--mask brain``), as files: OUT/masks/<name>.nii.gz.
#
# A mask is found once, when the density of its scan is estimated; everything later reads the file,
# so that the network runs once for each scan, and people can look at what it found. The record of
# the density holds the hashes of image and mask, so a mask is used again only for the image that it
# was found in, by the same version of deepbet, and if nobody has changed it since. Its header says
# that it is ours.


def keeps_mask(scan: Scan) -> bool:
    """Tell whether the study finds the mask of a scan and keeps it as a file."""
    return isinstance(scan.mask, str) and scan.mask == BRAIN


def found_with(scans: Iterable[Scan]) -> dict[str, str]:
    """Return the version of what finds masks, if some are to be found and kept."""
    return {"deepbet": deepbet_version()} if any(map(keeps_mask, scans)) else {}


def with_kept_mask(scan: Scan, paths: ResultPaths) -> Scan:
    """Return a scan with the file of its mask, if the study keeps one; otherwise the same scan."""
    return replace(scan, mask=str(paths.mask)) if keeps_mask(scan) else scan


def find_mask(scan: Scan, paths: ResultPaths, options: Options) -> Scan:
    """Find the mask of a scan, if it is to be kept, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    options : how files are read.

    Returns
    -------
    scan : with the file of its mask; the same scan, if the study keeps none.
    """
    if not keeps_mask(scan) or _found_before(scan, paths):
        return with_kept_mask(scan, paths)
    volume = read_volume(scan.image, max_bytes=options.max_bytes)
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
