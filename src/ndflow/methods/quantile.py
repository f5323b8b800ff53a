"""``quantile``: the whole distribution of a scan, matched to that of a target.

This is Nyúl's method with very many landmarks. The mass of each level is spread evenly half-way to
its neighbours: integers would tie otherwise, and a map needs points that rise. The landmarks are
equally spaced in normal scores, so they reach far into both tails.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from ndflow.density import GaussianMixture, Histogram
from ndflow.density.binning import midpoint_edges
from ndflow.errors import DegenerateDataError
from ndflow.methods.landmark_method import Joined, LandmarkMethod
from ndflow.methods.matching import Matching
from ndflow.methods.nyul import through_points
from ndflow.values import FloatArray

__all__ = ["METHODS", "Quantile", "histogram_quantiles"]

_SCORES = np.linspace(-4.0, 4.0, 801)


class Quantile(LandmarkMethod):
    """Match whole distributions."""

    name = "quantile"

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the distribution of a scan, as its quantiles at fixed normal scores."""
        return histogram_quantiles(histogram, special.ndtr(_SCORES))

    def landmarks_of_density(self, mixture: GaussianMixture, matching: Matching) -> FloatArray:
        """Return the same of a density."""
        return mixture.from_normal_score(_SCORES)

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return straight lines from each quantile to the next."""
        return Joined(through_points(own, target), f"joined at {own.size} landmarks")

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return "matched exactly in their distributions"


def histogram_quantiles(histogram: Histogram, levels: FloatArray) -> FloatArray:
    """Return the intensities below which the given shares of a scan's voxels lie."""
    values, counts = histogram.values[:, 0], histogram.counts
    if values.size < 2:
        raise DegenerateDataError(f"all voxels that count have the value {values[0]:g}")
    below = np.concatenate([[0.0], np.cumsum(counts)])
    quantiles: FloatArray = np.interp(levels * below[-1], below, midpoint_edges(values))
    return quantiles


METHODS = (Quantile(),)
