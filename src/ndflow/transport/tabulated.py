"""Tabulated maps: computed once, then applied to millions of voxels.

`Tabulated` is a piecewise cubic through known points with known slopes (in Hermite form),

    f(x) = y_i + h [t δ + t (1−t) ((m_i − δ)(1−t) − (m_{i+1} − δ) t)],
    t = (x − x_i)/h,    δ = (y_{i+1} − y_i)/h,

strictly increasing because its slopes are kept within the circle of Fritsch and Carlson,
``m_i² + m_{i+1}² ≤ 9 δ²``, and straight beyond its ends. `tabulate` starts from equal intervals
and halves those in which the table is not close enough to the map.

`LinearInterpolant` is quicker still, and fine enough for images of 32-bit floats. The range is
divided into equal intervals, so that one multiplication finds the interval of an intensity, and
within each the map is replaced by the straight line between its ends. In an interval of width h the
error is at most ``h² |f''| / 8``, in the middle; intervals are halved until it is small enough
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.transport.maps import LARGEST, MAX_POINTS, IntensityMap, rising
from ndflow.values import FloatArray, positive, real_array

_POINTS = 200  # equidistant, to start with
_NARROWEST = 1e-14  # width of an interval, relative to its knots, below which it is not halved
_NOISE = 1e-12  # relative rounding error of a value
_ROUND = 1e-9  # relative tolerance of the condition on slopes, for rounding


@dataclass(frozen=True, eq=False, repr=False)
class Tabulated(IntensityMap):
    """A monotone cubic Hermite interpolant of one channel, with straight tails.

    Attributes
    ----------
    knots : (n,), at least two intensities, strictly increasing.
    values : (n,), what they are mapped to, strictly increasing.
    slopes : (n,), the slopes at the knots, positive, and within the circle that the module
        describes; `smooth_table` shortens slopes that are not.

    Raises
    ------
    InvalidValueError : the interpolant would not be strictly increasing.

    Examples
    --------
    >>> table = Tabulated([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0], [1.0, 0.5, 0.5])
    >>> table
    Tabulated(3 points from 0 to 3)
    >>> table([0.0, 2.0, 5.0])
    array([-1. ,  0.5,  2. ])
    >>> table.inverse()([-1.0, 0.5, 2.0])
    array([0., 2., 5.])
    """

    knots: FloatArray
    values: FloatArray
    slopes: FloatArray

    def __post_init__(self) -> None:
        """Validate that the interpolant is strictly increasing everywhere."""
        knots = rising(self.knots, "knots")
        values = rising(self.values, "values", knots.size)
        slopes = real_array(self.slopes, "slopes", knots.size)
        if not (slopes > 0).all():
            raise InvalidValueError("slopes must be positive")
        with np.errstate(over="ignore", divide="ignore"):
            secants = np.diff(values) / np.diff(knots)
        if (secants > LARGEST).any():
            raise InvalidValueError("knots must not be so close together that slopes overflow")
        if (np.hypot(slopes[:-1], slopes[1:]) > 3 * secants * (1 + _ROUND)).any():
            raise InvalidValueError("slopes must not be so steep that the cubic falls in between")
        self._set(knots=knots, values=values, slopes=slopes)

    def __repr__(self) -> str:
        """Return the number and range of the knots."""
        first, last = self.knots[0], self.knots[-1]
        return f"Tabulated({self.knots.size} points from {first:g} to {last:g})"

    channels = 1

    def inverse(self) -> InverseTabulated:
        """Return the exact inverse of the interpolant."""
        return InverseTabulated(self)

    def _mapped(self, x: FloatArray) -> FloatArray:
        return self._value(*self._located(x))

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        place = self._located(x)
        return self._value(*place), np.log(self._slope(*place))[:, 0]

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The width of each cell, and the slopes at both of its ends minus that of the secant."""
        widths = np.diff(self.knots)
        secants = np.diff(self.values) / widths
        return widths, self.slopes[:-1] - secants, self.slopes[1:] - secants

    def _located(self, x: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the cell of each x, and its position t in it (beyond [0, 1] outside the knots)."""
        cell = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, self.knots.size - 2)
        return cell, (x - self.knots[cell]) / self._cells[0][cell]

    def _value(self, cell: NDArray[np.intp], share: FloatArray) -> FloatArray:
        widths, left, right = self._cells
        t = np.clip(share, 0.0, 1.0)
        h = widths[cell]
        start: FloatArray = self.values[cell]
        step = self.values[cell + 1] - start
        bend = h * t * (1 - t) * (left[cell] * (1 - t) - right[cell] * t)
        outside = np.where(share < 0, self.slopes[0], self.slopes[-1]) * h * (share - t)
        found: FloatArray = start + (t * step + bend) + outside
        return found

    def _slope(self, cell: NDArray[np.intp], share: FloatArray) -> FloatArray:
        _, left, right = self._cells
        t = np.clip(share, 0.0, 1.0)
        m0, m1 = left[cell], right[cell]
        secant = self.slopes[cell] - m0
        bend = m0 * (1 - t) * (1 - 3 * t) + m1 * t * (3 * t - 2)
        return np.maximum(secant + bend, np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class InverseTabulated(IntensityMap):
    """The exact inverse of a tabulated map: Newton's method within a cell, kept in a bracket.

    Attributes
    ----------
    table : the map that is inverted.

    Examples
    --------
    >>> table = Tabulated([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0], [1.0, 0.5, 0.5])
    >>> InverseTabulated(table)([-1.0, 0.5])
    array([0., 2.])
    """

    table: Tabulated

    channels = 1

    def inverse(self) -> Tabulated:
        """Return the table itself."""
        return self.table

    def _mapped(self, x: FloatArray) -> FloatArray:
        table = self.table
        last = table.knots.size - 1
        cell = np.clip(np.searchsorted(table.values, x, side="right") - 1, 0, last - 1)
        low, high = np.zeros(x.shape), np.ones(x.shape)
        step = table.values[cell + 1] - table.values[cell]
        t = np.clip((x - table.values[cell]) / step, 0.0, 1.0)
        inside = np.clip(x, table.values[0], table.values[-1])
        widths = table._cells[0][cell]
        for _ in range(60):
            miss = table._value(cell, t) - inside
            low, high = np.where(miss < 0, t, low), np.where(miss > 0, t, high)
            guess = t - miss / (widths * table._slope(cell, t))
            guess = np.where((guess >= low) & (guess <= high), guess, 0.5 * (low + high))
            moving = (np.abs(guess - t) > 1e-10).any()
            t = np.where(miss == 0, t, guess)
            if not moving:  # Newton's method has just doubled the digits: there are no more
                break
        slope = np.where(x < inside, table.slopes[0], table.slopes[-1])
        result: FloatArray = table.knots[cell] + widths * t + (x - inside) / slope
        return result

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        y = self._mapped(x)
        return y, -self.table._with_log_det(y)[1]


def tabulate(imap: IntensityMap, low: float, high: float, *, tolerance: float = 1e-4) -> Tabulated:
    """Tabulate an increasing map of one channel.

    Parameters
    ----------
    imap : the map.
    low, high : the range of intensities to cover; beyond it the table continues in straight lines.
    tolerance : the largest error, in units of the output; intervals with a larger error are halved.
        The default suits maps to a reference of unit variance.

    Returns
    -------
    A monotone cubic interpolant of the map.

    Raises
    ------
    InvalidValueError : the map is not increasing, has several channels, or would need more than
        65,536 points.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> tabulate(Affine(2.0, 1.0), 0.0, 1000.0)
    Tabulated(200 points from 0 to 1000)
    """
    if imap.channels != 1:
        raise InvalidValueError(f"imap must have one channel to be tabulated, not {imap.channels}")
    if not (np.isfinite([low, high]).all() and low < high):
        raise InvalidValueError(f"low must be less than high, not {low} and {high}")
    positive(tolerance, "tolerance")
    knots = np.linspace(low, high, _POINTS)
    values, slopes = _values_and_slopes(imap, knots)
    while True:
        knots, values, slopes = _rising(knots, values, slopes)
        table = smooth_table(knots, values, slopes)
        widths = np.diff(knots)
        middles = knots[:-1] + 0.5 * widths
        truth, true_slopes = _values_and_slopes(imap, middles)
        value, log_slope = table.with_log_det_jacobian(middles)
        # A wrong slope in the middle is an error next to it, of a tenth of slope × width or more.
        miss = np.maximum(
            np.abs(value - truth), 0.25 * widths * np.abs(np.exp(log_slope) - true_slopes)
        )
        # Half the tolerance, because the error is sampled only there and may be larger elsewhere.
        off = miss > np.maximum(0.5 * tolerance, _NOISE * np.abs(truth))
        off &= (values[:-1] < truth) & (truth < values[1:])
        off &= widths > _NARROWEST * np.maximum(np.abs(knots[:-1]), np.abs(knots[1:]))
        if not off.any():
            return table
        if knots.size + off.sum() > MAX_POINTS:
            raise InvalidValueError(f"more than {MAX_POINTS} points; choose a larger tolerance")
        where = np.flatnonzero(off) + 1
        knots = np.insert(knots, where, middles[off])
        values = np.insert(values, where, truth[off])
        slopes = np.insert(slopes, where, true_slopes[off])


def smooth_table(knots: FloatArray, values: FloatArray, slopes: FloatArray) -> Tabulated:
    """Return the table through given points, with slopes reduced where it would not increase.

    Parameters
    ----------
    knots, values : (n,), both strictly increasing.
    slopes : (n,), positive; reduced until neighbouring slopes lie within the circle of Fritsch and
        Carlson.

    Examples
    --------
    >>> smooth_table(np.arange(3.0), np.array([0.0, 1.0, 1.5]), np.ones(3)).slopes
    array([1., 1., 1.])
    >>> smooth_table(np.arange(2.0), np.array([0.0, 1.0]), np.array([0.75, 10.0])).slopes.round(2)
    array([0.22, 2.99])
    """
    secants = np.diff(values) / np.diff(knots)
    limit = np.full(slopes.shape, np.inf)
    excess = np.hypot(slopes[:-1], slopes[1:]) / (3 * secants)
    factor = np.where(excess > 1, 1 / np.maximum(excess, 1), np.inf)
    limit[:-1] = np.minimum(limit[:-1], factor)
    limit[1:] = np.minimum(limit[1:], factor)
    return Tabulated(knots, values, slopes * np.minimum(limit, 1.0))


def _values_and_slopes(imap: IntensityMap, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and slopes; infinite slopes, as at gaps of a density, become merely steep."""
    values, log_slopes = imap.with_log_det_jacobian(x)
    return values, np.exp(np.clip(log_slopes, -300.0, 300.0))


def _rising(
    knots: FloatArray, values: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Drop the knots at which, due to rounding, the values do not rise."""
    if np.diff(values).min() < -1e-9 * np.abs(values).max() or not values[-1] > values[0]:
        raise InvalidValueError("imap must be increasing to be tabulated")
    top = np.maximum.accumulate(values)
    rises = np.concatenate([[True], top[1:] > top[:-1]])
    return knots[rises], values[rises], slopes[rises]


# ── linear interpolants ───────────────────────────────────────────────────────────────────────────

_FEWEST, _MOST = 1 << 12, 1 << 16  # intervals; more would no longer fit the processor's cache
_TOLERANCE = 2.0**-25  # of the range of results: half the resolution of a 32-bit float there


class LinearInterpolant(NamedTuple):
    """Straight lines over equal intervals, as returned by `linear_interpolant`.

    Attributes
    ----------
    low, high : the range that the intervals cover.
    slopes, starts : (intervals,), the line of each interval: ``starts + slopes · x``.

    Examples
    --------
    >>> line = LinearInterpolant(0.0, 2.0, np.array([1.0, 3.0]), np.array([0.0, -2.0]))
    >>> line(np.array([0.5, 1.5]))
    array([0.5, 2.5])
    """

    low: float
    high: float
    slopes: FloatArray
    starts: FloatArray

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
    >>> linear_interpolant(Affine(2.0, 1.0), 0.0, 1000.0).slopes.size
    4096
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
