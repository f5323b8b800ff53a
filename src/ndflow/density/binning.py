"""The lattice of a histogram's bins: counting on it, and moving to a coarser one.

See `ndflow.density.histogram` for what the lattice is and why bin widths are doubled.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ndflow.values import FloatArray

QUANTILE_LEVELS: FloatArray = np.arange(1, 200) / 200  # at which distributions are compared
QUANTILE_LEVELS.flags.writeable = False
_TAIL = np.array([0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 4e-3])
TAIL_LEVELS: FloatArray = np.concatenate([_TAIL, 1 - _TAIL[::-1]])  # what lies beyond those
TAIL_LEVELS.flags.writeable = False

CAPACITY = 1 << 14  # levels of a histogram: 12-bit data as they are, with room for outliers

_LARGEST = float(np.finfo(np.float64).max)
_DENSE = 1 << 22  # integers with a smaller span are counted in a table, without sorting
_KEYS = 1 << 62  # rows of integers with a smaller span get a number each, which sorts faster


def midpoint_edges(levels: FloatArray) -> FloatArray:
    """Return the edges of bins around increasing levels.

    Parameters
    ----------
    levels : (n,), at least two, increasing.

    Returns
    -------
    (n + 1,): the midpoints of neighbouring levels, and on either side an outer edge as far from the
    outermost level as the midpoint on its other side. Halves are added, rather than sums halved, so
    that levels near the largest double do not overflow; outer edges are at most that.

    Examples
    --------
    >>> midpoint_edges(np.array([0.0, 1.0, 3.0]))
    array([-0.5,  0.5,  2. ,  4. ])
    """
    middles = 0.5 * levels[1:] + 0.5 * levels[:-1]
    with np.errstate(over="ignore"):
        first = max(2 * (levels[0] - 0.5 * middles[0]), -_LARGEST)
        last = min(2 * (levels[-1] - 0.5 * middles[-1]), _LARGEST)
    return np.concatenate([[first], middles, [last]])


def counted(
    stored: NDArray[np.generic], weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct rows of `stored`, (n, d), and the count or sum of weights of each."""
    if stored.size and stored.dtype.kind in "bui":
        lows = [int(column.min()) for column in stored.T]
        spans = [int(column.max()) - low + 1 for column, low in zip(stored.T, lows, strict=True)]
        if math.prod(spans) < _KEYS:
            return _counted_integers(stored, weights, lows, spans)
    if weights is None and stored.shape[1] == 1:
        values, counts = np.unique(stored[:, 0], return_counts=True)
        return values.astype(np.float64)[:, np.newaxis], counts.astype(np.float64)
    ones = np.ones(len(stored)) if weights is None else weights
    return joined(stored.astype(np.float64), ones)


def _counted_integers(
    stored: NDArray[np.generic], weights: FloatArray | None, lows: list[int], spans: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Encode each row as one integer, count those, and decode the occupied ones."""
    keys = _above(stored[:, 0], lows[0])
    for column, low, span in zip(stored.T[1:], lows[1:], spans[1:], strict=True):
        keys *= span
        keys += _above(column, low)
    if math.prod(spans) < _DENSE:
        table = np.bincount(keys, weights)
        occupied = np.flatnonzero(table)
        counts = table[occupied].astype(np.float64)
    else:
        occupied, inverse = np.unique(keys, return_inverse=True)
        counts = np.bincount(inverse, weights).astype(np.float64)
    occupied, counts = occupied[counts > 0], counts[counts > 0]
    columns = []
    for low, span in zip(reversed(lows), reversed(spans), strict=True):
        occupied, remainder = np.divmod(occupied, span)
        # Added as integers, so that the rounding to a double depends on the value alone.
        kind = np.int64 if low < 0 else np.uint64
        columns.append((remainder.astype(kind) + kind(low)).astype(np.float64))
    return np.stack(columns[::-1], axis=1), counts


def _above(column: NDArray[np.generic], low: int) -> NDArray[np.int64]:
    """Return integers minus the smallest of them."""
    if column.dtype == np.uint64:  # may exceed int64, but the difference does not
        return (column.astype(np.uint64) - np.uint64(low)).astype(np.int64)
    result = column.astype(np.int64)
    if low:
        result -= low
    return result


def joined(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows in lexicographic order, equal ones joined and empty ones dropped."""
    values = values + 0.0  # so that -0.0 and 0.0 are one value
    if not counts.all():
        keep = counts > 0
        values, counts = values[keep], counts[keep]
    if values.shape[1] > 1 or (values[1:] < values[:-1]).any():
        order = np.lexsort(values.T[::-1])
        values, counts = values[order], counts[order]
    new = (values[1:] != values[:-1]).any(axis=1)
    if new.all():
        return values, counts
    first = np.concatenate([[0], np.flatnonzero(new) + 1])
    return values[first], np.add.reduceat(counts, first)


def snapped(
    values: FloatArray, widths: FloatArray, wider: FloatArray, origin: FloatArray
) -> FloatArray:
    """Return the centres of the bins of widths `wider` that the values fall into."""
    moved = wider != widths
    if not moved.any():
        return values
    step = np.where(wider > 0, wider, 1.0)
    centres = origin + (np.floor((values - origin) / step) + 0.5) * step
    return np.where(moved, centres, values)


def bounding_width(values: FloatArray, width: float, origin: float) -> float:
    """Double a width until no more than `CAPACITY` bins are occupied, and return it."""
    levels = _distinct(values)
    if len(levels) <= CAPACITY:
        return width
    if width == 0:
        # Well below the smallest power of two that suffices, unless half the levels are outliers.
        quarter = len(levels) // 4
        spread = levels[-quarter] - levels[quarter]
        width = float(2.0 ** np.floor(np.log2(spread / (8 * CAPACITY))))
        while len(_distinct(np.floor((levels - origin) / width))) <= CAPACITY:
            width /= 2
    bins = _distinct(np.floor((levels - origin) / width))
    while len(bins) > CAPACITY:
        bins = _distinct(np.floor(bins / 2))
        width *= 2
    return width


def _distinct(values: FloatArray) -> FloatArray:
    """Like `numpy.unique`, but without sorting what is sorted already."""
    if not values.size:
        return values
    steps = np.diff(values)
    if (steps < 0).any():
        values = np.sort(values)
        steps = np.diff(values)
    distinct: FloatArray = values[np.concatenate([[True], steps > 0])]
    return distinct
