"""Piecewise linear maps: of Nyúl's landmarks, and of histograms matched exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, real_array

__all__ = ["PiecewiseLinear"]

_LARGEST = 1e150  # bound of knots and values, so that products of them are finite
_STEEPEST = 1e100  # largest slope, and inverse of the smallest


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinear(IntensityMap):
    """A piecewise linear map of one channel; its outer pieces continue beyond the outer knots.

    Attributes
    ----------
    knots : (n,), at least two intensities, strictly increasing.
    values : (n,), what they are mapped to, strictly increasing.

    Raises
    ------
    InvalidValueError : knots or values that do not increase, or slopes beyond 1e100 or 1e-100.

    Examples
    --------
    >>> imap = PiecewiseLinear([0.0, 1.0, 3.0], [0.0, 10.0, 12.0])
    >>> imap([-1.0, 0.5, 2.0, 4.0])
    array([-10.,   5.,  11.,  13.])
    >>> imap.inverse()
    PiecewiseLinear(3 points from 0 to 12)
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        knots = real_array(self.knots, "knots", None)
        if knots.size < 2:
            raise InvalidValueError(f"knots must number at least 2, not {knots.size}")
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
            raise InvalidValueError(
                f"slopes from knots to values must lie between {1 / _STEEPEST:g} and {_STEEPEST:g}"
            )

    def __repr__(self) -> str:
        """Return the number and range of the knots."""
        first, last = self.knots[0], self.knots[-1]
        return f"PiecewiseLinear({self.knots.size} points from {first:g} to {last:g})"

    @property
    def channels(self) -> int:
        """One."""
        return 1

    def inverse(self) -> PiecewiseLinear:
        """Return the map with knots and values exchanged."""
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
