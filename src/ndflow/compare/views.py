"""A scan before and after, small enough for a page: two volumes for a viewer, and three slices."""

from __future__ import annotations

import gzip
from typing import NamedTuple

import nibabel
import numpy as np
from nibabel.orientations import apply_orientation, io_orientation

from ndflow.compare.measure import mask_of
from ndflow.image.mask import Inside
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume
from ndflow.scan.reading import read_masked
from ndflow.study.scan_jobs import Member
from ndflow.values import FloatArray

__all__ = ["BeforeAfter", "before_after", "fullest", "slice_at", "small_volume", "upright"]

_LONGEST = 56  # voxels along an axis of a small volume
_ENDS = (0.5, 99.5)  # percentiles that become black and white


class BeforeAfter(NamedTuple):
    """Two volumes upright (x to the right, y forward, z up); NaN outside the mask.

    Attributes
    ----------
    before, after : the volumes.
    spacing : the distance of voxels along each axis, in millimetres.
    """

    before: FloatArray
    after: FloatArray
    spacing: tuple[float, ...]

    def slices(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return the axial, coronal and sagittal slices of both that show most."""
        places = [(axis, fullest(self.before, axis)) for axis in (2, 1, 0)]
        before, after = (
            [slice_at(picture, self.spacing, *place) for place in places]
            for picture in (self.before, self.after)
        )
        return before, after


def before_after(member: Member, max_bytes: int) -> BeforeAfter:
    """Read a scan and its result."""
    volume, inside, _ = read_masked(member.image, mask_of(member), max_bytes=max_bytes)
    result = read_volume(member.place.image, max_bytes=max_bytes)
    before, spacing = upright(volume, inside)
    return BeforeAfter(before, upright(result, inside)[0], spacing)


def upright(volume: Volume, inside: Inside) -> tuple[FloatArray, tuple[float, ...]]:
    """Return a volume as `BeforeAfter` has it, and the distance of its voxels along each axis."""
    values = np.asarray(volume.values(volume.flat), np.float64)
    picture = np.where(inside[:] & np.isfinite(values), values, np.nan)
    shaped = picture.reshape(volume.spatial_shape, order="F")
    turn = io_orientation(volume.affine)  # type: ignore[no-untyped-call]
    turned: FloatArray = apply_orientation(shaped, turn)  # type: ignore[no-untyped-call]
    spacing = np.linalg.norm(volume.affine[:3, :3], axis=0)[np.argsort(turn[:, 0])]
    return turned, tuple(spacing.tolist())


def fullest(picture: FloatArray, axis: int) -> int:
    """Return which slice across an axis has most voxels inside."""
    others = tuple(other for other in range(3) if other != axis)
    return int(np.argmax(np.isfinite(picture).sum(axis=others)))


def slice_at(picture: FloatArray, spacing: tuple[float, ...], axis: int, place: int) -> FloatArray:
    """Return a slice across an axis as one looks at it, in square pixels."""
    down, across = (size for other, size in enumerate(spacing) if other != axis)
    return np.rot90(_square(np.take(picture, place, axis=axis), down, across))


def _square(plane: FloatArray, down: float, across: float) -> FloatArray:
    """Return a plane with pixels as long as they are wide, each that of the nearest voxel."""
    unit = min(down, across)
    rows, columns = (
        (np.arange(max(1, round(length * size / unit))) * unit / size).astype(int)
        for length, size in zip(plane.shape, (down, across), strict=True)
    )
    square: FloatArray = plane[np.ix_(rows, columns)]
    return square


def small_volume(picture: FloatArray, spacing: tuple[float, ...]) -> bytes:
    """Return a volume as NIfTI of bytes, compressed, with a few dozen voxels along each axis."""
    coarse = max(length * size for length, size in zip(picture.shape, spacing, strict=True))
    steps = [max(1, int(np.ceil(coarse / _LONGEST / size - 1e-9))) for size in spacing]
    inside = np.isfinite(picture)
    low, high = np.percentile(picture[inside], _ENDS).tolist()
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
