"""Preparing a histogram for a fit: no outliers, and no more bins than a fit can use.

`trimmed` drops values so far out that they cannot belong to the density, such as a single voxel of
1e30. `condensed` joins bins until about a thousand cover the bulk of the data, on a lattice whose
width is a whole multiple of the data's quantum. Floats that were quantised before they were stored
(integers saved as floats, scaled integers) are recognised by the gaps between them.

`joint_histogram` counts several channels. A cell is a box of one bin per channel. Nearly every
voxel is alone in its cell if bins are as narrow as those of one channel, so bins are widened until
few enough cells are occupied: always those of the channel that is resolved best, by doubling, so
that bins nest. The bins of integers are whole numbers wide, and centred on them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density.binning import counted
from ndflow.density.histogram import Histogram
from ndflow.errors import DegenerateDataError
from ndflow.values import FloatArray

_OUTSIDE = 0.005  # share of the voxels on either side of the bulk
_REACH = 3.0  # in widths of the bulk: about 18 standard deviations of a Gaussian
_LEVELS = 1024  # most levels across the bulk, in each channel
_CELLS = 16_384  # most occupied bins in all, with several channels
_FINEST = 512  # bins of a joint histogram across the bulk of a channel, to begin with
_SAMPLE = 1 << 16  # voxels to find its percentiles from


def trimmed(histogram: Histogram) -> Histogram:
    """Return the histogram without values far outside its bulk.

    The bulk of a channel lies between its 0.5th and 99.5th percentiles. Values further away from it
    than three times its width are dropped, so up to half a per cent of corrupted voxels on either
    side do no harm.

    Examples
    --------
    >>> voxels = np.append(np.arange(1000.0), 1e30)
    >>> trimmed(Histogram(voxels, np.ones(1001))).values.max()
    np.float64(999.0)
    """
    keep = np.ones(len(histogram.counts), dtype=bool)
    for channel in range(histogram.channels):
        low, high = _bulk(histogram, channel)
        reach = _REACH * (high - low)
        x = histogram.values[:, channel]
        keep &= (x >= low - reach) & (x <= high + reach)
    if keep.all() or not keep.any():
        return histogram
    return Histogram(
        histogram.values[keep], histogram.counts[keep], histogram.widths, histogram.origin
    )


def condensed(histogram: Histogram) -> Histogram:
    """Return the histogram with bins joined until there are no more than a fit can use.

    Those are about a thousand levels across the bulk of each channel and, with several channels,
    about sixteen thousand occupied bins in all.

    Examples
    --------
    >>> voxels = np.arange(4096)
    >>> condensed(Histogram(voxels, np.ones(4096), [1.0], [-0.5]))
    Histogram(levels=1024, voxels=4.1e+03)
    """
    widths, origin = histogram.widths.copy(), histogram.origin.copy()
    bulk = [_bulk_levels(histogram, channel) for channel in range(histogram.channels)]
    for channel, levels in enumerate(bulk):
        if widths[channel] == 0:
            widths[channel], origin[channel] = _quantum(np.unique(histogram.values[:, channel]))
        if len(levels) > _LEVELS:
            widths[channel] = _coarse_width(levels, widths[channel], origin[channel])
    result = histogram.coarsened(widths, origin)
    spans = np.array([levels[-1] - levels[0] for levels in bulk])
    while histogram.channels > 1 and len(result.counts) > _CELLS:
        bins = np.divide(spans, widths, out=np.where(spans > 0, np.inf, 0.0), where=widths > 0)
        finest = int(np.argmax(bins))
        widths[finest] = 2 * widths[finest] or 2.0 ** np.floor(np.log2(spans[finest] / _LEVELS))
        result = result.coarsened(widths, origin)
    return result


def _coarse_width(levels: FloatArray, width: float, origin: float) -> float:
    """Double the width (starting from a small power of two if it is 0) until the bins are few."""
    width = width or float(2.0 ** np.floor(np.log2((levels[-1] - levels[0]) / _LEVELS)))
    while len(np.unique(np.floor((levels - origin) / width))) > _LEVELS:
        width *= 2
    return width


def _bulk(histogram: Histogram, channel: int) -> tuple[float, float]:
    """Return the percentiles that bound the bulk of a channel; further ones if they are equal."""
    outside = _OUTSIDE
    low, high = histogram.quantile([outside, 1 - outside], channel)
    while low == high and outside > 1 / histogram.total:
        outside /= 10
        low, high = histogram.quantile([outside, 1 - outside], channel)
    return float(low), float(high)


def _bulk_levels(histogram: Histogram, channel: int) -> FloatArray:
    """Return the occupied levels within the bulk of a channel; all levels if that is just one."""
    low, high = _bulk(histogram, channel)
    levels = np.unique(histogram.values[:, channel])
    inside: FloatArray = levels[(levels >= low) & (levels <= high)]
    return inside if low < high else levels


def _quantum(levels: FloatArray) -> tuple[float, float]:
    """Return the spacing and an edge of a lattice that holds all levels; zeros if there is none."""
    if len(levels) < 3:
        return 0.0, 0.0
    gaps = np.diff(levels)
    reach = levels[-1] - levels[0]
    steps = np.rint(gaps / gaps.min())
    total = steps.sum()
    if total > 1e6:
        return 0.0, 0.0
    quantum = float(reach / total)
    off = np.abs((levels - levels[0]) / quantum - np.concatenate([[0.0], np.cumsum(steps)]))
    if off.max() > 1e-3:
        return 0.0, 0.0
    return quantum, float(levels[0] - 0.5 * quantum)


def joint_histogram(voxels: ArrayLike, *, most: int = 50_000) -> Histogram:
    """Return the joint histogram of several channels, with a bounded number of occupied cells.

    Parameters
    ----------
    voxels : (n, d), one row per voxel. Rows that are not finite do not count, and neither do those
        with a channel more than three times the width of its bulk (of 99 % of the voxels) away
        from it.
    most : how many cells may be occupied.

    Raises
    ------
    DegenerateDataError : there is no voxel to count, or all voxels of a channel are equal.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> joint = joint_histogram(generator.normal(size=(100_000, 2)), most=1000)
    >>> joint.channels, len(joint.counts) <= 1000
    (2, True)
    """
    columns = [np.asarray(column, dtype=np.float64) for column in np.asarray(voxels).T]
    finite = np.logical_and.reduce([np.isfinite(column) for column in columns])
    if not finite.any():
        raise DegenerateDataError("there is no voxel to count; check that the mask covers them all")
    bulks = np.array([_bulk_of_voxels(column[finite]) for column in columns])
    near = finite
    for column, (low, high) in zip(columns, bulks, strict=True):
        reach = _REACH * (high - low)
        near = near & (column >= low - reach) & (column <= high + reach)
    kept = [column[near] for column in columns]
    whole = np.array([(column == np.rint(column)).all() for column in kept])
    spans = bulks[:, 1] - bulks[:, 0]
    widths = 2.0 ** np.floor(np.log2(spans / _FINEST))
    widths = np.where(whole, np.maximum(widths, 1.0), widths)
    origin = -0.5 * whole
    bins = [
        np.floor((column - start) / width).astype(np.int64)
        for column, start, width in zip(kept, origin, widths, strict=True)
    ]
    places, counts = counted(np.stack(bins, axis=1), None)
    while len(counts) > most:
        finest = int(np.argmax(spans / widths))
        widths[finest] *= 2
        places[:, finest] = np.floor(places[:, finest] / 2)
        places, counts = counted(places.astype(np.int64), counts)
    return Histogram(origin + (places + 0.5) * widths, counts, widths, origin)


def _bulk_of_voxels(column: FloatArray) -> tuple[float, float]:
    """Return percentiles of a channel, from a sample of its voxels; its ends if they are equal."""
    step = max(1, column.size // _SAMPLE)
    low, high = np.quantile(column[::step], (_OUTSIDE, 1 - _OUTSIDE)).tolist()
    if low == high:
        low, high = float(column.min()), float(column.max())
    if low == high:
        raise DegenerateDataError(f"all voxels of a channel are {low:g}; check the image and mask")
    return low, high
