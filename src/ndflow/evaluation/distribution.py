"""The distribution of a scan's intensities, and how well it fits a target.

Intensities come in levels ``v_0 < v_1 < …`` with masses ``m_i``. Two scans hardly ever share their
levels, so their masses cannot be compared one by one, and bins whose width is not a multiple of the
levels' spacing hold sometimes one level more, sometimes one fewer: a comb. So the mass of each
level is spread evenly over the interval that is nearer to it than to any other level, from half-way
to the level below to half-way to the level above; the outermost levels reach as far outwards as
inwards. The density is then a step function, and the distribution function F is piecewise linear:

    F(e_0) = 0,   F(e_{i+1}) = F(e_i) + m_i,   e_i = ½ (v_{i−1} + v_i).

Everything here is exact for that function. Its quantiles are ``Q(p) = inf {x : F(x) ≥ p}``, and
``Q(0)`` is where the mass begins.

*How well a histogram fits a target.* With the densities of scan and target in B common bins, which
cover the target from its 0.1th to its 99.9th percentile, and with their distribution functions F
and G:

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, einsum, real_array

# ── distributions ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class EmpiricalDistribution:
    """A distribution with a piecewise linear distribution function.

    Attributes
    ----------
    edges : (n+1,), the nodes of the function; increasing.
    below : (n+1,), the share of the mass below each node; from 0 to 1, never decreasing.

    Examples
    --------
    >>> scan = empirical_distribution([10, 11, 11, 12])
    >>> scan.edges.tolist(), scan.below.tolist()
    ([9.5, 10.5, 11.5, 12.5], [0.0, 0.25, 0.75, 1.0])
    >>> scan.quantile([0.25, 0.5]).tolist()
    [10.5, 11.0]
    """

    edges: FloatArray
    below: FloatArray

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return the share of the mass below each `x`."""
        shares = np.interp(np.asarray(x, np.float64), self.edges, self.below)
        return np.minimum(shares, 1.0)  # not 1 + 1e-16, just below the last edge

    def quantile(self, p: ArrayLike) -> FloatArray:
        """Return the smallest intensity with at least the share `p` of the mass below it."""
        share = np.asarray(p, np.float64)
        begins = np.searchsorted(self.below, 0.0, side="right")  # the end of the first step up
        upper = np.maximum(np.searchsorted(self.below, share), begins)
        lower = upper - 1
        part = (share - self.below[lower]) / (self.below[upper] - self.below[lower])
        levels: FloatArray = (1 - part) * self.edges[lower] + part * self.edges[upper]
        return levels

    def density(self, edges: ArrayLike) -> FloatArray:
        """Return the mean density in each of the n bins between the n+1 `edges`."""
        corners = np.asarray(edges, np.float64)
        masses = np.maximum(np.diff(self.cdf(corners)), 0.0)  # not −1e-17
        heights: FloatArray = masses / np.diff(corners)
        return heights

    def mean(self) -> float:
        """Return the mean."""
        return float(einsum("i,i->", np.diff(self.below), self._midpoints()))

    def sd(self) -> float:
        """Return the standard deviation; a step of width w adds w²/12 to its variance."""
        squares = (self._midpoints() - self.mean()) ** 2 + np.diff(self.edges) ** 2 / 12
        return float(np.sqrt(einsum("i,i->", np.diff(self.below), squares)))

    def transformed(self, scale: float, offset: float) -> EmpiricalDistribution:
        """Return the distribution of ``scale·x + offset``, for a positive scale."""
        return _distinct(scale * self.edges + offset, self.below)

    def _midpoints(self) -> FloatArray:
        midpoints: FloatArray = 0.5 * (self.edges[1:] + self.edges[:-1])
        return midpoints


def empirical_distribution(
    values: ArrayLike, counts: ArrayLike | None = None
) -> EmpiricalDistribution:
    """Return the distribution of a scan's intensities.

    Parameters
    ----------
    values : (n,), the intensities of the voxels, or with `counts` their levels; in any order.
    counts : (n,), the number of voxels, or the weight, of each level.

    Raises
    ------
    InvalidValueError : if there are fewer than two levels.

    Examples
    --------
    >>> scan = empirical_distribution([10, 11, 12], counts=[1, 2, 1])
    >>> scan.mean(), scan.cdf([10.5, 11.0]).tolist()
    (11.0, [0.25, 0.5])
    """
    given = real_array(values, "values", None)
    weights = real_array(np.ones(given.size) if counts is None else counts, "counts", given.size)
    levels, level = np.unique(given[weights > 0], return_inverse=True)
    if levels.size < 2:
        raise InvalidValueError("the intensities of a scan must differ; check the image and mask")
    masses = np.bincount(level, weights[weights > 0])
    below = np.concatenate([[0.0], np.cumsum(masses)])
    return _distinct(midpoint_edges(levels), below / below[-1])


def average_distribution(
    scans: Sequence[EmpiricalDistribution], points: int = 4001
) -> EmpiricalDistribution:
    """Return the distribution of all scans together, each with the same weight: the mean of F.

    That mean is piecewise linear with the nodes of all scans. Where these are more than `points`,
    it is evaluated at that many points only: half of them evenly spaced from the least intensity to
    the greatest, half at evenly spaced quantiles. The mean of F is exact there. In between, its
    error is at most about 4/points, the mass between neighbours; and the Wasserstein distance from
    the exact mean is at most about 1/points of the range, and far less where a few voxels alone
    make that wide.

    Parameters
    ----------
    scans : one or more distributions.
    points : the largest number of nodes of the result.

    Examples
    --------
    >>> scans = [empirical_distribution([1, 2]), empirical_distribution([3, 4])]
    >>> average_distribution(scans).cdf([0.5, 1.5, 2.5, 4.5]).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    grid = np.unique(np.concatenate([scan.edges for scan in scans]))
    if grid.size > points:
        half = points // 2
        # Quantiles of a mixture: pool as many quantiles of each scan, and sort them.
        shares = np.linspace(0, 1, half)
        pooled = np.sort(np.concatenate([scan.quantile(shares) for scan in scans]))
        chosen = np.linspace(0, pooled.size - 1, half).astype(np.intp)
        even = np.linspace(grid[0], grid[-1], points - half)
        grid = np.unique(np.concatenate([even, pooled[chosen]]))
    below = np.zeros(grid.size)
    for scan in scans:
        below += scan.cdf(grid)
    return _distinct(grid, below / len(scans))


def _distinct(edges: FloatArray, below: FloatArray) -> EmpiricalDistribution:
    """Return the distribution without steps that rounding has left with no width.

    Their mass goes to the next step, or at the end to the last.
    """
    kept = np.diff(edges, prepend=-np.inf) > 0
    shares = np.maximum.accumulate(below[kept])  # a mean of F may fall by 1e-17
    shares[-1] = 1.0
    return EmpiricalDistribution(edges[kept], shares)


# ── fit and smoothness ────────────────────────────────────────────────────────────────────────────

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
    >>> scan, target = empirical_distribution([3, 4, 5]), empirical_distribution([1, 2, 3])
    >>> fit = histogram_fit(scan, target)
    >>> print(f"W1 {fit.w1:.2f}, KS {fit.ks:.2f}, QQ {fit.qq:.2f}")
    W1 2.00, KS 0.67, QQ 2.00
    """
    low, high = target.quantile(_RANGE).tolist()
    edges = np.linspace(low, high, bins + 1)
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

    Examples
    --------
    >>> smoothness([1.0, 1.0, 2.0, 1.0])
    Smoothness(variation=1.3862943611198906, jump=1.0)
    """
    given = real_array(slopes, "slopes", None)
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
