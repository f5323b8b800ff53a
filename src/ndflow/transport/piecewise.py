"""Straight lines between points: the map of Nyúl's landmarks, and of histograms matched exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, real_array

__all__ = ["PiecewiseLinear"]

_LARGEST = 1e150  # of what is multiplied on the way
_STEEPEST = 1e100


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(IntensityMap):
    """A map of one channel that is straight between its points, and goes on so beyond them.

    Attributes
    ----------
    knots, values : (n,), both strictly increasing.
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        knots = real_array(self.knots, "knots", None)
        if knots.size < 2:
            raise InvalidValueError(f"knots must be at least 2, not {knots.size}")
        values = real_array(self.values, "values", knots.size)
        for name, array in (("knots", knots), ("values", values)):
            if not (array[1:] > array[:-1]).all():
                raise InvalidValueError(f"{name} must be strictly increasing")
            if np.abs(array).max() > _LARGEST:
                raise InvalidValueError(f"{name} must lie within ±{_LARGEST:g}")
            object.__setattr__(self, name, array)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            slopes = np.diff(values) / np.diff(knots)
        if slopes.max() > _STEEPEST or slopes.min() < 1 / _STEEPEST:
            raise InvalidValueError("knots and values must not rise so differently")

    @property
    def channels(self) -> int:
        """One."""
        return 1

    def inverse(self) -> PiecewiseLinear:
        """Return the map through the same points, the other way."""
        return PiecewiseLinear(self.values, self.knots)

    @cached_property
    def _slopes(self) -> FloatArray:
        slopes: FloatArray = np.diff(self.values) / np.diff(self.knots)
        return slopes

    def _cell(self, x: FloatArray) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, self.knots.size - 2)

    def _mapped(self, x: FloatArray) -> FloatArray:
        cell = self._cell(x)
        y: FloatArray = self.values[cell] + self._slopes[cell] * (x - self.knots[cell])
        return y

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._mapped(x), np.log(self._slopes[self._cell(x)])[:, 0]
