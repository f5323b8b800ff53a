"""Averages of densities, as histograms that a mixture can be fitted to.

- `mean_density`: ``q̄(x) = Σ_i w_i q_i(x)``, which is what a histogram of all scans together tends
  to. With one channel the mass of a bin is a difference of distribution functions, so it is exact.
  With more, a few thousand bins of a lattice are wider than narrow components, and a fit then finds
  the bins. So points that fill the density are halved again and again, across the longest axis of
  each half; the means of such groups lie dense where the density is high.
- `mean_quantiles`: ``Q̄(p) = Σ_i w_i Q_i(p)``, the density at the least total Wasserstein distance
  from all (their barycentre). Peaks that stand in different places are moved before they are
  averaged, not blurred; there is no such formula for several channels.

All densities are in reference space, with zero mean and unit variance. Edges of bins are multiples
of a power of two, and counts whole numbers of a billion: rounding errors of 1e-16, which other
units of intensity bring in, hardly ever reach them. Densities are taken one after the other, so
memory does not grow with the cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density import GaussianMixture, Histogram, gaussian
from ndflow.values import FloatArray, einsum

__all__ = ["Density", "Weighted", "mean_density", "mean_quantiles"]


class Density(Protocol):
    """What a density of one channel must tell: a mixture, or one moved by a map."""

    @property
    def channels(self) -> int:
        """The number of channels."""

    @property
    def components(self) -> int:
        """How many it is made of."""

    def cdf(self, x: ArrayLike, /) -> FloatArray:
        """Return the distribution function."""

    def from_normal_score(self, z: ArrayLike, /) -> FloatArray:
        """Return quantiles."""


Weighted = Sequence[tuple[GaussianMixture, float]]  # densities and their shares, which sum to 1
Moved = Sequence[tuple[Density, float]]

_TOTAL = 1e9
# Normal scores: a millionth of the mass lies beyond the outer two, half a percent beyond the inner.
_ENDS = np.array([-4.75, -2.575, 2.575, 4.75])
_LEVELS = 512  # at least, over the bulk; a fit uses up to twice as many
_REACH = 3.0  # in widths of the bulk, as far as a fit looks
_SCORES = 2001  # of the averaged quantiles; straight lines between them are 1e-5 off in mass
_POINTS = 1 << 18  # of several channels
_HALVINGS = 12  # of those points, into as many groups as a fit uses bins
_CHUNK = 1 << 20  # numbers to hold at once


def mean_density(densities: Weighted | Moved) -> Histogram:
    """Return the mean of densities in reference space, as counts of a billion voxels."""
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
    """Return the barycentre of densities of one channel, as counts of a billion voxels."""
    scores = np.linspace(_ENDS[0], _ENDS[3], _SCORES)
    quantiles = np.zeros(scores.size)
    for mixture, share in densities:
        quantiles += share * _in_chunks(mixture, mixture.from_normal_score, scores)
    edges = _edges(*np.interp(_ENDS, scores, quantiles))
    return _binned(edges, special.ndtr(np.interp(edges, quantiles, scores)))


def _in_chunks(
    mixture: Density, function: Callable[[FloatArray], FloatArray], x: FloatArray
) -> FloatArray:
    """Return ``function(x)``, with no more than so many points times components at once."""
    parts = -(-x.size * mixture.components // _CHUNK)
    return np.concatenate([function(part) for part in np.array_split(x, min(parts, x.size))])


def _edges(low: float, bulk_low: float, bulk_high: float, high: float) -> FloatArray:
    """Return the edges of the lattice, given where the mass and where its bulk begin and end."""
    bulk = bulk_high - bulk_low
    width = 2.0 ** np.floor(np.log2(bulk / _LEVELS))
    first = np.floor(max(low, bulk_low - _REACH * bulk) / width)
    last = np.ceil(min(high, bulk_high + _REACH * bulk) / width)
    edges: FloatArray = np.arange(first, last + 1) * width
    return edges


def _binned(edges: FloatArray, below: FloatArray) -> Histogram:
    """Return the histogram with these edges, given the share of the mass below each."""
    width = edges[1:2] - edges[0]
    counts = np.maximum(np.rint(_TOTAL * np.diff(below)), 0.0)  # a difference may be -1e-17
    return Histogram(edges[:-1] + 0.5 * width, counts, width, np.zeros(1))


def _grouped(densities: Weighted) -> Histogram:
    """Return the mean density of several channels: equal masses at the means of their points."""
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

    A number in [0, 1) picks a component, d more a point of it, ``μ + L Φ⁻¹(u)``. The n tuples of
    them are the multiples of powers of 1/g, modulo 1, where ``g^(d+2) = g + 1``: the golden ratio's
    kin, which leave smaller gaps than random numbers do.
    """
    means = np.concatenate([mixture.means for mixture, _ in densities])
    factors = np.concatenate([gaussian.cholesky(mixture.covariances) for mixture, _ in densities])
    masses = np.concatenate([share * mixture.weights for mixture, share in densities])
    d = means.shape[1]
    ratio = 1.5
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (d + 2))
    multiples = np.arange(1.0, _POINTS + 1)[:, np.newaxis] * ratio ** -np.arange(1.0, d + 2)
    uniform = (0.5 + multiples) % 1
    below = np.cumsum(masses)
    which = np.searchsorted(below / below[-1], uniform[:, 0], side="right")
    return means[which] + einsum("nij,nj->ni", factors[which], special.ndtri(uniform[:, 1:]))
