"""The joint histogram of several channels, fine enough for a fit and no finer.

A cell is a box of one bin per channel. With several channels nearly every voxel is alone in its
cell if bins are as narrow as those of one channel, so bins are widened until few enough cells are
occupied: always those of the channel that is resolved best, by doubling, so that bins nest. As for
one channel, the bins of integers are whole multiples of their quantum, and centred on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.density.histogram import Histogram
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.values import FloatArray, real_array, whole

MOST_CELLS = 50_000  # that a joint histogram occupies
_FINEST = 512  # bins across the bulk of a channel, to begin with
_BULK = (0.005, 0.995)  # its percentiles
_REACH = 3.0  # widths of the bulk on either side, beyond which voxels do not count
_SAMPLE = 1 << 16  # voxels to find percentiles from
_KEYS = 1 << 62  # cells in a smaller box get a number each, which sorts faster


def joint_histogram(
    voxels: ArrayLike,
    *,
    quanta: Sequence[float] | None = None,
    most: int = MOST_CELLS,
) -> Histogram:
    """Return the joint histogram of several channels, with a bounded number of occupied cells.

    Parameters
    ----------
    voxels : (n, d), one row per voxel. Rows that are not finite do not count, and neither do those
        with a channel more than three times the width of its bulk (of 99 % of the voxels) away
        from it.
    quanta : the spacing of the values of each channel, 0 for floats. Default: channels that hold
        whole numbers only are integers with a spacing of 1.
    most : how many cells may be occupied.

    Raises
    ------
    DegenerateDataError : there is no voxel to count, or all voxels of a channel are equal.
    InvalidValueError : shapes that do not fit.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> joint = joint_histogram(generator.normal(size=(100_000, 2)), most=1000)
    >>> joint.channels, len(joint.counts) <= 1000
    (2, True)
    """
    rows = np.asarray(voxels)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InvalidValueError(f"voxels must have one row each, (n, d), not {rows.shape}")
    whole(most, "most", 1, 1 << 30)
    d = rows.shape[1]
    columns = [np.asarray(column, dtype=np.float64) for column in rows.T]
    finite = np.logical_and.reduce([np.isfinite(column) for column in columns])
    if not finite.any():
        raise DegenerateDataError("there is no voxel to count; check that the mask covers them all")
    bulks = np.array([_bulk(column[finite]) for column in columns])
    near = finite
    for column, (low, high) in zip(columns, bulks, strict=True):
        reach = _REACH * (high - low)
        near = near & (column >= low - reach) & (column <= high + reach)
    kept = [column[near] for column in columns]
    steps = real_array(
        [_quantum(column) for column in kept] if quanta is None else quanta, "quanta", d
    )
    spans = bulks[:, 1] - bulks[:, 0]
    widths = np.array([_first_width(*pair) for pair in zip(spans, steps, strict=True)])
    origin = -0.5 * steps
    bins = [
        np.floor((column - start) / width).astype(np.int64)
        for column, start, width in zip(kept, origin, widths, strict=True)
    ]
    places, counts = _occupied(bins, None)
    while len(counts) > most:
        finest = int(np.argmax(spans / widths))
        widths[finest] *= 2
        places[finest] >>= 1  # rounds down, also below zero
        places, counts = _occupied(places, counts)
    centres = origin + (np.stack(places, axis=1) + 0.5) * widths
    return Histogram(centres, counts, widths, origin)


def _bulk(column: FloatArray) -> tuple[float, float]:
    """Return percentiles of a channel, from a sample of its voxels; its ends if they are equal."""
    step = max(1, column.size // _SAMPLE)
    low, high = np.quantile(column[::step], _BULK).tolist()
    if low == high:
        low, high = float(column.min()), float(column.max())
    if low == high:
        raise DegenerateDataError(
            f"all {column.size} voxels of a channel have the value {low:g}, so there is no density "
            f"to fit; check the image and its mask"
        )
    return low, high


def _quantum(column: FloatArray) -> float:
    return 1.0 if (column == np.rint(column)).all() else 0.0


def _first_width(span: float, quantum: float) -> float:
    narrow = span / _FINEST
    if quantum:
        return float(quantum * 2.0 ** max(0.0, np.floor(np.log2(narrow / quantum))))
    return float(2.0 ** np.floor(np.log2(narrow)))


def _occupied(
    bins: Sequence[NDArray[np.int64]], counts: FloatArray | None = None
) -> tuple[list[NDArray[np.int64]], FloatArray]:
    """Return the occupied cells in order, as one array of bins per channel, and their counts."""
    lows = [int(channel.min()) for channel in bins]
    sizes = [int(channel.max()) - low + 1 for channel, low in zip(bins, lows, strict=True)]
    if math.prod(sizes) >= _KEYS:
        cells, inverse = np.unique(np.stack(bins, axis=1), axis=0, return_inverse=True)
        flat = inverse.reshape(-1)  # numpy 2.0.0 gives it a second axis
        return list(cells.T.copy()), np.bincount(flat, counts).astype(np.float64)
    keys = np.zeros(len(bins[0]), dtype=np.int64)
    for channel, low, size in zip(bins, lows, sizes, strict=True):
        keys *= size
        keys += channel - low
    distinct, inverse = np.unique(keys, return_inverse=True)
    totals = np.bincount(inverse, counts).astype(np.float64)
    places: list[NDArray[np.int64]] = []
    for low, size in zip(reversed(lows), reversed(sizes), strict=True):
        distinct, remainder = np.divmod(distinct, size)
        places.append(remainder + low)
    return places[::-1], totals
