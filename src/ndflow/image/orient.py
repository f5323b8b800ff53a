"""Volumes for display: upright, in slices of square pixels, and small enough for a web page."""

from __future__ import annotations

import gzip

import nibabel
import numpy as np
from nibabel.orientations import apply_orientation, io_orientation

from ndflow.image.mask import Inside
from ndflow.image.volume import Volume
from ndflow.values import FloatArray

__all__ = ["fullest", "slice_at", "small_volume", "square", "upright"]

_MAX_LENGTH = 56  # voxels along each axis of a small volume
_DISPLAY_RANGE = (0.5, 99.5)  # percentiles that become black and white


def upright(volume: Volume, inside: Inside) -> tuple[FloatArray, tuple[float, ...]]:
    """Reorient a volume.

    Parameters
    ----------
    volume : the volume, in any orientation.
    inside : which of its voxels to show, flattened like `Volume.flat`.

    Returns
    -------
    picture : the values along axes that point to the right, forward and up (RAS+); NaN outside.
    spacing : the distance between voxels along each of these axes, in millimetres.
    """
    values = np.asarray(volume.values(volume.flat), np.float64)
    masked = np.where(inside[:] & np.isfinite(values), values, np.nan)
    shaped = masked.reshape(volume.spatial_shape, order="F")
    orientation = io_orientation(volume.affine)  # type: ignore[no-untyped-call]
    picture: FloatArray = apply_orientation(shaped, orientation)  # type: ignore[no-untyped-call]
    spacing = np.linalg.norm(volume.affine[:3, :3], axis=0)[np.argsort(orientation[:, 0])]
    return picture, tuple(spacing.tolist())


def fullest(picture: FloatArray, axis: int) -> int:
    """Return the index along an axis of the slice with the most voxels inside (not NaN)."""
    others = tuple(other for other in range(3) if other != axis)
    return int(np.argmax(np.isfinite(picture).sum(axis=others)))


def slice_at(picture: FloatArray, spacing: tuple[float, ...], axis: int, place: int) -> FloatArray:
    """Return a slice of an upright volume for display, with square pixels.

    Parameters
    ----------
    picture, spacing : as returned by `upright`.
    axis, place : across which axis, and where along it.

    Returns
    -------
    plane : rows from top to bottom. Up (axial: front) is at the top, and right (sagittal: front) is
        on the right.
    """
    first, second = (size for other, size in enumerate(spacing) if other != axis)
    return np.rot90(square(np.take(picture, place, axis=axis), first, second))


def square(plane: FloatArray, first: float, second: float) -> FloatArray:
    """Resample a plane of this spacing to square pixels, each that of the nearest voxel."""
    unit = min(first, second)
    rows, columns = (
        (np.arange(max(1, round(length * size / unit))) * unit / size).astype(int)
        for length, size in zip(plane.shape, (first, second), strict=True)
    )
    square: FloatArray = plane[np.ix_(rows, columns)]
    return square


def small_volume(picture: FloatArray, spacing: tuple[float, ...]) -> bytes:
    """Return an upright volume as a small NIfTI file, for a viewer in a web page.

    Parameters
    ----------
    picture, spacing : as returned by `upright`.

    Returns
    -------
    content : a ``.nii.gz`` file of unsigned bytes, averaged over blocks to at most 56 voxels along
        each axis. 0 is outside, and 1 to 255 span the 0.5th to the 99.5th percentile.
    """
    extent = max(length * size for length, size in zip(picture.shape, spacing, strict=True))
    steps = [max(1, int(np.ceil(extent / _MAX_LENGTH / size - 1e-9))) for size in spacing]
    inside = np.isfinite(picture)
    low, high = np.percentile(picture[inside], _DISPLAY_RANGE).tolist()
    scaled = np.where(inside, np.clip((picture - low) / max(high - low, 1e-300), 0, 1), 0.0)
    levels = np.where(inside, 1 + 254 * scaled, 0.0)
    ends = [(0, -length % step) for length, step in zip(levels.shape, steps, strict=True)]
    padded = np.pad(levels, ends)
    parts = [(length // step, step) for length, step in zip(padded.shape, steps, strict=True)]
    blocks = padded.reshape(*(part for pair in parts for part in pair)).mean(axis=(1, 3, 5))
    affine = np.diag([*(step * size for step, size in zip(steps, spacing, strict=True)), 1.0])
    affine[:3, 3] = -0.5 * np.array(blocks.shape) * np.diag(affine)[:3]
    levels = np.rint(blocks).astype(np.uint8)
    image = nibabel.Nifti1Image(levels, affine)  # type: ignore[no-untyped-call]
    return gzip.compress(image.to_bytes(), 9, mtime=0)
