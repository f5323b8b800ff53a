"""How well a scan's histogram fits a target, and how smooth its intensity map is.

With the densities of scan and target in B common bins, which cover the target from its 0.1th to its
99.9th percentile, and with their distribution functions F and G:

- MAE and RMSE: the mean absolute and the root mean square difference of the densities;
- W1 = ∫ |F − G| dx, the Wasserstein distance, over the whole line;
- KS = sup |F − G|, the Kolmogorov–Smirnov distance;
- JS, the Jensen–Shannon divergence in bits, ``½ KL(p ‖ m) + ½ KL(q ‖ m)`` with ``m = ½ (p + q)``,
  of the masses in the bins; what lies outside goes to one more bin at each end, so both sum to 1;
- QQ: the root mean square difference of the 199 quantiles at 0.005, 0.010, …, 0.995.

F and G are piecewise linear, so ``F − G`` is too, with the nodes of both. Its absolute value is
largest at a node; between nodes w apart, where it goes from a to b, the area between it and the
axis is ``w (|a| + |b|) / 2``, or, if it crosses the axis, ``w (a² + b²) / (2 (|a| + |b|))``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.metrics.distribution import EmpiricalDistribution
from ndflow.values import FloatArray, real_array, whole

__all__ = ["HistogramFit", "Smoothness", "histogram_fit", "smoothness"]

_RANGE = (0.001, 0.999)  # quantiles of the target that the bins cover


class HistogramFit(NamedTuple):
    """Distances between the histogram of a scan and a target; 0 where they agree.

    Attributes
    ----------
    mae, rmse : mean absolute and root mean square difference of the densities in bins.
    w1 : Wasserstein distance, in units of intensity.
    ks : Kolmogorov–Smirnov distance.
    js : Jensen–Shannon divergence, in bits.
    qq : root mean square difference of 199 quantiles, in units of intensity.
    """

    mae: float
    rmse: float
    w1: float
    ks: float
    js: float
    qq: float


class Smoothness(NamedTuple):
    """How much the slope f' of an intensity map changes; 0 for an affine map.

    Attributes
    ----------
    variation : total variation of ln f'; infinite if a slope is not positive.
    jump : largest difference between neighbouring slopes.
    """

    variation: float
    jump: float


def histogram_fit(
    scan: EmpiricalDistribution, target: EmpiricalDistribution, bins: int = 100
) -> HistogramFit:
    """Return the distances of a scan's intensities from those of a target.

    Parameters
    ----------
    scan, target : their distributions, in the same units.
    bins : number of bins in which densities are compared.

    Examples
    --------
    >>> from ndflow.metrics.distribution import empirical_distribution
    >>> scan, target = empirical_distribution([3, 4, 5]), empirical_distribution([1, 2, 3])
    >>> fit = histogram_fit(scan, target)
    >>> print(f"W1 {fit.w1:.2f}, KS {fit.ks:.2f}, QQ {fit.qq:.2f}")
    W1 2.00, KS 0.67, QQ 2.00
    """
    count = whole(bins, "bins", 1, 1 << 20)
    low, high = target.quantile(_RANGE).tolist()
    edges = np.linspace(low, high, count + 1)
    densities = scan.density(edges) - target.density(edges)
    quantiles = scan.quantile(QUANTILE_LEVELS) - target.quantile(QUANTILE_LEVELS)
    nodes = np.union1d(scan.edges, target.edges)
    shares = scan.cdf(nodes) - target.cdf(nodes)
    return HistogramFit(
        mae=float(np.abs(densities).mean()),
        rmse=_root_mean_square(densities),
        w1=_area(nodes, shares),
        ks=float(np.abs(shares).max()),
        js=_jensen_shannon(_masses(scan, edges), _masses(target, edges)),
        qq=_root_mean_square(quantiles),
    )


def smoothness(slopes: ArrayLike) -> Smoothness:
    """Return how smooth an intensity map is.

    Parameters
    ----------
    slopes : (n,), the derivative of the map on a fine, uniform grid.

    Raises
    ------
    InvalidValueError : if there are fewer than two slopes.

    Examples
    --------
    >>> smoothness([1.0, 1.0, 2.0, 1.0])
    Smoothness(variation=1.3862943611198906, jump=1.0)
    """
    given = real_array(slopes, "slopes", None)
    if given.size < 2:
        raise InvalidValueError("slopes must hold two or more numbers, on a fine grid")
    jump = float(np.abs(np.diff(given)).max())
    if given.min() <= 0:  # the map is not invertible, and ln f' is not defined
        return Smoothness(np.inf, jump)
    return Smoothness(float(np.abs(np.diff(np.log(given))).sum()), jump)


def _root_mean_square(differences: FloatArray) -> float:
    return float(np.sqrt(np.mean(differences**2)))


def _area(x: FloatArray, y: FloatArray) -> float:
    """Return the area between a piecewise linear function and the axis."""
    left, right = y[:-1], y[1:]
    total = np.abs(left) + np.abs(right)
    crossing = np.divide(left**2 + right**2, total, out=np.zeros_like(total), where=total > 0)
    heights = np.where(left * right >= 0, total, crossing)
    return float(np.sum(0.5 * np.diff(x) * heights))


def _masses(scan: EmpiricalDistribution, edges: FloatArray) -> FloatArray:
    """Return the mass below all bins, in each of them, and above all."""
    return np.maximum(np.diff(scan.cdf(edges), prepend=0.0, append=1.0), 0.0)  # not −1e-17


def _jensen_shannon(p: FloatArray, q: FloatArray) -> float:
    middle = 0.5 * (p + q)
    nats = special.rel_entr(p, middle).sum() + special.rel_entr(q, middle).sum()
    return max(float(nats) / (2 * math.log(2)), 0.0)  # not −1e-17
