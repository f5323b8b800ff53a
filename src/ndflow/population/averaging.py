"""Averages of densities, as histograms that a mixture can be fitted to.

- `mean_density`: ``q̄(x) = Σ_i w_i q_i(x)``, which is what the histogram of all scans together
  tends to. With one channel, the mass of a bin is a difference of distribution functions, so it is
  exact. With several, the bins of a lattice of some thousands would be wider than narrow
  components, and a fit would find the bins. So points that fill the density are split in halves
  again and again, across the longest axis of each group; the group means are dense where the
  density is high.
- `mean_quantiles`: ``Q̄(p) = Σ_i w_i Q_i(p)``, the density with the smallest total squared
  Wasserstein distance to all (their barycentre). Peaks in different places are moved before they
  are averaged, and not blurred; there is no such formula for several channels.

All densities are in reference space, with zero mean and unit variance. Bin edges are multiples of a
power of two, and counts are whole numbers out of a billion: rounding errors of 1e-16, as a change
of units causes them, hardly ever affect either. Densities are processed one after the other, so
memory does not grow with the cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density import GaussianMixture, Histogram, fit, gaussian
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray, einsum


@dataclass(frozen=True)
class Pushforward:
    """The density of ``imap(x)`` where x has the density `mixture`, in one channel.

    Its distribution function is ``F(imap⁻¹(y))``, its quantile function ``imap(Q(p))``.
    """

    mixture: GaussianMixture
    imap: IntensityMap
    channels = 1

    @property
    def components(self) -> int:
        """The number of components of the mixture."""
        return self.mixture.components

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return the distribution function at each point."""
        return self.mixture.cdf(self.imap.inverse()(y))

    def from_normal_score(self, z: ArrayLike) -> FloatArray:
        """Return the points below which shares ``Φ(z)`` of the mass lie."""
        return self.imap(self.mixture.from_normal_score(z))


Density = GaussianMixture | Pushforward
Weighted = Sequence[tuple[GaussianMixture, float]]  # densities and their shares, which sum to 1

_TOTAL = 1e9  # voxels that the histogram of an average counts
# Normal scores: a millionth of the mass lies beyond the outer two, half a percent beyond the inner.
_ENDS = np.array([-4.75, -2.575, 2.575, 4.75])
_LEVELS = 512  # fewest bins across the bulk; a fit uses up to twice as many
_REACH = 3.0  # in widths of the bulk: a fit drops what lies further out
_SCORES = (
    2001  # normal scores of averaged quantiles; interpolating between them is 1e-5 off in mass
)
_LOG2_POINTS = 18  # of the points that represent a density of several channels
_HALVINGS = 14  # of those points, into as many groups as a fit uses bins
_CHUNK = 1 << 20  # array elements to hold at once


def mean_density(densities: Sequence[tuple[Density, float]]) -> Histogram:
    """Return the mean of densities in reference space, as a histogram of a billion voxels."""
    if densities[0][0].channels > 1:
        return _grouped(cast(Weighted, densities))
    shares = np.array([share for _, share in densities])
    ends = np.array([_in_chunks(m, m.from_normal_score, _ENDS) for m, _ in densities])
    middle = einsum("i,ij->j", shares, ends)
    edges = _edges(ends[:, 0].min(), middle[1], middle[2], ends[:, 3].max())
    below = np.zeros(edges.size)
    for mixture, share in densities:
        below += share * _in_chunks(mixture, mixture.cdf, edges)
    return _binned(edges, below)


def mean_quantiles(densities: Weighted) -> Histogram:
    """Return the barycentre of densities of one channel, as a histogram of a billion voxels."""
    scores = np.linspace(_ENDS[0], _ENDS[3], _SCORES)
    quantiles = np.zeros(scores.size)
    for mixture, share in densities:
        quantiles += share * _in_chunks(mixture, mixture.from_normal_score, scores)
    edges = _edges(*np.interp(_ENDS, scores, quantiles))
    return _binned(edges, special.ndtr(np.interp(edges, quantiles, scores)))


def _in_chunks(
    mixture: Density, function: Callable[[FloatArray], FloatArray], x: FloatArray
) -> FloatArray:
    """Return ``function(x)``, with a bounded number of points times components at a time."""
    parts = -(-x.size * mixture.components // _CHUNK)
    return np.concatenate([function(part) for part in np.array_split(x, min(parts, x.size))])


def _edges(low: float, bulk_low: float, bulk_high: float, high: float) -> FloatArray:
    """Return the bin edges, given the ends of the mass and of its bulk."""
    bulk = bulk_high - bulk_low
    width = 2.0 ** np.floor(np.log2(bulk / _LEVELS))
    first = np.floor(max(low, bulk_low - _REACH * bulk) / width)
    last = np.ceil(min(high, bulk_high + _REACH * bulk) / width)
    edges: FloatArray = np.arange(first, last + 1) * width
    return edges


def _binned(edges: FloatArray, below: FloatArray) -> Histogram:
    """Return the histogram with these bin edges, given the share of the mass below each."""
    width = edges[1:2] - edges[0]
    counts = np.maximum(np.rint(_TOTAL * np.diff(below)), 0.0)  # a difference may be -1e-17
    return Histogram(edges[:-1] + 0.5 * width, counts, width, np.zeros(1))


def _grouped(densities: Weighted) -> Histogram:
    """Return the mean density of several channels: equal masses at the means of point groups."""
    points = _points(densities)[np.newaxis]
    for _ in range(_HALVINGS):
        centred = points - points.mean(axis=1, keepdims=True)
        longest = np.linalg.eigh(einsum("gni,gnj->gij", centred, centred))[1][:, :, -1]
        order = einsum("gni,gi->gn", centred, longest).argsort(axis=1, kind="stable")
        halves = np.take_along_axis(points, order[:, :, np.newaxis], axis=1)
        points = halves.reshape(2 * len(points), -1, points.shape[2])
    return Histogram(points.mean(axis=1), np.full(len(points), _TOTAL / len(points)))


def _points(densities: Weighted) -> FloatArray:
    """Return points that fill the mean density evenly, (n, d).

    Of each point of a Sobol sequence in the unit cube of d + 1 dimensions, the first coordinate
    picks a component and the others a point of it, ``μ + L Φ⁻¹(u)``. In one dimension the first 2^m
    Sobol points are the multiples of 2^-m, in some order; shifted by half of that they are the
    centres of the cells, so that ``Φ⁻¹(0)`` never occurs.
    """
    from scipy.stats import qmc  # slow to import, and needed for several channels only

    means = np.concatenate([mixture.means for mixture, _ in densities])
    factors = np.concatenate([gaussian.cholesky(mixture.covariances) for mixture, _ in densities])
    masses = np.concatenate([share * mixture.weights for mixture, share in densities])
    d = means.shape[1]
    sequence = qmc.Sobol(d + 1, scramble=False)
    uniform = sequence.random_base2(_LOG2_POINTS) + 0.5 ** (_LOG2_POINTS + 1)
    below = np.cumsum(masses)
    which = np.searchsorted(below / below[-1], uniform[:, 0], side="right")
    return means[which] + einsum("nij,nj->ni", factors[which], special.ndtri(uniform[:, 1:]))


# ── pushforward ───────────────────────────────────────────────────────────────────────────────────


def pushforward(
    mixture: GaussianMixture, imap: IntensityMap, *, effective_count: float = 3e4
) -> GaussianMixture:
    """Return a mixture that approximates the density of ``imap(x)``.

    Parameters
    ----------
    mixture : the density of x, in one channel.
    imap : an increasing map of one channel, to reference space.
    effective_count : of the fit, see `fit`. It may be high, because there is no noise to overfit.

    Examples
    --------
    >>> from ndflow import Affine
    >>> moved = pushforward(GaussianMixture([1.0], [100.0], [1 / 400]), Affine(0.05, -5.0))
    >>> moved
    GaussianMixture(components=1, channels=1)
    >>> moved.covariance().round(3)
    array([[1.]])
    """
    exact = Pushforward(mixture, imap)
    bins = mean_density([(exact, 1.0)])
    # Each component moves with the tangent of the map, which is close to where a fit ends.
    means = mixture.means[:, 0]
    slopes = np.exp(imap.log_det_jacobian(means))[:, np.newaxis, np.newaxis]
    start = GaussianMixture(mixture.weights, imap(means), mixture.precisions / slopes**2)
    moved = fit(bins, effective_count=effective_count, start=start).mixture
    edges = bins.values[:, 0]
    misfit = float(np.abs(moved.cdf(edges) - exact.cdf(edges)).max())
    if misfit * np.sqrt(effective_count) < 1:  # less than chance makes of so many voxels
        return moved
    return fit(bins, effective_count=effective_count).mixture
