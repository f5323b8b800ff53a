"""Landmarks that are percentiles: Nyúl's few, and as many as describe a distribution exactly.

Those of Nyúl [nyul2000] are the percentiles 1, 10, 20, … 90, 99 of the voxels, as NumPy's function
`percentile` reads them; of float images with very many levels, which a histogram joins, to about
1e-4 of the spread. With another number of landmarks the inner ones still go from 10 to 90 in equal
steps.

Exact matching of histograms is the same with very many landmarks. For it, the mass of a level is
spread up to half-way to its neighbours: integers would tie otherwise, and a map needs points that
rise. The points are equally spaced in normal scores, so they reach far into both tails.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from ndflow.density import GaussianMixture, Histogram
from ndflow.errors import DegenerateDataError
from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray

__all__ = [
    "density_percentiles",
    "density_quantiles",
    "percentiles",
    "quantiles",
    "quantiles_at",
    "shares",
    "through_points",
]

_OUTER = (0.01, 0.99)
_INNER = (0.1, 0.9)
_SCORES = np.linspace(-4.0, 4.0, 801)


def shares(count: int) -> FloatArray:
    """Return the shares of the voxels below each of so many landmarks, at least two."""
    inner = np.linspace(*_INNER, count - 2) if count > 3 else [0.5] * (count - 2)
    return np.concatenate([_OUTER[:1], inner, _OUTER[1:]])


def percentiles(histogram: Histogram, count: int) -> FloatArray:
    """Return so many landmarks of a scan."""
    levels, counts = histogram.values[:, 0], histogram.counts
    upto = np.cumsum(counts)
    place = shares(count) * (upto[-1] - 1)
    below = np.floor(place)
    ends = [np.searchsorted(upto, rank, side="right") for rank in (below, below + 1)]
    low, high = (levels[np.minimum(end, levels.size - 1)] for end in ends)
    landmarks: FloatArray = low + (place - below) * (high - low)
    return landmarks


def density_percentiles(mixture: GaussianMixture, count: int) -> FloatArray:
    """Return the landmarks of a density."""
    return mixture.quantile(shares(count))


def quantiles(histogram: Histogram) -> FloatArray:
    """Return the whole distribution of a scan, as values at fixed normal scores."""
    return quantiles_at(special.ndtr(_SCORES), histogram)


def quantiles_at(shares: FloatArray, histogram: Histogram) -> FloatArray:
    """Return the values below which the given shares of a scan's voxels lie."""
    levels, counts = histogram.values[:, 0], histogram.counts
    if levels.size < 2:
        raise DegenerateDataError(f"all voxels that count have the value {levels[0]:g}")
    middles = 0.5 * (levels[1:] + levels[:-1])
    edges = np.concatenate([[2 * levels[0] - middles[0]], middles, [2 * levels[-1] - middles[-1]]])
    below = np.concatenate([[0.0], np.cumsum(counts)])
    values: FloatArray = np.interp(shares * below[-1], below, edges)
    return values


def density_quantiles(mixture: GaussianMixture) -> FloatArray:
    """Return the same of a density."""
    return mixture.from_normal_score(_SCORES)


def through_points(own: FloatArray, target: FloatArray) -> PiecewiseLinear:
    """Return straight lines through pairs of landmarks; where some are equal, through their mean.

    Such ties happen in scans with few levels, and at both ends of a distribution.
    """
    knots, values = _joined(own, target)
    values, knots = _joined(values, knots)
    return PiecewiseLinear(knots, values)


def _joined(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each x once, rounding errors aside, and the mean of the y that belong to it."""
    tiny = 1e-12 * (x[-1] - x[0])
    group = np.concatenate([[0], np.cumsum(np.diff(x) > tiny)])
    sizes = np.bincount(group)
    return np.bincount(group, x) / sizes, np.bincount(group, y) / sizes
