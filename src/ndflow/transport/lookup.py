"""Look-up tables: the fast way through a map for images of integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, instance, whole

__all__ = ["Lookup"]

_MAX_TABLE = 1 << 24
_EXACT = 1 << 53  # up to here doubles tell integers apart


@dataclass(frozen=True, eq=False)
class Lookup(IntensityMap):
    """A map with the images of a range of integers at hand; the rest goes to the map itself.

    Attributes
    ----------
    base : a map of one channel.
    first, last : the range of integers, both included.
    """

    base: IntensityMap
    first: int
    last: int

    def __post_init__(self) -> None:
        """Validate the range."""
        instance(self.base, "base", IntensityMap)
        if self.base.channels != 1:
            raise InvalidValueError(f"base must have one channel, not {self.base.channels}")
        first = whole(self.first, "first", -_EXACT, _EXACT)
        last = whole(self.last, "last", first, _EXACT)
        if last - first >= _MAX_TABLE:
            raise InvalidValueError(
                f"the range from {first} to {last} is longer than {_MAX_TABLE}; use the map itself"
            )
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "last", last)

    @property
    def channels(self) -> int:
        """One."""
        return 1

    @cached_property
    def table(self) -> FloatArray:
        """The images of first, first + 1, …, last."""
        images = self.base(np.arange(self.first, self.last + 1, dtype=np.float64))
        images.flags.writeable = False
        return images

    def inverse(self) -> IntensityMap:
        """Return the inverse of the map itself."""
        return self.base.inverse()

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Map intensities; integers in the range come from the table."""
        array = np.asarray(x)
        if array.dtype.kind not in "bui":
            return self.base(array)
        if not array.size or (int(array.min()) >= self.first and int(array.max()) <= self.last):
            return np.take(self.table, self._index(array))
        known = (array >= self.first) & (array <= self.last)
        result = np.empty(array.shape)
        result[known] = np.take(self.table, self._index(array[known]))
        result[~known] = self.base(array[~known])
        return result

    def _index(self, array: NDArray[np.generic]) -> NDArray[np.int64]:
        return array.astype(np.int64) - self.first

    def _mapped(self, x: FloatArray) -> FloatArray:
        return self.base._mapped(x)

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.base._with_log_det(x)
