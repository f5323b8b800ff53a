"""Intraclass correlation: how much of the variance is between subjects, by analysis of variance.

Scans of one subject should agree, not merely be correlated: a scanner that makes everything
brighter by the same amount is what a normalisation should correct. So the coefficient is one of
absolute agreement of single scans; ICC(3,1), which forgives such differences, would hide them.
Which of the other two applies depends on the design [shrout1979]:

*ICC(2,1)*, two-way random effects, where every subject was scanned once at each of the same k
sites. With n subjects, and mean squares of subjects R, of sites C, and of the rest E,

    ICC(2,1) = (R − E) / (R + (k − 1) E + k (C − E) / n).

*ICC(1,1)*, one-way random effects, elsewhere: repeats of one subject are then in no particular
order, and there may be more of some subjects than of others. With mean squares between subjects B
and within them W, and k₀ = (N − Σ nᵢ²/N) / (n − 1) scans per subject, which is k where all have k,

    ICC(1,1) = (B − W) / (B + (k₀ − 1) W).

Both may be negative, where scans of one subject differ more than those of different subjects.

*Intervals* of 95 % follow from F distributions [mcgraw1996, Table 7]. With F = B / W and
the 97.5 % points f of F with n − 1 and N − n degrees of freedom, and g with these exchanged,

    ICC(1,1):  (F_ − 1) / (F_ + k₀ − 1),  from F_ = F / f to F_ = F g,

which is exact where all subjects have k scans. The variance of sites takes part in ICC(2,1), so the
degrees of freedom v of what R is compared with are Satterthwaite's: with a = k ρ and
b = n (1 − ρ) + k ρ (n − 1), where ρ is the coefficient,

    v = (a C + b E)² / ((a C)² / (k − 1) + (b E)² / ((n − 1) (k − 1))),

    from  n (R − f E) / (f (k C + (k n − k − n) E) + n R)
    to    n (g R − E) / (k C + (k n − k − n) E + n g R),

with f of n − 1 and v degrees of freedom, and g of v and n − 1. A negative ρ counts as 0 in v, which
could otherwise be anything: weights of variances are not negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.metrics.reliability.agreement import Agreement
from ndflow.values import FloatArray, real_array

__all__ = ["IntraclassCorrelation", "icc_one_way", "icc_two_way", "intraclass_correlation"]

ONE_WAY, TWO_WAY = "ICC(1,1)", "ICC(2,1)"

_UPPER = 0.975  # of an F distribution, for the ends of a 95 % interval


class IntraclassCorrelation(NamedTuple):
    """An intraclass correlation.

    Attributes
    ----------
    found : the coefficient and its interval; None where no two scans differ.
    model : ``ICC(1,1)`` or ``ICC(2,1)``.
    subjects, scans : how many had a part in it.
    """

    found: Agreement | None
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
    >>> made = intraclass_correlation([1, 1.1, 2, 2.2, 3, 3.1], [*"aabbcc"], ["x", "y"] * 3)
    >>> print(f"{made.model} = {made.found.value:.3f}, from {made.found.low:.3f}")
    ICC(2,1) = 0.990, from 0.270
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
        found = icc_two_way(given[np.array(in_order)])
        return IntraclassCorrelation(found, TWO_WAY, len(repeated), scans)
    found = icc_one_way([given[places] for places in repeated])
    return IntraclassCorrelation(found, ONE_WAY, len(repeated), scans)


def icc_two_way(table: FloatArray) -> Agreement | None:
    """Return ICC(2,1) of a table of subjects and sites, (n, k); None where nothing differs.

    Examples
    --------
    >>> round(icc_two_way(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).value, 3)
    0.889
    """
    n, k = table.shape
    mean, of_subject, of_site = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - of_subject[:, np.newaxis] - of_site + mean
    R = k * np.sum((of_subject - mean) ** 2) / (n - 1)
    C = n * np.sum((of_site - mean) ** 2) / (k - 1)
    E = np.sum(rest**2) / ((n - 1) * (k - 1))
    total = R + (k - 1) * E + k * (C - E) / n
    if not total > 0:
        return None
    value = float((R - E) / total)
    kept = max(value, 0.0)
    a, b = k * kept * C, (n * (1 - kept) + k * kept * (n - 1)) * E
    if not a + b > 0:
        return Agreement(value, value, value)  # nothing differs but subjects
    v = (a + b) ** 2 / (a**2 / (k - 1) + b**2 / ((n - 1) * (k - 1)))
    f, g = special.fdtri(n - 1, v, _UPPER), special.fdtri(v, n - 1, _UPPER)
    other = k * C + (k * n - k - n) * E
    low, high = n * (R - f * E) / (f * other + n * R), n * (g * R - E) / (other + n * g * R)
    return Agreement(value, float(low), float(high))


def icc_one_way(groups: Sequence[FloatArray]) -> Agreement | None:
    """Return ICC(1,1) of the scans of each subject; None where nothing differs.

    Examples
    --------
    >>> icc_one_way([np.array([1.0, 1.0]), np.array([2.0, 2.0])])
    Agreement(value=1.0, low=1.0, high=1.0)
    """
    sizes = np.array([group.size for group in groups])
    means = np.array([group.mean() for group in groups])
    n, N = len(groups), int(sizes.sum())
    B = np.sum(sizes * (means - np.concatenate(groups).mean()) ** 2) / (n - 1)
    W = sum(np.sum((one - one.mean()) ** 2) for one in groups) / (N - n)
    k = (N - np.sum(sizes**2) / N) / (n - 1)
    total = B + (k - 1) * W
    if not total > 0:
        return None
    # As (B − W) / (B + (k − 1) W), because W may be 0.
    ends = (1 / special.fdtri(n - 1, N - n, _UPPER), special.fdtri(N - n, n - 1, _UPPER))
    low, high = (float((B * end - W) / (B * end + (k - 1) * W)) for end in ends)
    return Agreement(float((B - W) / total), low, high)
