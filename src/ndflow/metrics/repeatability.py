"""Scan and rescan: a subject's scans should be alike, and unlike those of others.

``w1_within`` is the mean Wasserstein distance over pairs of scans of one subject, ``w1_between``
over pairs of scans of two subjects. A normalisation that merely shrinks everything makes both
smaller; their ratio tells whether it keeps what is a subject's own. Scans whose subject is not
known are left out: they might be anybody's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.metrics.wasserstein import labelled, wasserstein_matrix

__all__ = ["Repeatability", "repeatability"]


class Repeatability(NamedTuple):
    """How much more alike the scans of one subject are than those of two.

    Attributes
    ----------
    pairs : of scans of one subject.
    w1_within, w1_between : mean distance between scans of one subject, and of different ones.
    ratio : the first by the second; 1 where all scans are equal.
    """

    pairs: int
    w1_within: float
    w1_between: float
    ratio: float


def repeatability(quantiles: ArrayLike, subjects: Sequence[str | None]) -> Repeatability | None:
    """Return how repeatable scans are, from quantiles (scans, q) and who was scanned.

    None where nobody has two scans, or where there is nobody else to compare them with.
    """
    given, names = labelled(quantiles, subjects, "subjects")
    known = [index for index, name in enumerate(names) if name is not None]
    who = np.array([names[index] for index in known], dtype=object)
    rows, columns = np.triu_indices(len(known), 1)
    apart = wasserstein_matrix(given[known])[rows, columns]
    same = who[rows] == who[columns]
    if same.all() or not same.any():
        return None
    own, others = float(apart[same].mean()), float(apart[~same].mean())
    alike = math.inf if own > 0 else 1.0  # if no two subjects differ
    ratio = own / others if others > 0 else alike
    return Repeatability(int(same.sum()), own, others, ratio)
