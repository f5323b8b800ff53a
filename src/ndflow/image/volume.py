"""A volume as it is stored in a file, with all that is needed to write another one like it.

Headers are checked before they are believed and before memory is spent on what they announce. This
module holds what NIfTI and MGH have in common; `nifti` and `mgh` parse the headers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.values import FloatArray

Header = Any  # nibabel's headers are not typed

DAMAGED = "its header is damaged: copy or download it again"
CONVERT = "convert it to a real-valued image first, one for each part or colour"
PIECE = 1 << 18  # voxels at a time: few enough to fit the processor's cache

_ZERO_TOLERANCE = 1e-2  # in steps of scaled integers: the rounding error of a header


@dataclass(frozen=True, eq=False)
class Volume:
    """One volume, as it is stored.

    Attributes
    ----------
    path : the file, or what messages call an image that has no file.
    files : all files that it was read from, with their hashes; none for an image in memory.
    stored : the voxels as they are stored, read-only, in Fortran order.
    slope, inter : a value is ``slope · stored + inter``.
    header : nibabel's header.
    affine : from voxels to millimetres.
    placed : whether the affine is meaningful; a bare array has no place in space.
    """

    path: str
    files: tuple[FileHash, ...]
    stored: NDArray[Any]
    slope: float
    inter: float
    header: Header
    affine: FloatArray
    placed: bool = True

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for array in (self.stored, self.affine):
            array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.stored.shape

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        """The length of each spatial axis, without the axes of length 1 that may follow."""
        return self.stored.shape[:3]

    @property
    def unscaled_integers(self) -> bool:
        """Whether the values are the stored integers themselves, and so always finite."""
        return self.stored.dtype.kind in "bui" and self.slope == 1 and self.inter == 0

    @property
    def voxel_mm3(self) -> float:
        """The volume of a voxel in mm³, also where the axes are not at right angles."""
        return abs(float(np.linalg.det(self.affine[:3, :3])))

    @property
    def spatial_values(self) -> NDArray[Any]:
        """All values, in the spatial shape."""
        return np.asarray(self.values(self.stored.reshape(self.spatial_shape, order="F")))

    @property
    def flat(self) -> NDArray[Any]:
        """The stored voxels in the order of the file; a view, not a copy."""
        return self.stored.reshape(-1, order="F")

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the values of stored voxels; without scaling, the same array."""
        if self.slope == 1 and self.inter == 0:
            return stored
        values: NDArray[np.float64] = stored * np.float64(self.slope)
        values += self.inter
        return values

    def is_zero(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are 0.

        Scaled integers count as 0 within 1/100 of their step, since the header stores the scaling
        with seven digits only.
        """
        if self.stored.dtype.kind in "ui" and self.inter != 0:
            return np.asarray(np.abs(values) <= _ZERO_TOLERANCE * abs(self.slope))
        return np.asarray(values == 0)

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield all values in the order of the file, some at a time."""
        flat = self.flat
        for start in range(0, flat.size, PIECE):
            yield self.values(flat[start : start + PIECE])


# ── what headers say ──────────────────────────────────────────────────────────────────────────────


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
