"""``nyul``: percentiles of a scan, joined to those of a target by linear interpolation [nyul2000].

The landmarks are the percentiles 1, 10, 20, …, 90, 99 of the voxels, as `numpy.percentile` computes
them (for float images with very many levels, whose histogram joins neighbouring levels, to about
1e-4 of the standard deviation). With another number of landmarks, the inner ones still go from 10
to 90 in equal steps.
"""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.methods.landmark_method import Joined, LandmarkMethod
from ndflow.methods.matching import Matching
from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray

__all__ = ["METHODS", "Nyul", "landmark_levels", "percentiles", "through_points"]

_OUTER = (0.01, 0.99)
_INNER = (0.1, 0.9)
_ROUNDING = 1e-12  # landmarks closer than this share of their range are equal


class Nyul(LandmarkMethod):
    """Match percentiles one by one."""

    name = "nyul"
    uses = frozenset({"landmarks"})
    bibtex = """@article{nyul2000,
  author  = {Ny{\\'u}l, L{\\'a}szl{\\'o} G. and Udupa, Jayaram K. and Zhang, Xuan},
  title   = {New Variants of a Method of {MRI} Scale Standardization},
  journal = {IEEE Transactions on Medical Imaging},
  volume  = {19},
  number  = {2},
  pages   = {143--150},
  year    = {2000},
  doi     = {10.1109/42.836373},
}"""

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the percentiles of a scan."""
        return percentiles(histogram, matching.landmarks)

    def landmarks_of_density(self, mixture: GaussianMixture, matching: Matching) -> FloatArray:
        """Return the percentiles of a density."""
        return mixture.quantile(landmark_levels(matching.landmarks))

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return straight lines from each landmark to the next."""
        return Joined(through_points(own, target), f"joined at {own.size} landmarks")

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return (
            f"normalised by {matching.landmarks} percentiles joined piecewise linearly "
            f"(Nyúl et al., 2000)"
        )

    def options(self, matching: Matching) -> list[str]:
        """Return how many landmarks were asked for."""
        return [f"landmarks {matching.landmarks}"]


def landmark_levels(count: int) -> FloatArray:
    """Return the share of the voxels below each of `count` landmarks; at least two."""
    inner = np.linspace(*_INNER, count - 2) if count > 3 else [0.5] * (count - 2)
    return np.concatenate([_OUTER[:1], inner, _OUTER[1:]])


def percentiles(histogram: Histogram, count: int) -> FloatArray:
    """Return `count` percentiles of a scan, interpolated between voxels as numpy does."""
    levels, counts = histogram.values[:, 0], histogram.counts
    upto = np.cumsum(counts)
    place = landmark_levels(count) * (upto[-1] - 1)
    below = np.floor(place)
    ends = [np.searchsorted(upto, rank, side="right") for rank in (below, below + 1)]
    low, high = (levels[np.minimum(end, levels.size - 1)] for end in ends)
    landmarks: FloatArray = low + (place - below) * (high - low)
    return landmarks


def through_points(own: FloatArray, target: FloatArray) -> PiecewiseLinear:
    """Return straight lines through pairs of landmarks; equal ones are replaced by their mean.

    Ties occur in scans with few levels, and at both ends of a distribution.
    """
    knots, values = _without_ties(own, target)
    values, knots = _without_ties(values, knots)
    return PiecewiseLinear(knots, values)


def _without_ties(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each x once, up to rounding errors, and the mean of the y that belong to it."""
    tiny = _ROUNDING * (x[-1] - x[0])
    group = np.concatenate([[0], np.cumsum(np.diff(x) > tiny)])
    sizes = np.bincount(group)
    return np.bincount(group, x) / sizes, np.bincount(group, y) / sizes


METHODS = (Nyul(),)
