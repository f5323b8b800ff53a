"""Densities moved by a map: what ``f(x)`` looks like, where x has a known density."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, fit
from ndflow.population.averaging import mean_density
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["Pushforward", "pushforward"]


@dataclass(frozen=True)
class Pushforward:
    """The density of ``imap(x)``, where x has the density `mixture`; of one channel.

    Its distribution function is ``F(imap⁻¹(y))``, its quantiles are ``imap(Q(p))``.
    """

    mixture: GaussianMixture
    imap: IntensityMap

    @property
    def channels(self) -> int:
        """One."""
        return self.imap.channels

    @property
    def components(self) -> int:
        """How many the mixture has."""
        return self.mixture.components

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return the distribution function."""
        return self.mixture.cdf(self.imap.inverse()(y))

    def from_normal_score(self, z: ArrayLike) -> FloatArray:
        """Return the points below which the share ``Φ(z)`` of the mass lies."""
        return self.imap(self.mixture.from_normal_score(z))


def pushforward(
    mixture: GaussianMixture, imap: IntensityMap, *, effective_count: float = 3e4
) -> GaussianMixture:
    """Return a mixture for the density of ``imap(x)``; the map leads to reference space.

    Parameters
    ----------
    mixture : the density of x.
    imap : an increasing map of one channel.
    effective_count : of the fit, see `fit`. There is no noise in it that could be followed.
    """
    return fit(
        mean_density([(Pushforward(mixture, imap), 1.0)]), effective_count=effective_count
    ).mixture
