"""How alike the same tissue looks in all scans (the paper's Table 1).

For each scan and tissue, quartiles of the intensities, with each voxel weighted by the probability
that it is of the tissue; over the scans, their mean and standard deviation. A smaller deviation is
better, unless everything has shrunk: so it is also given relative to the gap between white and grey
matter.

*Weighted quantiles* are the inverse of the mid-distribution function: a level has all of the weight
below it and half of its own, and between levels the line is straight. Voxels that occur twice count
as twice the weight, and levels of integers leave no steps. With equal weights and distinct values
it is Hazen's rule (numpy's ``method="hazen"``).

*Brown and Forsythe's test* compares spreads: a t-test of ``|x − median|``. It is one-tailed here:
is the one spread *less*? Unpaired (with equal variances) the square of t is the statistic of
Levene's test about the median. Scans are the same before and after, so the paired test, on the
differences of ``|x − median|`` scan by scan, is the one that fits the design. The paper tells of an
unpaired one, though not all of its bold cells can come from that: so both are given.

*Holm's correction* of n p-values, ``p_(1) ≤ … ≤ p_(n)``: ``max_{j ≤ i} (n − j + 1) p_(j)``, at most
1. It bounds the chance of even one false discovery, and assumes nothing about their dependence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.metrics.statistics import NOTHING, TestResult, t_test
from ndflow.values import FloatArray, positive, real_array

__all__ = [
    "QuartileSummary",
    "brown_forsythe",
    "holm",
    "quartiles",
    "tissue_table",
    "weighted_quantile",
]

_QUARTILES = (0.25, 0.5, 0.75)


class QuartileSummary(NamedTuple):
    """One quartile of one tissue, over all scans.

    Attributes
    ----------
    tissue : its name.
    quartile : 1, 2 (the median) or 3.
    mean, sd : over the scans; the second with n − 1.
    relative_sd : the standard deviation in units of the gap between white and grey matter.
    unpaired, paired : p-values of the spread being less than in the baseline; None without one.
    unpaired_holm, paired_holm : the same, corrected for the number of cells.
    """

    tissue: str
    quartile: int
    mean: float
    sd: float
    relative_sd: float
    unpaired: float | None
    paired: float | None
    unpaired_holm: float | None
    paired_holm: float | None


def weighted_quantile(values: ArrayLike, weights: ArrayLike, shares: ArrayLike) -> FloatArray:
    """Return the quantiles of values (n,) with weights (n,) at `shares`, in the shape of those."""
    given = real_array(values, "values", None)
    mass = real_array(weights, "weights", given.size)
    wanted = np.asarray(shares, np.float64)
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise InvalidValueError("the shares of quantiles must lie between 0 and 1")
    if (mass < 0).any() or not mass.any():
        raise InvalidValueError("weights must not be negative, nor all of them zero")
    levels, which = np.unique(given[mass > 0], return_inverse=True)
    masses = np.bincount(which, mass[mass > 0])
    total = np.cumsum(masses)
    quantiles: FloatArray = np.interp(wanted, (total - 0.5 * masses) / total[-1], levels)
    return quantiles


def quartiles(values: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Return the three quartiles of values (n,) with weights (n,)."""
    return weighted_quantile(values, weights, _QUARTILES)


def brown_forsythe(one: ArrayLike, other: ArrayLike, *, paired: bool) -> TestResult:
    """Test whether the spread of `one` is less than that of `other`; negative if it is.

    With fewer than three numbers in either there is no telling: p = 1.
    """
    a, b = real_array(one, "one", None), real_array(other, "other", None)
    if paired and a.size != b.size:
        raise InvalidValueError(
            f"a paired test needs as many of one as of other, not {a.size} and {b.size}"
        )
    if min(a.size, b.size) < 3:
        return NOTHING
    size = max(np.abs(a).max(), np.abs(b).max())
    a, b = np.abs(a - np.median(a)), np.abs(b - np.median(b))
    difference = float(a.mean() - b.mean())
    if paired:
        freedom = a.size - 1
        error = np.sqrt(np.var(a - b, ddof=1) / a.size)
    else:
        freedom = a.size + b.size - 2
        variance = (a.size * np.var(a) + b.size * np.var(b)) / freedom
        error = np.sqrt(variance * (1 / a.size + 1 / b.size))
    return t_test(difference, float(error), freedom, float(size), two_sided=False)


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values (n,), corrected for being n."""
    given = real_array(p_values, "p_values", None)
    if not ((given >= 0) & (given <= 1)).all():
        raise InvalidValueError("p_values must lie between 0 and 1")
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def tissue_table(
    values: ArrayLike, baseline: ArrayLike | None, tissues: Sequence[str], gap: float
) -> list[QuartileSummary]:
    """Return the statistics of every quartile of every tissue.

    Parameters
    ----------
    values : (scans, tissues, 3), quartiles.
    baseline : the same of the same scans before, or by another method; None: no tests.
    tissues : their names.
    gap : the distance between the medians of white and grey matter, over all scans.
    """
    shape = (None, len(tissues), 3)
    quarter = real_array(values, "values", *shape)
    scans = len(quarter)
    if scans < 2:
        raise InvalidValueError(f"a standard deviation needs two scans or more, not {scans}")
    unit = positive(gap, "gap")
    columns = quarter.reshape(scans, -1).T
    tests: list[tuple[float | None, ...]] = [(None,) * 4] * len(columns)
    if baseline is not None:
        before = real_array(baseline, "baseline", scans, *shape[1:]).reshape(scans, -1).T
        pairs = list(zip(columns, before, strict=True))
        raw = [[brown_forsythe(*pair, paired=way).p for pair in pairs] for way in (False, True)]
        tests = list(zip(*raw, *(holm(p).tolist() for p in raw), strict=True))
    names = [(tissue, quartile) for tissue in tissues for quartile in (1, 2, 3)]
    cells = []
    for (tissue, quartile), column, p_values in zip(names, columns, tests, strict=True):
        sd = float(column.std(ddof=1))
        cells.append(
            QuartileSummary(tissue, quartile, float(column.mean()), sd, sd / unit, *p_values)
        )
    return cells
