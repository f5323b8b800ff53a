"""Where the voxels lie in an image file and what they mean, as its header says.

Headers are checked before they are believed and before memory is spent on what they announce. This
module holds what NIfTI and MGH have in common; `nifti` and `mgh` parse the headers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from nibabel.spatialimages import HeaderDataError

from ndflow.errors import FileError
from ndflow.values import FloatArray

Header = Any  # nibabel's headers are not typed

DAMAGED = "its header is damaged: copy or download it again"
CONVERT = "convert it to a real-valued image first, one for each part or colour"


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the voxels lie in a file, and what they mean.

    Attributes
    ----------
    header : nibabel's header, of the fixed part only.
    shape : the length of each axis, the first one varying fastest.
    dtype : the type of a voxel, with its byte order.
    start : the offset of the first voxel, in bytes.
    slope, inter : a value is ``slope · stored + inter``.
    """

    header: Header
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    slope: float = 1.0
    inter: float = 0.0

    @property
    def size(self) -> int:
        """The size of all voxels, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def shape_problem(shape: tuple[int, ...]) -> tuple[str, str] | None:
    """Return what is wrong with a shape and what to try, or None for a single volume."""
    if not shape or min(shape) < 1:
        return f"an image of the shape {shape} has no voxels", DAMAGED
    if math.prod(shape[3:]) > 1:
        several = f"{math.prod(shape[3:])} volumes in one image, of the shape {shape}"
        return several, "give one volume: extract it (fslroi), or average them (fslmaths -Tmean)"
    return None


def refuse_shape(path: str, shape: tuple[int, ...]) -> None:
    """Raise a FileError unless a shape is that of a single volume."""
    if problem := shape_problem(shape):
        raise FileError(path, *problem)


def affine_of(path: str, header: Header) -> FloatArray:
    """Return the affine from voxels to millimetres."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.array(header.get_best_affine(), dtype=np.float64)
    except (HeaderDataError, ValueError) as error:
        raise FileError(path, f"its orientation is invalid ({error})", DAMAGED) from None


def describes(header: Header, shape: tuple[int, ...], affine: FloatArray) -> bool:
    """Return whether a header has this shape and this affine."""
    same_shape = tuple(header.get_data_shape()) == shape
    return same_shape and np.allclose(header.get_best_affine(), affine, equal_nan=True)
