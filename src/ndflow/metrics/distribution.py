"""The distribution of a scan's intensities, as a continuous distribution function.

Intensities come in levels ``v_0 < v_1 < …`` with masses ``m_i``. Two scans hardly ever share their
levels, so their masses cannot be compared one by one, and bins whose width is not a multiple of the
levels' spacing hold sometimes one level more, sometimes one fewer: a comb. So the mass of each
level is spread evenly over the interval that is nearer to it than to any other level, from half-way
to the level below to half-way to the level above; the outermost levels reach as far outwards as
inwards. The density is then a step function, and the distribution function F is piecewise linear:

    F(e_0) = 0,   F(e_{i+1}) = F(e_i) + m_i,   e_i = ½ (v_{i−1} + v_i).

Everything here is exact for that function. Its quantiles are ``Q(p) = inf {x : F(x) ≥ p}``, and
``Q(0)`` is where the mass begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density.binning import midpoint_edges
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, einsum, positive, real, real_array, whole

__all__ = ["EmpiricalDistribution", "average_distribution", "empirical_distribution"]


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
        """Return the smallest intensity with at least the share `p` of the mass below it."""
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
    values : (n,), the intensities of the voxels, or with `counts` their levels; in any order.
    counts : (n,), the number of voxels, or the weight, of each level.

    Raises
    ------
    InvalidValueError : if there are fewer than two levels, or if a count is negative.

    Examples
    --------
    >>> scan = empirical_distribution([10, 11, 12], counts=[1, 2, 1])
    >>> scan.mean(), scan.cdf([10.5, 11.0]).tolist()
    (11.0, [0.25, 0.5])
    """
    given = real_array(values, "values", None)
    weights = real_array(np.ones(given.size) if counts is None else counts, "counts", given.size)
    if (weights < 0).any():
        raise InvalidValueError("counts must not be negative")
    levels, level = np.unique(given[weights > 0], return_inverse=True)
    if levels.size < 2:
        raise InvalidValueError(
            "the intensities of a scan must have two or more levels; check the image and the mask"
        )
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

    Raises
    ------
    InvalidValueError : if there is no scan, or `points` is less than 4.

    Examples
    --------
    >>> scans = [empirical_distribution([1, 2]), empirical_distribution([3, 4])]
    >>> average_distribution(scans).cdf([0.5, 1.5, 2.5, 4.5]).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    whole(points, "points", 4, 1 << 30)
    if not scans:
        raise InvalidValueError("there is no scan to average; give at least one")
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
