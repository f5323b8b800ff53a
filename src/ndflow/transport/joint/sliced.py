"""How far points of several channels are from a density: sliced Wasserstein distance [bonneel2015].

The distance W1 of two distributions on a line is the mean difference of their quantiles. Slices of
several channels are such distributions: the points and the density, projected onto a direction. The
distance is the mean over directions that are fixed once and for all, in units in which the density
has unit variance in each channel. A projected mixture is a mixture, so only the points are a
sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.projections import projected
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, einsum, whole

__all__ = ["Slices", "sliced_distance"]

_LEVELS = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True, eq=False)
class Slices:
    """A density that is sliced once, for the distances of several samples from it.

    Attributes
    ----------
    mixture : the density, with d channels.
    directions : how many.

    Examples
    --------
    See `sliced_distance`.
    """

    mixture: GaussianMixture
    directions: int = 64

    def __post_init__(self) -> None:
        """Validate."""
        whole(self.directions, "directions", 1, 1 << 16)

    def distance(self, points: FloatArray) -> float:
        """Return the sliced Wasserstein distance of points from the density.

        Parameters
        ----------
        points : (n, d), a sample.

        Returns
        -------
        The mean distance over directions, in standard deviations of the density.
        """
        d = self.mixture.channels
        if points.ndim != 2 or points.shape[1] != d or not len(points):
            raise InvalidValueError(f"points must have {d} channels, (n, {d}), not {points.shape}")
        differences = []
        for vector, goal in zip(self._vectors, self._goals, strict=True):
            line = einsum("ni,i->n", points, vector)
            differences.append(np.abs(_quantiles(np.sort(line)) - goal).mean())
        return float(np.mean(differences))

    @cached_property
    def _vectors(self) -> FloatArray:
        d = self.mixture.channels
        spread = np.sqrt(np.diagonal(self.mixture.covariance()))
        vectors = np.random.default_rng(0).standard_normal((self.directions, d))
        vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True)) * spread
        return vectors

    @cached_property
    def _goals(self) -> list[FloatArray]:
        """The quantiles of the density along each direction."""
        return [projected(self.mixture, vector).quantile(_LEVELS) for vector in self._vectors]


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
    return Slices(mixture, directions).distance(points)


def _quantiles(ordered: FloatArray) -> FloatArray:
    places = _LEVELS * len(ordered) - 0.5
    result: FloatArray = np.interp(places, np.arange(len(ordered)), ordered)
    return result
