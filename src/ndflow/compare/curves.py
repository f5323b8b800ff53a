"""Curves that several figures draw."""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.values import FloatArray

__all__ = ["component_densities", "edges_around"]


def component_densities(mixture: GaussianMixture, x: FloatArray) -> FloatArray:
    """Return the density of each component, times its weight, (K, n)."""
    density = np.exp(mixture.logpdf(x))
    parts: FloatArray = (mixture.responsibilities(x) * density[:, np.newaxis]).T
    return parts


def edges_around(x: FloatArray) -> FloatArray:
    """Return the edges of bins around increasing intensities, half-way between them, (n+1,)."""
    middles = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[2 * x[0] - middles[0]], middles, [2 * x[-1] - middles[-1]]])
