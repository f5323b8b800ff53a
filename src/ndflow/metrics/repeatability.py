"""Scan–rescan repeatability: scans of one subject should be alike, and unlike those of others.

``w1_within`` is the mean Wasserstein distance over pairs of scans of the same subject,
``w1_between`` that over pairs of scans of different subjects. A normalisation that merely shrinks
everything makes both smaller; their ratio shows whether it preserves what distinguishes subjects.
Scans whose subject is not known are left out, because they could belong to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.metrics.site_distance import labelled_quantiles, wasserstein_matrix

__all__ = ["Repeatability", "repeatability"]


class Repeatability(NamedTuple):
    """How much more alike the scans of one subject are than those of different subjects.

    Attributes
    ----------
    pairs : number of pairs of scans of the same subject.
    w1_within, w1_between : mean distance between scans of the same subject, and of different ones.
    ratio : `w1_within` divided by `w1_between`; 1 where all scans are equal.
    """

    pairs: int
    w1_within: float
    w1_between: float
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
    Repeatability(pairs=1, w1_within=1.0, w1_between=9.5, ratio=0.10526315789473684)
    """
    given, names = labelled_quantiles(quantiles, subjects, "subjects")
    known = [index for index, name in enumerate(names) if name is not None]
    subject = np.array([names[index] for index in known], dtype=object)
    rows, columns = np.triu_indices(len(known), 1)
    distances = wasserstein_matrix(given[known])[rows, columns]
    same = subject[rows] == subject[columns]
    if same.all() or not same.any():
        return None
    within, between = float(distances[same].mean()), float(distances[~same].mean())
    if_no_two_differ = math.inf if within > 0 else 1.0
    ratio = within / between if between > 0 else if_no_two_differ
    return Repeatability(int(same.sum()), within, between, ratio)
