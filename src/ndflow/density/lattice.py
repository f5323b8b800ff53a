"""The lattice of a histogram's bins: counting on it, and moving to a coarser one.

See `ndflow.density.histogram` for what a lattice is and why its widths double.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray

__all__ = ["bounding_widths", "common", "counted", "joined", "snapped"]

_DENSE = 1 << 20  # integers that span less are counted in a table, without sorting


def counted(
    stored: NDArray[np.generic], weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct rows of `stored`, (n, d), and their counts or sums of weights."""
    if stored.shape[1] > 1:
        ones = np.ones(len(stored)) if weights is None else weights
        return joined(stored.astype(np.float64), ones)
    flat = stored[:, 0]
    if flat.size and flat.dtype.kind in "bui":
        low, high = int(flat.min()), int(flat.max())
        if high - low < _DENSE:
            if flat.dtype.kind == "u":  # cannot go below zero, but may exceed int64
                index = (flat - flat.min()).astype(np.int64)
            else:
                index = flat.astype(np.int64)
                index -= low
            table = np.bincount(index, weights)
            occupied = np.flatnonzero(table)
            levels = occupied.astype(np.float64) + float(low)
            return levels[:, np.newaxis], table[occupied].astype(np.float64)
    if weights is None:
        values, counts = np.unique(flat, return_counts=True)
        return values.astype(np.float64)[:, np.newaxis], counts.astype(np.float64)
    return joined(flat.astype(np.float64)[:, np.newaxis], weights)


def joined(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows in order, with equal ones joined and those that count nothing dropped."""
    values = values + 0.0  # -0.0 and 0.0 are one value
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
    """Return the centres of the bins of width `wider` in which the values lie."""
    moved = wider != widths
    if not moved.any():
        return values
    step = np.where(wider > 0, wider, 1.0)
    centres = origin + (np.floor((values - origin) / step) + 0.5) * step
    return np.where(moved, centres, values)


def common(
    one: tuple[FloatArray, FloatArray], two: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the widths and origin of the finest lattice that both of two fit into."""
    (widths, origin), (other_widths, other_origin) = one, two
    if widths.shape != other_widths.shape:
        raise InvalidValueError(
            f"histograms of {widths.size} and of {other_widths.size} channels cannot be added"
        )
    binned, other_binned = widths > 0, other_widths > 0
    both = binned & other_binned
    with np.errstate(divide="ignore", invalid="ignore"):
        doublings = np.log2(other_widths / widths)
    if (both & ((origin != other_origin) | (doublings != np.rint(doublings)))).any():
        raise InvalidValueError(
            "histograms on unrelated bins cannot be added; "
            "make them from data of one type, with the same slope and inter"
        )
    return np.maximum(widths, other_widths), np.where(binned, origin, other_origin)


def bounding_widths(values: FloatArray, widths: FloatArray, origin: FloatArray) -> FloatArray:
    """Return the least widths, doubling from `widths`, that leave no channel too many levels.

    One channel may hold 16,384 levels, which keeps 12-bit data as they are and leaves room for
    stray values; of several channels each may hold 1,024.
    """
    capacity = 1 << (14 if values.shape[1] == 1 else 10)
    return np.array(
        [
            _bounding_width(np.unique(channel), width, start, capacity)
            for channel, width, start in zip(values.T, widths, origin, strict=True)
        ]
    )


def _bounding_width(levels: FloatArray, width: float, origin: float, capacity: int) -> float:
    if len(levels) <= capacity:
        return width
    if width == 0:
        # Well below the least power of two that will do, unless half the levels are stray.
        quarter = len(levels) // 4
        spread = levels[-quarter] - levels[quarter]
        width = float(2.0 ** np.floor(np.log2(spread / (8 * capacity))))
        while len(_occupied(levels, width, origin)) <= capacity:
            width /= 2
    levels = _occupied(levels, width, origin)
    while len(levels) > capacity:
        levels = np.unique(np.floor(levels / 2))
        width *= 2
    return width


def _occupied(levels: FloatArray, width: float, origin: float) -> FloatArray:
    bins: FloatArray = np.floor((levels - origin) / width)
    distinct: FloatArray = bins[np.concatenate([[True], np.diff(bins) > 0])]
    return distinct
