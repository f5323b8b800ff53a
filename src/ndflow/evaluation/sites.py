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
  two or more scans;
- `distance_between_scans`: the mean of W1 over pairs of scans of different sites, which combines
  both.

*Repeatability*: scans of one subject should be alike, and unlike those of others. So there is the
mean Wasserstein distance over pairs of scans of the same subject, and that over pairs of scans of
different subjects. A normalisation that merely shrinks everything makes both smaller; their ratio
shows whether it preserves what distinguishes subjects. Scans whose subject is not known are left
out, because they could belong to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

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
    sites : (scans,), the site of each scan; sites with a single scan do not contribute.

    Examples
    --------
    >>> distance_within_sites([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"])
    1.0
    """
    _, site = _numbered(quantiles, sites)
    together = np.argsort(site, kind="stable")
    repeated = np.bincount(site)[site[together]] > 1
    return float(to_own_site(quantiles, sites)[together][repeated].mean())


def distance_between_scans(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean Wasserstein distance between scans of different sites.

    Parameters
    ----------
    quantiles : (scans, q), at the same evenly spaced levels for all scans.
    sites : (scans,), the site of each scan.

    Examples
    --------
    >>> distance_between_scans([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"])
    10.0
    """
    given, site = _numbered(quantiles, sites)
    return float(wasserstein_matrix(given)[site[:, np.newaxis] != site].mean())


def to_own_site(quantiles: ArrayLike, sites: Sequence[str]) -> FloatArray:
    """Return how far each scan lies from the average of its site.

    Examples
    --------
    >>> to_own_site([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"]).tolist()
    [1.0, 1.0, 0.0]
    """
    given, site = _numbered(quantiles, sites)
    away: FloatArray = np.abs(given - _averages(given, site)[site]).mean(axis=1)
    return away


def to_other_sites(quantiles: ArrayLike, sites: Sequence[str]) -> FloatArray:
    """Return how far each scan lies from the averages of the other sites, on average.

    Examples
    --------
    >>> to_other_sites([[0, 1, 2], [2, 3, 4], [11, 12, 13]], ["a", "a", "b"]).tolist()
    [11.0, 9.0, 10.0]
    """
    given, site = _numbered(quantiles, sites)
    away = np.array([np.abs(given - one).mean(axis=1) for one in _averages(given, site)])
    away[site, np.arange(site.size)] = np.nan
    means: FloatArray = np.nanmean(away, axis=0)
    return means


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


class Repeatability(NamedTuple):
    """How much more alike the scans of one subject are than those of different subjects.

    Attributes
    ----------
    pairs : number of pairs of scans of the same subject.
    within_subjects, between_subjects : mean distance between scans of the same subject, and of
        different ones.
    ratio : `within_subjects` divided by `between_subjects`; 1 where all scans are equal.
    """

    pairs: int
    within_subjects: float
    between_subjects: float
    ratio: float


def repeatability(quantiles: ArrayLike, subjects: Sequence[str | None]) -> Repeatability | None:
    """Return how repeatable scans are.

    Parameters
    ----------
    quantiles : (scans, q), at the same evenly spaced levels for all scans.
    subjects : (scans,), the subject of each scan; None where it is not known.

    Returns
    -------
    Distances within and between subjects, and their ratio; None if no subject has two scans, or if
    there is no other subject to compare with.

    Examples
    --------
    >>> repeatability([[0, 1, 2], [1, 2, 3], [10, 11, 12]], ["ann", "ann", "bob"])
    Repeatability(pairs=1, within_subjects=1.0, between_subjects=9.5, ratio=0.10526315789473684)
    """
    given = np.asarray(quantiles, np.float64)
    known = [index for index, name in enumerate(subjects) if name is not None]
    subject = np.array([subjects[index] for index in known], dtype=object)
    rows, columns = np.triu_indices(len(known), 1)
    distances = wasserstein_matrix(given[known])[rows, columns]
    same = subject[rows] == subject[columns]
    if same.all() or not same.any():
        return None
    within, between = float(distances[same].mean()), float(distances[~same].mean())
    if_no_two_differ = math.inf if within > 0 else 1.0
    ratio = within / between if between > 0 else if_no_two_differ
    return Repeatability(int(same.sum()), within, between, ratio)
