"""Linear interpolants of smooth maps, fine enough for images of 32-bit floats.

The range is divided into equal intervals, so that one multiplication finds the interval of an
intensity, and within each the map is replaced by the straight line between its ends. In an interval
of width h the error is at most ``h² |f''| / 8``, in the middle; intervals are halved until it is
small enough everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray

__all__ = ["LinearInterpolant", "linear_interpolant"]

_FEWEST, _MOST = 1 << 12, 1 << 16  # intervals; more would no longer fit the processor's cache
_TOLERANCE = 2.0**-25  # of the range of results: half the resolution of a 32-bit float there


@dataclass(frozen=True, eq=False, repr=False)
class LinearInterpolant:
    """Straight lines over equal intervals, as returned by `linear_interpolant`.

    Attributes
    ----------
    low, high : the range that the intervals cover.
    slopes, starts : (intervals,), the line of each interval: ``starts + slopes · x``.

    Examples
    --------
    >>> line = LinearInterpolant(0.0, 2.0, np.array([1.0, 3.0]), np.array([0.0, -2.0]))
    >>> line
    LinearInterpolant(2 intervals from 0 to 2)
    >>> line(np.array([0.5, 1.5]))
    array([0.5, 2.5])
    """

    low: float
    high: float
    slopes: FloatArray
    starts: FloatArray

    def __repr__(self) -> str:
        """Return the number of intervals and their range."""
        count = self.slopes.size
        return f"LinearInterpolant({count} intervals from {self.low:g} to {self.high:g})"

    def __call__(self, x: FloatArray) -> FloatArray:
        """Map intensities, which must lie within the range."""
        place = x - self.low
        place *= len(self.slopes) / (self.high - self.low)
        cell: NDArray[np.intp] = place.astype(np.intp)
        np.minimum(cell, len(self.slopes) - 1, out=cell)
        result = self.slopes.take(cell)
        result *= x
        result += self.starts.take(cell)
        return result


def linear_interpolant(imap: IntensityMap, low: float, high: float) -> LinearInterpolant | None:
    """Return the linear interpolant of a map over a range.

    Parameters
    ----------
    imap : an intensity map of one channel.
    low, high : the range.

    Returns
    -------
    The interpolant, which is off by no more than half the resolution of a 32-bit float; None if too
    many intervals would be needed, or if the range or the mapped values are not finite.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> linear_interpolant(Affine(2.0, 1.0), 0.0, 1000.0)
    LinearInterpolant(4096 intervals from 0 to 1000)
    """
    if not (np.isfinite([low, high]).all() and low < high):
        return None
    count = _FEWEST
    while count <= _MOST:
        ends = np.linspace(low, high, count + 1)
        values = imap(ends)
        if not np.isfinite(values).all():
            return None
        middle = imap(0.5 * (ends[1:] + ends[:-1]))
        off = np.abs(middle - 0.5 * (values[1:] + values[:-1])).max()
        if off <= _TOLERANCE * abs(values[-1] - values[0]):
            slopes = np.diff(values) / np.diff(ends)
            return LinearInterpolant(low, high, slopes, values[:-1] - slopes * ends[:-1])
        count *= 2
    return None
