"""Pushforwards: the density of ``f(x)`` where x has a known density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, fit
from ndflow.population.averaging import mean_density
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["Pushforward", "pushforward"]


@dataclass(frozen=True)
class Pushforward:
    """The density of ``imap(x)`` where x has the density `mixture`, in one channel.

    Its distribution function is ``F(imap⁻¹(y))``, its quantile function ``imap(Q(p))``.
    """

    mixture: GaussianMixture
    imap: IntensityMap

    @property
    def channels(self) -> int:
        """One."""
        return self.imap.channels

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
