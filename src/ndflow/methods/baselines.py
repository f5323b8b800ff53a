"""The methods that density flows are compared with: affine, z-score, Nyúl, quantile, Hellier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from ndflow.density import GaussianMixture, Histogram, trimmed
from ndflow.density.condense import condensed
from ndflow.errors import DegenerateDataError
from ndflow.methods import base
from ndflow.methods.base import DensityModel, LandmarkMethod, Method, Solution
from ndflow.options import Options
from ndflow.transport import Affine, IntensityMap, PiecewiseLinear, align, divergence
from ndflow.transport.tabulated import smooth_table
from ndflow.values import FloatArray, einsum


class AffineAlignment(Method):
    """Align the mean and the standard deviation of the density."""

    name = "affine"
    uses = frozenset({"objective"})
    only_aligns = True

    def solve(self, source: DensityModel, target: DensityModel, options: Options) -> Solution:
        """Return the alignment."""
        affine = align(source.mixture, target.mixture)
        aligned = source.mixture.transformed(affine.matrix, affine.offset)
        unit = align(target.mixture)  # the target has unit variance there, as for `match`
        one, two = (m.transformed(unit.matrix, unit.offset) for m in (aligned, target.mixture))
        apart = divergence(one, two, options.objective)
        found = base.Divergence(options.objective, apart, apart)
        return Solution(affine, affine, "z-scored, not matched", divergence=found)


# ── z-score ───────────────────────────────────────────────────────────────────────────────────────


class ZScore(LandmarkMethod):
    """Align the mean and the standard deviation of the voxels."""

    name = "zscore"
    count = 2
    fixed = (0.0, 1.0)
    usual_scale = "standard"  # otherwise results would not be z-scores

    def landmarks_of(self, histogram: Histogram, options: Options) -> FloatArray:
        """Return the mean, and the intensity one standard deviation above."""
        return _mean_and_above(histogram)

    def landmarks_of_density(self, mixture: GaussianMixture, options: Options) -> FloatArray:
        """Return the same of a density."""
        return _mean_and_above(mixture)

    def join(self, own: FloatArray, target: FloatArray) -> Solution:
        """Return the affine map between the two."""
        factor = (target[1] - target[0]) / (own[1] - own[0])
        affine = Affine(np.array([[factor]]), np.array([target[0] - factor * own[0]]))
        return Solution(affine, affine, "aligned")


def _mean_and_above(distribution: Histogram | GaussianMixture) -> FloatArray:
    mean = float(distribution.mean()[0])
    return np.array([mean, mean + float(np.sqrt(distribution.covariance()[0, 0]))])


# ── Nyúl ──────────────────────────────────────────────────────────────────────────────────────────
# ``nyul``: percentiles of a scan, joined to those of a target by linear interpolation [nyul2000].
#
# The landmarks are the percentiles 1, 10, 20, …, 90, 99 of the voxels, as `numpy.percentile`
# computes them (for float images with very many levels, whose histogram joins neighbouring levels,
# to about 1e-4 of the standard deviation). With another number of landmarks, the inner ones still
# go from 10 to 90 in equal steps.

_OUTER = (0.01, 0.99)
_INNER = (0.1, 0.9)
_ROUNDING = 1e-12  # landmarks closer than this share of their range are equal


class Nyul(LandmarkMethod):
    """Match percentiles one by one."""

    name = "nyul"
    uses = frozenset({"landmarks"})
    cites = "nyul2000"

    def landmarks_of(self, histogram: Histogram, options: Options) -> FloatArray:
        """Return the percentiles of a scan."""
        return percentiles(histogram, options.landmarks)

    def landmarks_of_density(self, mixture: GaussianMixture, options: Options) -> FloatArray:
        """Return the percentiles of a density."""
        return mixture.quantile(landmark_levels(options.landmarks))

    def join(self, own: FloatArray, target: FloatArray) -> Solution:
        """Return straight lines from each landmark to the next."""
        return Solution(through_points(own, target), None, f"joined at {own.size} landmarks")

    def options(self, options: Options) -> list[str]:
        """Return how many landmarks were asked for."""
        return [f"landmarks {options.landmarks}"]


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


# ── quantile ──────────────────────────────────────────────────────────────────────────────────────
# ``quantile``: the whole distribution of a scan, matched to that of a target.
#
# This is Nyúl's method with very many landmarks. The mass of each level is spread evenly half-way
# to its neighbours: integers would tie otherwise, and a map needs points that rise. The landmarks
# are equally spaced in normal scores, so they reach far into both tails.

_SCORES = np.linspace(-4.0, 4.0, 801)


class Quantile(LandmarkMethod):
    """Match whole distributions."""

    name = "quantile"

    def landmarks_of(self, histogram: Histogram, options: Options) -> FloatArray:
        """Return the distribution of a scan, as its quantiles at fixed normal scores."""
        return base.histogram_quantiles(histogram, special.ndtr(_SCORES))

    def landmarks_of_density(self, mixture: GaussianMixture, options: Options) -> FloatArray:
        """Return the same of a density."""
        return mixture.from_normal_score(_SCORES)

    def join(self, own: FloatArray, target: FloatArray) -> Solution:
        """Return straight lines from each quantile to the next."""
        return Solution(through_points(own, target), None, f"joined at {own.size} landmarks")


# ── Hellier ───────────────────────────────────────────────────────────────────────────────────────
# ``hellier``: five classes of intensities, and the polynomial through their means [hellier2003].
#
# A finite mixture of five Gaussians is fitted to the histogram by expectation maximisation; for a
# brain they are read as CSF, GM, WM and what lies between. The means of corresponding classes are
# the landmarks, and a polynomial goes through them.
#
# The classes of greatest likelihood do not correspond: from scan to scan one of them may describe a
# tail, or split what was one class before. So each is held near the place where it starts, a fixed
# quantile, as if some voxels were known to belong to it: half as many as there are, spread evenly
# over Gaussians at the five starts. That makes this baseline far better than it would be otherwise
# (docs/study.md).
#
# A polynomial need not rise. Where the one of degree four, which passes through all five pairs,
# does not (or hardly), the least-squares polynomial of the next lower degree is used, and the user
# is told; a straight line always rises. Beyond the outer classes the map continues with the slope
# it has there.

CLASSES = 5

_STARTS = np.arange(1, 2 * CLASSES, 2) / (2 * CLASSES)  # quantiles: 10, 30, … 90 %
_KNOWN = 0.5  # voxels known to belong to a class, as a share of all voxels
_SWEEPS = 500
_SETTLED = 1e-7  # gain in log-likelihood per voxel and sweep
_FLATTEST = 0.1  # slope of a polynomial that rises, as a share of its mean slope
_POINTS = 201
_SAME = 1e-9  # distance of classes that have not parted, as a share of the range


class Hellier(LandmarkMethod):
    """Join the means of five classes by a polynomial."""

    name = "hellier"
    count = CLASSES
    cites = "hellier2003"

    def landmarks_of(self, histogram: Histogram, options: Options) -> FloatArray:
        """Return the means of the classes."""
        return class_means(histogram)

    def join(self, own: FloatArray, target: FloatArray) -> Solution:
        """Return the polynomial of the highest degree that rises."""
        imap, degree = through_classes(own, target)
        message = f"joined by a polynomial of degree {degree}"
        if degree == CLASSES - 1:
            return Solution(imap, None, message)
        message = f"was {message}, because none of higher degree rises enough"
        return Solution(imap, None, message, converged=False)


def class_means(histogram: Histogram) -> FloatArray:
    """Return the means of five Gaussian classes, in ascending order, (5,)."""
    seen = condensed(trimmed(histogram))
    levels, counts = seen.values[:, 0], seen.counts / seen.total
    if levels.size < 2 * CLASSES:
        raise DegenerateDataError(f"holds {levels.size} intensities, too few for {CLASSES} classes")
    mean, sd = float(seen.mean()[0]), float(np.sqrt(seen.covariance()[0, 0]))
    x = (levels - mean) / sd
    starts = np.interp(_STARTS, np.cumsum(counts), x)
    width = 1 / CLASSES**2
    known = _KNOWN / CLASSES
    means, variances, weights = starts, np.full(CLASSES, width), np.full(CLASSES, 1 / CLASSES)
    before = -np.inf
    for _ in range(_SWEEPS):
        joint = np.log(weights) + _log_gaussian((x[:, np.newaxis] - means) ** 2, variances)
        total = special.logsumexp(joint, axis=1)
        of_known = np.log(weights) + _log_gaussian((means - starts) ** 2 + width, variances)
        likelihood = float(einsum("n,n->", counts, total) + known * of_known.sum())
        if likelihood - before < _SETTLED:
            break
        before = likelihood
        shares = counts[:, np.newaxis] * np.exp(joint - total[:, np.newaxis])
        masses = shares.sum(axis=0) + known
        weights = masses / (1 + _KNOWN)
        means = (einsum("nk,n->k", shares, x) + known * starts) / masses
        squares = einsum("nk,nk->k", shares, (x[:, np.newaxis] - means) ** 2)
        variances = (squares + known * ((means - starts) ** 2 + width)) / masses
    return mean + sd * np.sort(means)


def _log_gaussian(squared_distances: FloatArray, variances: FloatArray) -> FloatArray:
    return -0.5 * (np.log(2 * np.pi * variances) + squared_distances / variances)


def through_classes(own: FloatArray, target: FloatArray) -> tuple[IntensityMap, int]:
    """Return the polynomial of the highest degree that rises, and that degree."""
    low, high = own[0], own[-1]
    knots = np.linspace(low, high, _POINTS)
    apart = 1 + np.count_nonzero(np.diff(own) > _SAME * (high - low))
    for degree in range(apart - 1, 1, -1):
        curve: Any = Polynomial.fit(own, target, degree, domain=[low, high])
        slope = curve.deriv()
        turns = slope.deriv().roots()
        turns = turns.real[(np.abs(turns.imag) < 1e-9) & (turns.real > low) & (turns.real < high)]
        least = slope(np.concatenate([[low, high], turns])).min()
        if least > _FLATTEST * (curve(high) - curve(low)) / (high - low):
            return smooth_table(knots, curve(knots), slope(knots)), degree
    line: Any = Polynomial.fit(own, target, 1, domain=[low, high]).convert()
    offset, factor = line.coef
    return Affine(np.array([[factor]]), np.array([offset])), 1


METHODS = (AffineAlignment(), ZScore(), Nyul(), Quantile(), Hellier())
