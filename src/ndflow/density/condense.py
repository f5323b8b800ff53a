"""What a fit sees of a histogram: no stray values, and no more bins than it can use.

`trimmed` drops what lies so far out that it cannot belong to the density, such as a single voxel of
1e30. `condensed` joins bins until about a thousand cover the bulk of the data, on a lattice whose
width is a whole multiple of the data's quantum. Floats that were quantised before they were
stored (integers saved as floats, scaled integers) are found out by their gaps.
"""

from __future__ import annotations

import numpy as np

from ndflow.density.histogram import Histogram
from ndflow.values import FloatArray

__all__ = ["condensed", "trimmed"]

_BULK = (0.005, 0.995)
_REACH = 3.0  # in widths of the bulk: some 18 standard deviations of a Gaussian
_LEVELS = 1024  # over the bulk, in one channel
_CELLS = 4096  # occupied in all, in several channels


def trimmed(histogram: Histogram) -> Histogram:
    """Return the histogram without values far outside its bulk.

    The bulk lies between the 0.5th and the 99.5th percentile of each channel. What lies further
    from it than three times its width goes, so up to half a percent of damaged voxels on
    either side do no harm.
    """
    keep = np.ones(len(histogram.counts), dtype=bool)
    for channel in range(histogram.channels):
        low, high = histogram.quantile(_BULK, channel)
        reach = _REACH * (high - low)
        if reach > 0:
            x = histogram.values[:, channel]
            keep &= (x >= low - reach) & (x <= high + reach)
    if keep.all() or not keep.any():
        return histogram
    return Histogram(
        histogram.values[keep], histogram.counts[keep], histogram.widths, histogram.origin
    )


def condensed(histogram: Histogram) -> Histogram:
    """Return the histogram with bins joined until no more are left than a fit can use."""
    widths, origin = histogram.widths.copy(), histogram.origin.copy()
    spans = np.empty(histogram.channels)
    for channel in range(histogram.channels):
        low, high = histogram.quantile(_BULK, channel)
        spans[channel] = high - low
        if widths[channel] == 0:
            levels = np.unique(histogram.values[:, channel])
            widths[channel], origin[channel] = _quantum(levels)
            if widths[channel] == 0 and len(levels) > _LEVELS and high > low:
                widths[channel] = 2.0 ** np.floor(np.log2((high - low) / _LEVELS))
        if widths[channel] > 0:
            excess = (high - low) / (_LEVELS * widths[channel])
            widths[channel] *= 2.0 ** max(0.0, np.ceil(np.log2(max(excess, 1.0))))
    result = histogram.coarsened(widths, origin)
    while histogram.channels > 1 and len(result.counts) > _CELLS:
        with np.errstate(divide="ignore"):
            finest = int(np.argmax(np.where(widths > 0, spans / widths, np.inf)))
        widths[finest] = 2 * widths[finest] or 2.0 ** np.floor(np.log2(spans[finest] / _LEVELS))
        result = result.coarsened(widths, origin)
    return result


def _quantum(levels: FloatArray) -> tuple[float, float]:
    """Return the spacing of a lattice that holds all levels and an edge of it, or zeros."""
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
