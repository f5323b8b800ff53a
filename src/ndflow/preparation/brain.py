"""The brain in a T1w image, found by the neural network of deepbet (``--mask brain``).

deepbet (Fisch et al. 2024) has two networks: the first finds the box around the brain in the whole
head at 128³ voxels, the second outlines the brain in that box at 256³. It was trained on T1w images
of adults, so we refuse files whose names say that they are something else, and masks that cannot be
those of a brain. Smaller doubts are reported with those about any mask (`image.mask_doubts`).

In an image whose surroundings were removed before, the outline is a little too wide, since the
network expects a skull. So voxels of the value 0 are taken away from the mask as far as they are
connected with the outside; zeros that are enclosed, as in ventricles, stay.

The network is run on one thread of the processor and never on a graphics card, so that the same
image gives the same mask, voxel by voxel; scans are worked on in parallel instead. What was
measured is in ``docs/guides/masks.md``.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from functools import cache
from importlib import metadata
from pathlib import PurePath
from typing import Any

import numpy as np
from nibabel.nifti1 import Nifti1Image
from nibabel.orientations import apply_orientation, io_orientation, ornt_transform
from numpy.typing import NDArray

from ndflow._version import installing, not_installed
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import BoolArray
from ndflow.image.mask_doubts import measure_mask
from ndflow.image.subject import ending_of, is_other_contrast
from ndflow.image.volume import Volume

# ── brain masks ───────────────────────────────────────────────────────────────────────────────────

_SMALLEST, _LARGEST = 500.0, 2200.0  # ml: brains of adults are 1000 to 2000 with all their CSF
_CUT = 0.25  # of the largest slice: a brain that lacks a centimetre or more at one end
_TRY = "give a mask of the brain instead (--mask FILE, or the column mask of a table)"


def brain_mask(volume: Volume) -> BoolArray:
    """Find the brain in a T1w image.

    Parameters
    ----------
    volume : the image, in any orientation and any units; voxels that are not finite count as 0.

    Returns
    -------
    inside : which voxels are in the brain, in the spatial shape of the image.

    Raises
    ------
    InvalidValueError : if deepbet is not installed, or the image has no orientation.
    FileError : if the image is not T1w by its name, or no plausible brain is found in it.
    """
    check_deepbet()
    refuse_other_contrasts(volume.path)
    upright, back = _upright(volume)
    found = apply_orientation(_run(volume.path, upright), back)  # type: ignore[no-untyped-call]
    inside = _without_removed(volume, np.asfortranarray(found, dtype=bool))
    figures = measure_mask(volume, inside.reshape(-1, order="F"))
    problem, size = "", figures.volume or 0.0
    if not _SMALLEST <= size <= _LARGEST:
        problem = f"holds {size:,.0f} ml, but brains have {_SMALLEST:,.0f} to {_LARGEST:,.0f} ml"
    elif figures.cut > _CUT:
        problem = f"is cut off: its end is {figures.cut:.0%} as large as its largest slice"
    if problem:
        hint = f"look at the image and at its voxel size, or {_TRY}"
        raise FileError(volume.path, f"what deepbet takes for the brain {problem}", hint)
    return inside


def check_deepbet() -> None:
    """Raise an error if deepbet is not installed, without the second that importing it takes."""
    if missing := not_installed("deepbet", "torch"):
        what = f"finding brains needs {' and '.join(missing)} (the CPU build of torch is enough)"
        raise InvalidValueError(f"{what}; try {installing('prepare')}, or give masks (--mask FILE)")


def deepbet_version() -> str:
    """Return the version of deepbet, for records."""
    check_deepbet()
    return metadata.version("deepbet")


def refuse_other_contrasts(path: str) -> None:
    """Raise an error if the name of a file says that it is not a T1w image.

    >>> refuse_other_contrasts("sub-01_T1w.nii.gz")
    >>> refuse_other_contrasts("sub-01_FLAIR.nii.gz")
    Traceback (most recent call last):
    ndflow.errors.FileError: sub-01_FLAIR.nii.gz: not a T1w image by its name (FLAIR), and deepbet \
finds brains in T1w images only; give a mask of the brain instead (--mask FILE, or the column mask \
of a table)
    """
    suffix = ending_of(PurePath(path).name)
    if is_other_contrast(suffix):
        cause = f"not a T1w image by its name ({suffix}), and deepbet finds brains in T1w images"
        raise FileError(path, f"{cause} only", _TRY)


def refuse_unplaced(volume: Volume) -> None:
    """Refuse a single slice, and an image whose header does not say where its voxels are."""
    if len(volume.spatial_shape) < 3 or min(volume.spatial_shape) < 2:
        raise FileError(volume.path, "a single slice", "give a whole volume")
    if not np.isfinite(volume.affine).all() or np.linalg.matrix_rank(volume.affine[:3, :3]) < 3:
        cause = "its orientation is not known from its header: the affine has no inverse"
        raise FileError(volume.path, cause, "correct its sform or qform, or convert it again")


def _upright(volume: Volume) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the image along axes that point right, forward and up, and the way back."""
    if not volume.placed:
        cause = "an array has no orientation, which deepbet needs"
        raise InvalidValueError(f"{volume.path}: {cause}; give an image of nibabel, or a mask")
    refuse_unplaced(volume)
    values = volume.values(volume.stored).reshape(volume.spatial_shape, order="F")
    bounded = np.where(np.isfinite(values), values, 0)
    # A power of 2 changes no digit, and what is huge fits into float32.
    _, exponent = np.frexp(np.float64(np.abs(bounded.astype(np.float64)).max()))
    scaled = np.ldexp(bounded.astype(np.float64), -int(exponent)).astype(np.float32)
    forth = io_orientation(volume.affine)  # type: ignore[no-untyped-call]
    ras = np.column_stack([np.arange(3), np.ones(3)])
    back = ornt_transform(ras, forth)  # type: ignore[no-untyped-call]
    upright: NDArray[np.float32] = apply_orientation(scaled, forth)  # type: ignore[no-untyped-call]
    return upright, back


def _run(path: str, upright: NDArray[np.float32]) -> NDArray[Any]:
    """Return the mask of an upright image, on one thread and without messages."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            _, mask, _ = _network().run(Nifti1Image(upright, np.eye(4)))  # type: ignore[no-untyped-call]
    except (AssertionError, ValueError) as error:  # how deepbet says that there is nothing
        hint = f"check that it is a T1w image of a head, or {_TRY}"
        raise FileError(path, "deepbet finds no brain in it", hint) from error
    finally:
        torch.set_num_threads(before)
    return np.asarray(mask.dataobj)


@cache
def _network() -> Any:
    """Return deepbet with its weights, which are loaded once."""
    from deepbet.bet import BrainExtraction

    return BrainExtraction(no_gpu=True)


def _without_removed(volume: Volume, inside: BoolArray) -> BoolArray:
    """Return a mask without the zeros that are connected with its outside."""
    values = volume.values(volume.flat[inside.reshape(-1, order="F")])
    removed = volume.is_zero(values) | ~np.isfinite(values)
    if not removed.any():
        return inside
    from scipy import ndimage  # slow to import

    kept = inside.reshape(-1, order="F").copy()
    kept[kept] = ~removed
    filled = ndimage.binary_fill_holes(kept.reshape(inside.shape, order="F"))
    return np.asfortranarray(filled & inside)
