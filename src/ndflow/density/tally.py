"""Histograms of large images: counted piece by piece in a table, without sorting.

What comes out is, bit by bit, what `ndflow.density.histogram` makes of all voxels at once.

- Integers, and floats that hold whole numbers only, are counted at the place of their value.
- Other floats are counted in bins whose width is a power of two. A histogram that has more levels
  than it may hold doubles such a width until they fit, and doubling nests the bins; so it does not
  matter that the first, very narrow ones were chosen for the size of the table. If those are few
  enough already, the floats may be few enough to be kept as they are: then there is no short cut.
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

_PLACES = 1 << 18  # of the table
_WHOLE = float(1 << 53)  # up to here doubles tell integers apart


def tally(
    pieces: Pieces,
    *,
    bounds: tuple[int, int] | None = None,
    slope: float = 1.0,
    inter: float = 0.0,
) -> Histogram | None:
    """Count voxels of one channel; None if there are none.

    Parameters
    ----------
    pieces : called once or several times for the same voxels, some at a time: finite, of one type.
    bounds : of integers, between which they all lie, if that is known.
    slope, inter : the scale of what is stored, see `histogram`.
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
    """Count whole numbers that lie close together, whatever type they are stored in."""
    low, high = bounds or (np.inf, -np.inf)
    integers = bounds is not None
    for piece in () if integers else pieces():
        integers = piece.dtype.kind in "bui"
        if not integers and not (piece == np.rint(piece)).all():
            return None
        if piece.size:
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    if not (low <= high and high - low < _PLACES and max(-low, high) < _WHOLE):
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
    """Count floats in narrow bins, if those turn out to be more than a histogram may hold."""
    low, high = np.inf, -np.inf
    for piece in pieces():
        if piece.dtype.kind != "f":
            return None
        if piece.size:
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    low, high = sorted((low * slope + inter, high * slope + inter))
    if not 0 < high - low < np.inf:
        return None
    width = float(2.0 ** np.ceil(np.log2((high - low) / _PLACES)))
    first = np.floor(low / width)
    if not max(abs(first), abs(high / width)) < _WHOLE:
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
