"""Whether a tissue classifier that was trained at one site works at another.

The simplest classifier of tissues by intensity: one Gaussian per tissue, with its share as prior;
a voxel belongs to the tissue with the largest

    log π_t − log s_t − (x − μ_t)² / (2 s_t²).

It is trained on the voxels of a site's scans, each scan with the same weight, and judged by the
Dice coefficient, the mean over tissues, in every scan

- of the other sites (*between*), the mean over classifiers of all of them;
- of its own site, trained without the scans of the same subject (*within*).

What intensities of one site mean at another is all that differs between the two, so their
difference is the loss that a normalisation should prevent. A Gaussian needs only count, sum and sum
of squares of each tissue in each scan; so leaving a subject out costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.values import FloatArray

__all__ = ["TissueClassifier", "TissueSample", "TissueTransfer", "dice", "tissue_transfer"]

_LEAST_SPREAD = 1e-6  # of a tissue, as a share of that of all voxels


class TissueSample(NamedTuple):
    """Voxels of a scan.

    Attributes
    ----------
    values : (n,), their intensities.
    tissue : (n,), the number of the tissue that each belongs to, from 0.
    """

    values: NDArray[np.float32]
    tissue: NDArray[np.uint8]


class TissueClassifier(NamedTuple):
    """One Gaussian per tissue.

    Attributes
    ----------
    share, mean, sd : (tissues,).
    """

    share: FloatArray
    mean: FloatArray
    sd: FloatArray

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the tissue that each voxel belongs to."""
        away = (np.asarray(values, np.float64)[:, np.newaxis] - self.mean) / self.sd
        with np.errstate(divide="ignore"):  # a tissue without a voxel has no share
            likely = np.log(self.share) - np.log(self.sd) - away**2 / 2
        best: NDArray[np.intp] = np.argmax(likely, axis=1)
        return best


class TissueTransfer(NamedTuple):
    """How well tissues are told apart.

    Attributes
    ----------
    within : (scans,), Dice with a classifier of the scan's own site; NaN without another subject.
    between : (scans,), the mean over classifiers of the other sites.
    """

    within: FloatArray
    between: FloatArray


def dice(found: NDArray[np.intp], truth: NDArray[np.uint8], tissues: int) -> float:
    """Return the Dice coefficient, the mean over the tissues that either has.

    Examples
    --------
    >>> dice(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1], np.uint8), 2)
    0.7333333333333334
    """
    each = []
    for number in range(tissues):
        one, other = found == number, truth == number
        if one.any() or other.any():
            each.append(2 * np.sum(one & other) / (one.sum() + other.sum()))
    return float(np.mean(each))


def tissue_transfer(
    samples: Sequence[TissueSample],
    sites: Sequence[str],
    subjects: Sequence[str],
    tissues: int = 3,
) -> TissueTransfer:
    """Return how well classifiers of the same site and of other sites do in each scan.

    Parameters
    ----------
    samples : voxels of each scan.
    sites : (scans,), where it was made.
    subjects : (scans,), who was scanned; nobody's scan is classified by what was learned from
        another scan of the same subject, at any site.
    tissues : how many there are.

    Examples
    --------
    >>> dark = TissueSample(np.array([1, 2, 5, 6], np.float32), np.array([0, 0, 1, 1], np.uint8))
    >>> bright = TissueSample(dark.values + 10, dark.tissue)
    >>> found = tissue_transfer([dark, dark, bright, bright], [*"aabb"], [*"pqrs"], tissues=2)
    >>> found.within.tolist(), found.between.round(2).tolist()
    ([1.0, 1.0, 1.0, 1.0], [0.33, 0.33, 0.33, 0.33])
    """
    sums = np.array([_sums(sample, tissues) for sample in samples])
    site, subject = np.array(sites), np.array(subjects)
    within, between = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
    names = sorted(set(sites))
    for place, sample in enumerate(samples):
        others = []
        for name in names:
            trained = (site == name) & (subject != subject[place])
            if trained.any():
                found = _trained(sums[trained].mean(axis=0))(sample.values)
                right = dice(found, sample.tissue, tissues)
                if name == site[place]:
                    within[place] = right
                else:
                    others.append(right)
        if others:
            between[place] = np.mean(others)
    return TissueTransfer(within, between)


def _sums(sample: TissueSample, tissues: int) -> FloatArray:
    """Return share of voxels, sum and sum of squares of each tissue, per voxel: (3, tissues)."""
    values, n = np.asarray(sample.values, np.float64), max(sample.values.size, 1)
    powers = (np.ones_like(values), values, values**2)
    return np.array([np.bincount(sample.tissue, one, minlength=tissues) / n for one in powers])


def _trained(sums: FloatArray) -> TissueClassifier:
    share, first, second = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(share > 0, first / share, 0.0)
        variance = np.where(share > 0, second / share - mean**2, 1.0)
    whole = second.sum() / share.sum() - (first.sum() / share.sum()) ** 2
    least = max(_LEAST_SPREAD**2 * whole, np.finfo(np.float64).tiny)
    return TissueClassifier(share / share.sum(), mean, np.sqrt(np.maximum(variance, least)))
