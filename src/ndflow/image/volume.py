"""One volume of an image as it is stored, with what is needed to write another one like it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.image.headers import Header
from ndflow.values import FloatArray

__all__ = ["PIECE", "Volume"]

PIECE = 1 << 18  # voxels at a time: few enough for a processor's cache

_WHOLE_STEP = 1e-2  # of a step of scaled integers: what the rounding of a header may amount to


@dataclass(frozen=True, eq=False)
class Volume:
    """One volume, as it is stored.

    Attributes
    ----------
    path : the file, or what messages call an image that is none.
    files : every file that it was read from; none for an image in memory.
    stored : the voxels as they are stored, read-only, in Fortran order.
    slope, inter : a value is ``slope · stored + inter``.
    header : nibabel's header.
    affine : from voxels to millimetres.
    placed : whether that means anything; a bare array lies nowhere.
    """

    path: str
    files: tuple[str, ...]
    stored: NDArray[Any]
    slope: float
    inter: float
    header: Header
    affine: FloatArray
    placed: bool = True

    def __post_init__(self) -> None:
        """Protect the arrays."""
        for array in (self.stored, self.affine):
            array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self.stored.shape

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        """The length of the axes of space: those of length 1 that follow are left out."""
        return self.stored.shape[:3]

    @property
    def unscaled_integers(self) -> bool:
        """Whether the values are the integers that are stored, which are always finite."""
        return self.stored.dtype.kind in "bui" and self.slope == 1 and self.inter == 0

    @property
    def flat(self) -> NDArray[Any]:
        """The stored voxels one after the other, as in the file; not a copy."""
        return self.stored.reshape(-1, order="F")

    def values(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the values of stored voxels: the same array where there is no scaling."""
        if self.slope == 1 and self.inter == 0:
            return stored
        return stored * np.float64(self.slope) + self.inter

    def is_zero(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which values are 0.

        Scaled integers are 0 where they are within 1/100 of their step of it, since the scaling
        stands in the header with seven digits only.
        """
        if self.stored.dtype.kind in "ui" and self.inter != 0:
            return np.asarray(np.abs(values) <= _WHOLE_STEP * abs(self.slope))
        return np.asarray(values == 0)

    def pieces(self, length: int = PIECE) -> Iterator[NDArray[Any]]:
        """Yield all values, flattened like the file, some at a time."""
        flat = self.flat
        for start in range(0, flat.size, length):
            yield self.values(flat[start : start + length])
