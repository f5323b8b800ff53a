"""Chords: a smooth map as straight lines, so many that nobody can tell; for images of floats.

The range is cut into equal intervals, so that the interval of an intensity is one multiplication
away, and in each of them the map is the straight line between its ends. In an interval of width h
it is off by ``h² |f''| / 8`` at the most, in the middle; the intervals are halved until that is
little enough everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray

__all__ = ["LinearInterpolant", "linear_interpolant"]

_FEWEST, _MOST = 1 << 12, 1 << 16  # intervals; more would no longer fit a processor's cache
_OFF = 2.0**-25  # of the range of results: half of what a float of 32 bits there resolves


@dataclass(frozen=True, eq=False)
class LinearInterpolant:
    """Straight lines over equal intervals; made by `linear_interpolant`.

    Attributes
    ----------
    low, high : the range they cover.
    slopes, starts : (intervals,), the line of each: ``starts + slopes · x``.
    """

    low: float
    high: float
    slopes: FloatArray
    starts: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """Map intensities of the range."""
        place = x - self.low
        place *= len(self.slopes) / (self.high - self.low)
        cell: NDArray[np.intp] = place.astype(np.intp)
        np.minimum(cell, len(self.slopes) - 1, out=cell)
        result = self.slopes.take(cell)
        result *= x
        result += self.starts.take(cell)
        return result


def linear_interpolant(imap: IntensityMap, low: float, high: float) -> LinearInterpolant | None:
    """Return the chords of a map over a range, or None if too many would be needed."""
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
        if off <= _OFF * abs(values[-1] - values[0]):
            slopes = np.diff(values) / np.diff(ends)
            return LinearInterpolant(low, high, slopes, values[:-1] - slopes * ends[:-1])
        count *= 2
    return None
