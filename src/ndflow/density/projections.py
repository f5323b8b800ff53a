"""One-channel views of densities of several channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density.mixture import GaussianMixture
from ndflow.values import einsum, real_array, whole

__all__ = ["marginal", "projected"]


def projected(mixture: GaussianMixture, direction: ArrayLike) -> GaussianMixture:
    """Return the density of ``w · x`` where x has the density of `mixture`.

    Parameters
    ----------
    mixture : a density of d channels.
    direction : w, (d,), not zero.

    Examples
    --------
    >>> round_one = GaussianMixture([1.0], [[1.0, 2.0]], [np.eye(2)])
    >>> projected(round_one, [3.0, 4.0]).mean()
    array([11.])
    """
    w = real_array(direction, "direction", mixture.channels)
    variances = einsum("i,kij,j->k", w, mixture.covariances, w)
    return GaussianMixture(mixture.weights, einsum("ki,i->k", mixture.means, w), 1 / variances)


def marginal(mixture: GaussianMixture, channel: int) -> GaussianMixture:
    """Return the density of one channel.

    Parameters
    ----------
    mixture : a density of d channels.
    channel : its index.

    Examples
    --------
    >>> both = GaussianMixture([1.0], [[1.0, 2.0]], [np.eye(2)])
    >>> marginal(both, 1).mean()
    array([2.])
    """
    whole(channel, "channel", 0, mixture.channels - 1)
    return projected(mixture, np.eye(mixture.channels)[channel])
