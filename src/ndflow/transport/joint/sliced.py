"""How far points of several channels are from a density: sliced Wasserstein distance [bonneel2015].

The distance W1 of two distributions on a line is the mean difference of their quantiles. Slices of
several channels are such distributions: the points and the density, projected onto a direction. The
distance is the mean over directions that are fixed once and for all, in units in which the density
has unit variance in each channel. A projected mixture is a mixture, so only the points are a
sample.
"""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.projections import projected
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, einsum, whole

__all__ = ["sliced_distance"]

_LEVELS = (np.arange(400) + 0.5) / 400


def sliced_distance(points: FloatArray, mixture: GaussianMixture, *, directions: int = 64) -> float:
    """Return the sliced Wasserstein distance of points from a density.

    Parameters
    ----------
    points : (n, d), a sample.
    mixture : the density, with d channels.
    directions : how many.

    Returns
    -------
    The mean distance over directions, in standard deviations of the density.

    Examples
    --------
    >>> normal = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> points = normal.sample(10_000, np.random.default_rng(0))
    >>> round(sliced_distance(points, normal), 1), round(sliced_distance(points + 1.0, normal), 1)
    (0.0, 0.9)
    """
    d = mixture.channels
    if points.ndim != 2 or points.shape[1] != d or not len(points):
        raise InvalidValueError(f"points must have {d} channels, (n, {d}), not {points.shape}")
    whole(directions, "directions", 1, 1 << 16)
    spread = np.sqrt(np.diagonal(mixture.covariance()))
    vectors = np.random.default_rng(0).standard_normal((directions, d))
    vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True)) * spread
    differences = []
    for vector in vectors:
        line = np.sort(einsum("ni,i->n", points, vector))
        own = np.interp(_LEVELS * len(line) - 0.5, np.arange(len(line)), line)
        differences.append(np.abs(own - projected(mixture, vector).quantile(_LEVELS)).mean())
    return float(np.mean(differences))
