"""A volume as it is stored in a file, with all that is needed to write another one like it.

`read` makes it, and `write` writes another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.files.stream import FileHash
from ndflow.values import FloatArray

Header = Any  # nibabel's headers are not typed

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
    header : nibabel's header; None for an array, and for other formats in memory.
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
        for piece in slices(flat.size):
            yield self.values(flat[piece])


def slices(size: int, length: int = PIECE) -> Iterator[slice]:
    """Yield consecutive slices of a flat array, each of some voxels."""
    return (slice(start, start + length) for start in range(0, size, length))
