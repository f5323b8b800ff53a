"""How well a scan's histogram fits a target, and how smooth the map is that made it.

With the densities of scan and target in B common bins, which cover the target from its 0.1 to its
99.9 percentile, and with their distribution functions F and G:

- MAE and RMSE: the mean absolute and the root mean square difference of the densities;
- W1 = ∫ |F − G| dx, the Wasserstein distance, over the whole line;
- KS = sup |F − G|, the Kolmogorov–Smirnov distance;
- JS, the Jensen–Shannon divergence in bits, ``½ KL(p ‖ m) + ½ KL(q ‖ m)`` with ``m = ½ (p + q)``,
  of the masses in the bins; what lies outside goes to one more bin at each end, so both sum to 1;
- QQ: the root mean square distance of the 199 quantiles 0.005, 0.010, …, 0.995.

F and G are polygons, so ``F − G`` is one too, with the corners of both. It is greatest at a corner;
between corners w apart, where it goes from a to b, it encloses ``w (|a| + |b|) / 2`` with the axis,
or, if it crosses it, ``w (a² + b²) / (2 (|a| + |b|))``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.metrics.distribution import EmpiricalDistribution
from ndflow.values import FloatArray, real_array, whole

__all__ = ["QUANTILE_LEVELS", "HistogramFit", "Smoothness", "histogram_fit", "smoothness"]

QUANTILE_LEVELS: FloatArray = np.arange(1, 200) / 200  # of the quantiles that are compared
QUANTILE_LEVELS.flags.writeable = False
_RANGE = (0.001, 0.999)  # shares of the target between which there are bins


class HistogramFit(NamedTuple):
    """Distances between the histogram of a scan and a target; 0 where they agree.

    Attributes
    ----------
    mae, rmse : mean absolute and root mean square difference of the densities in bins.
    w1 : the Wasserstein distance, in units of intensity.
    ks : the Kolmogorov–Smirnov distance.
    js : the Jensen–Shannon divergence, in bits.
    qq : the root mean square difference of 199 quantiles, in units of intensity.
    """

    mae: float
    rmse: float
    w1: float
    ks: float
    js: float
    qq: float


class Smoothness(NamedTuple):
    """How much the slope f' of a map changes; 0 for a straight line.

    Attributes
    ----------
    variation : the total variation of ln f'; infinite where a slope is not positive.
    jump : the largest difference between neighbouring slopes.
    """

    variation: float
    jump: float


def histogram_fit(
    scan: EmpiricalDistribution, target: EmpiricalDistribution, bins: int = 100
) -> HistogramFit:
    """Return how far the intensities of a scan are from those of a target."""
    count = whole(bins, "bins", 1, 1 << 20)
    low, high = target.quantile(_RANGE).tolist()
    edges = np.linspace(low, high, count + 1)
    off = scan.density(edges) - target.density(edges)
    apart = scan.quantile(QUANTILE_LEVELS) - target.quantile(QUANTILE_LEVELS)
    corners = np.union1d(scan.edges, target.edges)
    between = scan.cdf(corners) - target.cdf(corners)
    return HistogramFit(
        mae=float(np.abs(off).mean()),
        rmse=_root_mean_square(off),
        w1=_area(corners, between),
        ks=float(np.abs(between).max()),
        js=_jensen_shannon(_masses(scan, edges), _masses(target, edges)),
        qq=_root_mean_square(apart),
    )


def smoothness(slopes: ArrayLike) -> Smoothness:
    """Return how smooth a map is, from its slopes on a fine, uniform grid."""
    given = real_array(slopes, "slopes", None)
    if given.size < 2:
        raise InvalidValueError("slopes must be two or more, on a fine grid")
    jump = float(np.abs(np.diff(given)).max())
    if given.min() <= 0:  # the map is not invertible, and ln f' not defined
        return Smoothness(np.inf, jump)
    return Smoothness(float(np.abs(np.diff(np.log(given))).sum()), jump)


def _root_mean_square(differences: FloatArray) -> float:
    return float(np.sqrt(np.mean(differences**2)))


def _area(x: FloatArray, y: FloatArray) -> float:
    """Return the area between a polygon and the axis."""
    left, right = y[:-1], y[1:]
    total = np.abs(left) + np.abs(right)
    crossing = np.divide(left**2 + right**2, total, out=np.zeros_like(total), where=total > 0)
    heights = np.where(left * right >= 0, total, crossing)
    return float(np.sum(0.5 * np.diff(x) * heights))


def _masses(scan: EmpiricalDistribution, edges: FloatArray) -> FloatArray:
    """Return the mass below, in each of, and above the bins."""
    return np.maximum(np.diff(scan.cdf(edges), prepend=0.0, append=1.0), 0.0)  # not −1e-17


def _jensen_shannon(p: FloatArray, q: FloatArray) -> float:
    middle = 0.5 * (p + q)
    nats = special.rel_entr(p, middle).sum() + special.rel_entr(q, middle).sum()
    return max(float(nats) / (2 * math.log(2)), 0.0)  # not −1e-17
