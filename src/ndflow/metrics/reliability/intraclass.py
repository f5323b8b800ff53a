"""Intraclass correlation: how much of the variance is between subjects, by analysis of variance.

Scans of one subject should agree, not merely be correlated: a scanner that makes everything
brighter by the same amount is what a normalisation should correct. So the coefficient is one of
absolute agreement of single scans; ICC(3,1), which forgives such differences, would hide them.
Which of the other two applies depends on the design (Shrout and Fleiss, 1979):

*ICC(2,1)*, two-way random effects, where every subject was scanned once at each of the same k
sites. With n subjects, and mean squares of subjects R, of sites C, and of the rest E,

    ICC(2,1) = (R − E) / (R + (k − 1) E + k (C − E) / n).

*ICC(1,1)*, one-way random effects, elsewhere: repeats of one subject are then in no particular
order, and there may be more of some subjects than of others. With mean squares between subjects B
and within them W, and k₀ = (N − Σ nᵢ²/N) / (n − 1) scans per subject, which is k where all have k,

    ICC(1,1) = (B − W) / (B + (k₀ − 1) W).

Both may be negative, where scans of one subject differ more than those of different subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.values import FloatArray, real_array

__all__ = ["IntraclassCorrelation", "icc_one_way", "icc_two_way", "intraclass_correlation"]

ONE_WAY, TWO_WAY = "ICC(1,1)", "ICC(2,1)"


class IntraclassCorrelation(NamedTuple):
    """An intraclass correlation.

    Attributes
    ----------
    value : 1 where scans of one subject agree perfectly; None where no two scans differ.
    model : ``ICC(1,1)`` or ``ICC(2,1)``.
    subjects, scans : how many had a part in it.
    """

    value: float | None
    model: str
    subjects: int
    scans: int


def intraclass_correlation(
    values: ArrayLike, subjects: Sequence[str | None], sites: Sequence[str | None]
) -> IntraclassCorrelation | None:
    """Return the intraclass correlation of repeated scans.

    Parameters
    ----------
    values : (scans,), what was measured.
    subjects : (scans,), who was scanned; None where that is not known.
    sites : (scans,), where; None where that is not known.

    Returns
    -------
    The coefficient that fits the design; None if fewer than two subjects have several scans.

    Examples
    --------
    >>> found = intraclass_correlation([1, 1.1, 2, 2.1, 3, 3.1], [*"aabbcc"], ["x", "y"] * 3)
    >>> print(f"{found.model} = {found.value:.3f}")
    ICC(2,1) = 0.995
    """
    given = real_array(values, "values", len(subjects))
    own: dict[str, list[int]] = {}
    for place, name in enumerate(subjects):
        if name is not None:
            own.setdefault(name, []).append(place)
    repeated = [places for places in own.values() if len(places) > 1]
    if len(repeated) < 2:
        return None
    at = [sorted(str(sites[place]) for place in places) for places in repeated]
    crossed = all(one == at[0] and len(set(one)) == len(one) for one in at)
    scans = sum(map(len, repeated))
    if crossed and not any(sites[place] is None for places in repeated for place in places):
        in_order = [sorted(places, key=lambda place: str(sites[place])) for places in repeated]
        value = icc_two_way(given[np.array(in_order)])
        return IntraclassCorrelation(value, TWO_WAY, len(repeated), scans)
    value = icc_one_way([given[places] for places in repeated])
    return IntraclassCorrelation(value, ONE_WAY, len(repeated), scans)


def icc_two_way(table: FloatArray) -> float | None:
    """Return ICC(2,1) of a table of subjects and sites, (n, k); None where nothing differs.

    Examples
    --------
    >>> round(icc_two_way(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])), 3)
    0.889
    """
    n, k = table.shape
    mean, of_subject, of_site = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - of_subject[:, np.newaxis] - of_site + mean
    R = k * np.sum((of_subject - mean) ** 2) / (n - 1)
    C = n * np.sum((of_site - mean) ** 2) / (k - 1)
    E = np.sum(rest**2) / ((n - 1) * (k - 1))
    total = R + (k - 1) * E + k * (C - E) / n
    return float((R - E) / total) if total > 0 else None


def icc_one_way(groups: Sequence[FloatArray]) -> float | None:
    """Return ICC(1,1) of the scans of each subject; None where nothing differs.

    Examples
    --------
    >>> icc_one_way([np.array([1.0, 1.0]), np.array([2.0, 2.0])])
    1.0
    """
    sizes = np.array([group.size for group in groups])
    means = np.array([group.mean() for group in groups])
    n, N = len(groups), int(sizes.sum())
    B = np.sum(sizes * (means - np.concatenate(groups).mean()) ** 2) / (n - 1)
    W = sum(np.sum((one - one.mean()) ** 2) for one in groups) / (N - n)
    k = (N - np.sum(sizes**2) / N) / (n - 1)
    total = B + (k - 1) * W
    return float((B - W) / total) if total > 0 else None
