"""Histograms of large images: counted chunk by chunk in a table, without sorting.

The result is identical, to the last bit, to that of `ndflow.density.histogram` for all voxels at
once.

- Integers, and floats that are all whole numbers, are counted in a table indexed by value.
- Other floats are counted in narrow bins whose width is a power of two, chosen so that the table
  has a reasonable size. A histogram with more levels than it may hold would double such a width
  until they fit; doubling nests the bins, so it makes no difference that we start from other ones.
  If the occupied bins are few enough to begin with, a histogram might keep the floats as they are:
  then there is no short cut, and the chunks are counted by `histogram` and added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.density.binning import capacity
from ndflow.density.histogram import Histogram, bounded, histogram
from ndflow.values import FloatArray

__all__ = ["Pieces", "tally"]

Pieces = Callable[[], Iterable[NDArray[Any]]]

_TABLE_SIZE = 1 << 18
_EXACT = float(1 << 53)  # doubles represent every integer up to here


def tally(
    pieces: Pieces,
    *,
    bounds: tuple[int, int] | None = None,
    slope: float = 1.0,
    inter: float = 0.0,
) -> Histogram | None:
    """Return the histogram of the voxels of one channel that arrive in chunks.

    Parameters
    ----------
    pieces : a function that returns the chunks, arrays of any shape, finite and of one data type.
        It is called several times, and must return the same voxels each time.
    bounds : the smallest and largest value of integer voxels, if they are known.
    slope, inter : the scaling of the stored values, see `histogram`.

    Returns
    -------
    The histogram, or None if there are no voxels.

    Examples
    --------
    >>> tally(lambda: [np.array([3, 5]), np.array([5, 5, 4])]).counts
    array([1., 1., 3.])
    """
    counted = _whole_numbers(pieces, bounds, slope, inter)
    if counted is None:
        counted = _in_bins(pieces, slope, inter)
    if counted is not None:
        return counted
    total: Histogram | None = None
    for piece in pieces():
        if piece.size:
            part = histogram(piece, slope=slope, inter=inter)
            total = part if total is None else total + part
    return total


def _whole_numbers(
    pieces: Pieces, bounds: tuple[int, int] | None, slope: float, inter: float
) -> Histogram | None:
    """Count whole numbers of a short range, of any data type; None if there are other values."""
    low, high = bounds or (np.inf, -np.inf)
    integers = bounds is not None
    for piece in () if integers else pieces():
        integers = piece.dtype.kind in "bui"
        if not integers and not (piece == np.rint(piece)).all():
            return None
        if piece.size:
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    if not (low <= high and high - low < _TABLE_SIZE and max(-low, high) < _EXACT):
        return None
    first = int(low)
    table = np.zeros(int(high) - first + 1, dtype=np.int64)
    for piece in pieces():
        places = piece.astype(np.intp)
        if first:
            places -= first
        table += np.bincount(places, minlength=table.size)
    occupied = np.flatnonzero(table)
    levels, counts = occupied + first, table[occupied]
    if not occupied.size:
        return None
    if integers:
        return histogram(levels, weights=counts, slope=slope, inter=inter)
    return _bounded(levels.astype(np.float64) * slope + inter, counts, 0.0)


def _in_bins(pieces: Pieces, slope: float, inter: float) -> Histogram | None:
    """Count floats in narrow bins; None if a histogram might keep the floats as they are."""
    low, high = np.inf, -np.inf
    for piece in pieces():
        if piece.dtype.kind != "f":
            return None
        if piece.size:
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    low, high = sorted((low * slope + inter, high * slope + inter))
    if not 0 < high - low < np.inf:
        return None
    width = float(2.0 ** np.ceil(np.log2((high - low) / _TABLE_SIZE)))
    first = np.floor(low / width)
    if not max(abs(first), abs(high / width)) < _EXACT:
        return None
    table = np.zeros(int(np.floor(high / width) - first) + 1, dtype=np.int64)
    for piece in pieces():
        values = piece.astype(np.float64)
        values *= slope
        values += inter
        values /= width
        np.floor(values, out=values)
        values -= first
        table += np.bincount(values.astype(np.intp), minlength=table.size)
    occupied = np.flatnonzero(table)
    if len(occupied) <= capacity(1):
        return None
    return _bounded((occupied + first + 0.5) * width, table[occupied], width)


def _bounded(values: FloatArray, counts: NDArray[np.int64], width: float) -> Histogram:
    widths = np.array([width])
    return bounded(values[:, np.newaxis], counts.astype(np.float64), widths, np.zeros(1))
