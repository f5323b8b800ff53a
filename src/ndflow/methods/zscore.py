"""``zscore``: the mean and the standard deviation of the voxels, and nothing else."""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.methods.landmark_method import Joined, LandmarkMethod, straight_line
from ndflow.methods.matching import Matching
from ndflow.values import FloatArray

__all__ = ["METHODS", "ZScore"]


class ZScore(LandmarkMethod):
    """Align the mean and the standard deviation of the voxels."""

    name = "zscore"
    count = 2
    fixed = (0.0, 1.0)
    usual_scale = "standard"  # otherwise results would not be z-scores

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the mean, and the intensity one standard deviation above."""
        return _mean_and_above(histogram)

    def landmarks_of_density(self, mixture: GaussianMixture, matching: Matching) -> FloatArray:
        """Return the same of a density."""
        return _mean_and_above(mixture)

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return the affine map between the two."""
        return straight_line(own, target)

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return "aligned by the mean and standard deviation of their voxels alone"


def _mean_and_above(distribution: Histogram | GaussianMixture) -> FloatArray:
    mean = float(distribution.mean()[0])
    return np.array([mean, mean + float(np.sqrt(distribution.covariance()[0, 0]))])


METHODS = (ZScore(),)
