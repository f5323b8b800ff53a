"""Distances between sites, between the scans of a site, and between those of a subject.

On the real line the Wasserstein distance is the mean absolute difference of quantiles,
``W1 = ∫ |Q_i − Q_j| dp`` over p from 0 to 1. With q quantiles at evenly spaced levels it is the
mean over these. Levels that do not reach 0 and 1 leave out the tails, where a handful of voxels
would dominate.

A normalisation should bring sites together without making all scans of a site the same. From the
quantiles of each scan, and their average over the scans of a site (the Wasserstein barycentre of
these scans):

- `distance_between_sites`: the mean of W1 over pairs of sites, each represented by its average;
- `distance_within_sites`: the mean over scans of W1 to the average of their site, for sites with
  two or more scans.

*Repeatability*: scans of one subject should be alike, and unlike those of others. So there is the
mean Wasserstein distance over pairs of scans of the same subject, and that over pairs of scans of
different subjects. A normalisation that merely shrinks everything makes both smaller; their ratio
shows whether it preserves what distinguishes subjects. Scans whose subject is not known are left
out, because they could belong to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.values import FloatArray

# ── distances ─────────────────────────────────────────────────────────────────────────────────────


def distance_between_sites(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean Wasserstein distance between sites, each represented by its average.

    Parameters
    ----------
    quantiles : (scans, q), at the same evenly spaced levels for all scans.
    sites : (scans,), the site of each scan.

    Examples
    --------
    >>> distance_between_sites([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"])
    10.0
    """
    given, site = _numbered(quantiles, sites)
    averages = _averages(given, site)
    pairs = np.triu_indices(len(averages), 1)
    return float(wasserstein_matrix(averages)[pairs].mean())


def distance_within_sites(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean Wasserstein distance of scans from the average of their site.

    Parameters
    ----------
    quantiles : (scans, q), at the same evenly spaced levels for all scans.
    sites : (scans,), the site of each scan; sites with a single scan do not contribute, and NaN is
        returned if there are no others.

    Examples
    --------
    >>> distance_within_sites([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"])
    1.0
    """
    given, site = _numbered(quantiles, sites)
    away = np.abs(given - _averages(given, site)[site]).mean(axis=1)
    repeated = np.bincount(site)[site] > 1
    return float(away[repeated].mean()) if repeated.any() else math.nan


def wasserstein_matrix(quantiles: FloatArray) -> FloatArray:
    """Return the Wasserstein distances between n scans, (n, n), from their quantiles, (n, q).

    Examples
    --------
    >>> wasserstein_matrix(np.array([[0.0, 1.0], [2.0, 5.0]])).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    # Row by row: all differences at once would be n·n·q numbers.
    rows = [np.abs(quantiles - row).mean(axis=1) for row in quantiles]
    return np.array(rows).reshape(len(rows), len(rows))


def _numbered(quantiles: ArrayLike, sites: Sequence[str]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the quantiles, and the number of each scan's site."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(sites))}
    return np.asarray(quantiles, np.float64), np.array([numbers[name] for name in sites], np.intp)


def _averages(quantiles: FloatArray, site: NDArray[np.intp]) -> FloatArray:
    """Return the average quantiles of each site, (sites, q)."""
    return np.array([quantiles[site == number].mean(axis=0) for number in range(site.max() + 1)])


# ── repeatability ─────────────────────────────────────────────────────────────────────────────────


def repeatability(distances: FloatArray, subjects: Sequence[str | None]) -> float:
    """Return how different the scans of one subject are, as a share of those of different subjects.

    Parameters
    ----------
    distances : (scans, scans), see `wasserstein_matrix`.
    subjects : (scans,), the subject of each scan; None where it is not known.

    Returns
    -------
    The ratio of the mean distances; NaN if no subject has two scans, if there is no other subject
    to compare with, or if no two scans differ.

    Examples
    --------
    >>> distances = wasserstein_matrix(np.array([[0.0, 1, 2], [1, 2, 3], [10, 11, 12]]))
    >>> round(repeatability(distances, ["ann", "ann", "bob"]), 3)
    0.105
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(subjects))}
    known = [index for index, name in enumerate(subjects) if name is not None]
    rows, columns = np.array(known, np.intp)[np.array(np.triu_indices(len(known), 1))]
    subject = np.array([numbers[name] for name in subjects])
    same, pairs = subject[rows] == subject[columns], distances[rows, columns]
    if same.all() or not same.any() or not pairs[~same].any():
        return math.nan
    return float(pairs[same].mean() / pairs[~same].mean())
