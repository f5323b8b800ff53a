"""Histogram: occupied bins and their counts.

Bins form a lattice: bin j of a channel covers ``[origin + j·width, origin + (j+1)·width)`` and is
represented by its centre. The lattice depends on the kind of data:

- *Integers*, possibly scaled (``slope·i + inter``), have a quantum, the slope. Bins are one quantum
  wide and shifted by half a quantum, so that each level is the centre of its bin.
- *Floats* start with width 0: the values are kept as they are.

If that gives more levels than a histogram may hold, the width is doubled until they fit (floats
start from a power of two). Doubling nests the bins, and the number of occupied levels can only
shrink with the width and grow with the data. The width is therefore a function of the data alone,
and not of how narrow the bins were at first, which lets `tally` count in a table. Since only
occupied bins are kept, one voxel of 1e30 costs one bin, and no resolution.

It matters that the width is a whole multiple of the quantum: otherwise some bins hold one level
more than others, and the histogram looks like a comb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.density import binning
from ndflow.density.binning import CAPACITY
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.values import FloatArray, Value, einsum, real, real_array


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Value):
    """Occupied bins, sorted by value, and their counts.

    Attributes
    ----------
    values : (n, d), the centres of the bins; may be given as (n,) for one channel, and in any
        order. Equal values are joined and empty bins dropped.
    counts : (n,), positive: numbers of voxels, or sums of their weights.
    widths : (d,), the bin width in each channel; 0, the default, where values are exact.
    origin : (d,), an edge of the lattice of bins; 0 by default.

    Raises
    ------
    DegenerateDataError : all counts are zero.

    Examples
    --------
    >>> scan = Histogram([10.0, 12.0, 11.0], [4.0, 1.0, 3.0])
    >>> scan
    Histogram(levels=3, voxels=8)
    >>> scan.values[:, 0]
    array([10., 11., 12.])
    >>> scan.mean()
    array([10.625])
    """

    values: FloatArray
    counts: FloatArray
    widths: FloatArray = None  # type: ignore[assignment]  # always an array once it is made
    origin: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Validate, sort, join equal values and drop empty bins."""
        values = real_array(self.values, "values", None, None)
        counts = real_array(self.counts, "counts", len(values))
        d = values.shape[1]
        zeros = np.zeros(d)
        widths = real_array(zeros if self.widths is None else self.widths, "widths", d)
        origin = real_array(zeros if self.origin is None else self.origin, "origin", d)
        if d == 0:
            raise InvalidValueError("values must have at least one channel")
        if (counts < 0).any():
            raise InvalidValueError("counts must not be negative")
        if (widths < 0).any():
            raise InvalidValueError("widths must not be negative")
        if not counts.any():
            raise DegenerateDataError("there is no voxel to count; check the mask")
        values, counts = binning.joined(values, counts)
        values = real_array(values, "values", *values.shape)
        counts = real_array(counts, "counts", *counts.shape)
        self._set(values=values, counts=counts, widths=widths, origin=origin)

    def __repr__(self) -> str:
        """Return the number of occupied levels and of voxels."""
        several = f", channels={self.channels}" if self.channels > 1 else ""
        return f"Histogram(levels={self.counts.size}, voxels={self.total:.3g}{several})"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return int(self.values.shape[1])

    @property
    def total(self) -> float:
        """The number of voxels, or the sum of their weights."""
        return float(self.counts.sum())

    def mean(self) -> FloatArray:
        """Return the mean of the binned data, (d,)."""
        return einsum("n,ni->i", self.counts, self.values) / self.total

    def covariance(self) -> FloatArray:
        """Return the covariance of the binned data, (d, d)."""
        centred = self.values - self.mean()
        return einsum("n,ni,nj->ij", self.counts, centred, centred) / self.total

    def quantile(self, probability: ArrayLike, channel: int = 0) -> FloatArray:
        """Return quantiles of one channel.

        Parameters
        ----------
        probability : numbers from 0 to 1, in any shape.
        channel : the index of the channel.

        Returns
        -------
        For each probability the smallest level with at least this share of the counts at or below
        it, in the shape of `probability`.
        """
        levels, counts = binning.joined(self.values[:, [channel]], self.counts)
        share = np.cumsum(counts) / counts.sum()
        where = np.searchsorted(share, np.asarray(probability, dtype=np.float64) - 1e-12)
        chosen: FloatArray = levels[np.minimum(where, len(levels) - 1), 0]
        return chosen

    def coarsened(self, widths: FloatArray, origin: FloatArray) -> Histogram:
        """Return the histogram on a coarser lattice, which must contain the present one.

        Parameters
        ----------
        widths, origin : (d,), of the new lattice.
        """
        values = binning.snapped(self.values, self.widths, widths, origin)
        return Histogram(values, self.counts, widths, origin)


def histogram(
    voxels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    slope: float = 1.0,
    inter: float = 0.0,
) -> Histogram:
    """Return the histogram of the finite voxels of one channel inside a mask.

    Parameters
    ----------
    voxels : array of any shape and real data type.
    mask : array of the same shape, non-zero inside. Default: all voxels.
    weights : the weight of each voxel, in the same shape; for example its tissue probability.
    slope, inter : the scaling of stored values, ``value = slope·stored + inter``. The slope is the
        quantum of integer data.

    Returns
    -------
    The histogram, of exact values for integers and moderate numbers of floats, and of bins
    otherwise.

    Raises
    ------
    InvalidValueError : shapes that do not fit, negative weights, or a slope of zero.
    DegenerateDataError : there is no finite voxel inside the mask.

    Examples
    --------
    >>> image = np.array([[0, 7, 9], [0, 7, 8]])
    >>> brain = histogram(image, mask=image > 0)
    >>> brain
    Histogram(levels=3, voxels=4)
    >>> brain.counts
    array([2., 1., 1.])
    """
    stored, heavy = _selected(np.asarray(voxels), mask, weights)
    slope, inter = real(slope, "slope"), real(inter, "inter")
    if slope == 0:
        raise InvalidValueError("slope must not be zero")
    levels, counts = binning.counted(stored[:, np.newaxis], heavy)
    width = 0.0 if stored.dtype.kind == "f" else abs(slope)
    origin = inter - 0.5 * width if width else 0.0
    return _bounded(levels[:, 0] * slope + inter, counts, width, origin)


def _selected(
    voxels: NDArray[np.generic], mask: ArrayLike | None, weights: ArrayLike | None
) -> tuple[NDArray[np.generic], FloatArray | None]:
    """Return the finite voxels inside the mask, (n,), and their weights."""
    if voxels.dtype.kind not in "buif":
        raise InvalidValueError(f"voxels must be real numbers, not of the type {voxels.dtype}")
    flat = voxels.reshape(-1)
    heavy = None if weights is None else np.asarray(_of_shape(weights, "weights", voxels), float)
    keep = np.isfinite(flat)
    if mask is not None:
        keep &= _inside(_of_shape(mask, "mask", voxels))
    if not keep.all():
        flat, heavy = flat[keep], None if heavy is None else heavy[keep]
    if heavy is not None and not (np.isfinite(heavy).all() and (heavy >= 0).all()):
        raise InvalidValueError("weights must be finite and not negative inside the mask")
    return flat, heavy


def _inside(mask: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where a mask is non-zero; NaN is outside."""
    inside = np.asarray(mask if mask.dtype == np.bool_ else mask != 0, dtype=np.bool_)
    if mask.dtype.kind == "f":
        inside &= ~np.isnan(mask.astype(np.float64))
    return inside


def _of_shape(array: ArrayLike, name: str, voxels: NDArray[np.generic]) -> NDArray[np.generic]:
    given = np.asarray(array)
    if given.shape != voxels.shape:
        raise InvalidValueError(f"{name} must have the shape {voxels.shape}, not {given.shape}")
    return given.reshape(-1)


def _bounded(
    values: FloatArray, counts: NDArray[Any], width: float, origin: float = 0.0
) -> Histogram:
    """Return a histogram, its bins widened until it has no more levels than it may hold."""
    wide, start = np.array([binning.bounding_width(values, width, origin)]), np.array([origin])
    centres = binning.snapped(values[:, np.newaxis], np.array([width]), wide, start)
    return Histogram(centres, counts, wide, start)


# ── counting chunk by chunk ───────────────────────────────────────────────────────────────────────
# The result is identical, to the last bit, to that of `histogram` for all voxels at once.
#
# - Integers, and floats that are all whole numbers, are counted in a table indexed by value.
# - Other floats are counted in narrow bins whose width is a power of two, chosen so that the table
#   has a reasonable size. A histogram with more levels than it may hold would double such a width
#   until they fit; doubling nests the bins, so it makes no difference that we start from other
#   ones. If the occupied bins are few enough to begin with, a histogram might keep the floats as
#   they are: then there is no short cut, and `histogram` counts all chunks together.

Pieces = Callable[[], Iterable[NDArray[Any]]]

_TABLE_SIZE = 1 << 18
_EXACT = float(1 << 53)  # doubles represent every integer up to here


def tally(
    pieces: Pieces, *, bounds: tuple[int, int] | None = None, slope: float = 1.0, inter: float = 0.0
) -> Histogram:
    """Return the histogram of the voxels of one channel that arrive in chunks.

    Parameters
    ----------
    pieces : a function that returns the chunks, arrays of any shape, finite and of one data type.
        It is called several times, and must return the same voxels each time.
    bounds : the smallest and largest value of integer voxels, if they are known.
    slope, inter : the scaling of the stored values, see `histogram`.

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
    together = np.concatenate([piece.ravel() for piece in pieces()])
    return histogram(together, slope=slope, inter=inter)


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
    if len(occupied) <= CAPACITY:
        return None
    return _bounded((occupied + first + 0.5) * width, table[occupied], width)
