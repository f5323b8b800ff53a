"""``hellier``: five classes of intensities, and the polynomial through their means [hellier2003].

A finite mixture of five Gaussians is fitted to the histogram by expectation maximisation; for a
brain they are read as CSF, GM, WM and what lies between. The means of corresponding classes are the
landmarks, and a polynomial goes through them.

The classes of greatest likelihood do not correspond: from scan to scan one of them may describe a
tail, or split what was one class before. So each is held near the place where it starts, a fixed
quantile, as if some voxels were known to belong to it: half as many as there are, spread evenly
over Gaussians at the five starts. That makes this baseline far better than it would be otherwise
(docs/study.md).

A polynomial need not rise. Where the one of degree four, which passes through all five pairs, does
not (or hardly), the least-squares polynomial of the next lower degree is used, and the user is
told; a straight line always rises. Beyond the outer classes the map continues with the slope it has
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from ndflow.density import Histogram, condensed, trimmed
from ndflow.errors import DegenerateDataError
from ndflow.methods.landmark_method import Joined, LandmarkMethod
from ndflow.methods.matching import Matching
from ndflow.transport import Affine, IntensityMap, smooth_table
from ndflow.values import FloatArray, einsum

__all__ = ["CLASSES", "METHODS", "Hellier", "class_means", "through_classes"]

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
    bibtex = """@inproceedings{hellier2003,
  author    = {Hellier, Pierre},
  title     = {Consistent Intensity Correction of {MR} Images},
  booktitle = {International Conference on Image Processing ({ICIP})},
  year      = {2003},
}"""

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the means of the classes."""
        return class_means(histogram)

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return the polynomial of the highest degree that rises."""
        imap, degree = through_classes(own, target)
        if degree == CLASSES - 1:
            return Joined(imap, f"joined by a polynomial of degree {degree}")
        message = (
            f"was joined by a polynomial of degree {degree}, because none of higher degree rises "
            f"enough"
        )
        return Joined(imap, message, as_intended=False)

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return (
            "normalised by a polynomial through the means of five Gaussian classes, held near "
            "fixed quantiles (after Hellier, 2003)"
        )


def class_means(histogram: Histogram) -> FloatArray:
    """Return the means of five Gaussian classes, in ascending order, (5,)."""
    seen = condensed(trimmed(histogram))
    levels, counts = seen.values[:, 0], seen.counts / seen.total
    if levels.size < 2 * CLASSES:
        raise DegenerateDataError(
            f"holds {levels.size} different intensities, too few for {CLASSES} classes"
        )
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
    sorted_means: FloatArray = mean + sd * np.sort(means)
    return sorted_means


def _log_gaussian(squared_distances: FloatArray, variances: FloatArray) -> FloatArray:
    result: FloatArray = -0.5 * (np.log(2 * np.pi * variances) + squared_distances / variances)
    return result


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


METHODS = (Hellier(),)
