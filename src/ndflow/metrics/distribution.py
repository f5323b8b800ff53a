"""The distribution of a scan's intensities, as a continuous distribution function.

Intensities come in levels ``v_0 < v_1 < …`` with masses ``m_i``. Two scans hardly ever share their
levels, so their masses cannot be compared one by one, and bins that are no multiple of the levels'
spacing hold now one level more, now one less: a comb. So the mass of each level is spread evenly
over the stretch of line that is nearer to it than to any other level, from half-way to the level
below to half-way to the one above; the outer levels reach as far outwards as they do inwards. The
density is then a step function, and the distribution function F a polygon:

    F(e_0) = 0,   F(e_{i+1}) = F(e_i) + m_i,   e_i = ½ (v_{i−1} + v_i).

Everything here is exact for that polygon. Its quantiles are ``Q(p) = inf {x : F(x) ≥ p}``, and
``Q(0)`` is where the mass begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, einsum, positive, real, real_array, whole

__all__ = ["EmpiricalDistribution", "average_distribution", "empirical_distribution"]


@dataclass(frozen=True, eq=False)
class EmpiricalDistribution:
    """A distribution whose distribution function is a polygon.

    Attributes
    ----------
    edges : (n+1,), where the polygon has its corners; increasing.
    below : (n+1,), the share of the mass below each; from 0 to 1, never falling.
    """

    edges: FloatArray
    below: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        edges = real_array(self.edges, "edges", None)
        below = real_array(self.below, "below", edges.size)
        if edges.size < 2 or not (np.diff(edges) > 0).all():
            raise InvalidValueError("edges must be two or more numbers that increase")
        if below[0] != 0 or below[-1] != 1 or (np.diff(below) < 0).any():
            raise InvalidValueError("below must rise from 0 to 1")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "below", below)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return the share of the mass below each `x`."""
        shares = np.interp(np.asarray(x, np.float64), self.edges, self.below)
        return np.minimum(shares, 1.0)  # not 1 + 1e-16, just below the last edge

    def quantile(self, p: ArrayLike) -> FloatArray:
        """Return the least intensity that has at least the share `p` of the mass below it."""
        share = np.asarray(p, np.float64)
        if not ((share >= 0) & (share <= 1)).all():
            raise InvalidValueError("the shares of quantiles must lie between 0 and 1")
        begins = np.searchsorted(self.below, 0.0, side="right")  # the end of the first step up
        upper = np.maximum(np.searchsorted(self.below, share), begins)
        lower = upper - 1
        part = (share - self.below[lower]) / (self.below[upper] - self.below[lower])
        levels: FloatArray = (1 - part) * self.edges[lower] + part * self.edges[upper]
        return levels

    def density(self, edges: ArrayLike) -> FloatArray:
        """Return the mean density in each of the n bins between the n+1 `edges`."""
        corners = real_array(edges, "edges", None)
        if not (np.diff(corners) > 0).all():
            raise InvalidValueError("the edges of bins must increase")
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
        edges = positive(scale, "scale") * self.edges + real(offset, "offset")
        return _distinct(edges, self.below)

    def _midpoints(self) -> FloatArray:
        midpoints: FloatArray = 0.5 * (self.edges[1:] + self.edges[:-1])
        return midpoints


def empirical_distribution(
    values: ArrayLike, counts: ArrayLike | None = None
) -> EmpiricalDistribution:
    """Return the distribution of a scan's intensities.

    Parameters
    ----------
    values : (n,), the intensities of voxels; with `counts`, the levels they are at.
    counts : (n,), how many voxels, or what weight, each of the values has.
    """
    given = real_array(values, "values", None)
    weights = real_array(np.ones(given.size) if counts is None else counts, "counts", given.size)
    if (weights < 0).any():
        raise InvalidValueError("counts must not be negative")
    levels, which = np.unique(given[weights > 0], return_inverse=True)
    if levels.size < 2:
        raise InvalidValueError(
            "the intensities of a scan must have two levels or more; check image and mask"
        )
    masses = np.bincount(which, weights[weights > 0])
    middles = 0.5 * levels[1:] + 0.5 * levels[:-1]
    first, last = 2 * levels[0] - middles[0], 2 * levels[-1] - middles[-1]
    below = np.concatenate([[0.0], np.cumsum(masses)])
    return _distinct(np.concatenate([[first], middles, [last]]), below / below[-1])


def average_distribution(
    scans: Sequence[EmpiricalDistribution], points: int = 4001
) -> EmpiricalDistribution:
    """Return the distribution of all scans together, each with the same weight: the mean of F.

    That mean is a polygon with the corners of all scans. Where they are more than `points`, it is
    looked at in so many places only: half of them evenly spaced from the least intensity to the
    greatest, half at evenly spaced quantiles. The mean of F is exact there. In between it is off by
    at most about 4/points, the mass between neighbours; and the Wasserstein distance from the truth
    is at most about 1/points of the range, and far less where a few voxels alone make that wide.
    """
    whole(points, "points", 4, 1 << 30)
    if not scans:
        raise InvalidValueError("there is no scan to average; give one or more")
    grid = np.unique(np.concatenate([scan.edges for scan in scans]))
    if grid.size > points:
        half = points // 2
        # The quantiles of a mixture, from as many quantiles of each scan, put in order.
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
    """Return the distribution, without the steps that rounding has left no width.

    Their mass goes to the next step, or at the end to the last.
    """
    kept = np.diff(edges, prepend=-np.inf) > 0
    shares = np.maximum.accumulate(below[kept])  # a mean of F may fall by 1e-17
    shares[-1] = 1.0
    return EmpiricalDistribution(edges[kept], shares)
