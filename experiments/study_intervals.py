"""Intervals by bootstrap, and how they are written.

Scans are drawn with replacement within each site, and the same scans for all conditions, so that
ratios and differences of conditions are those of the same people. What was made from all scans (a
reference, a forest) stays as it is. The 95 % intervals are bias-corrected percentiles [efron1981]:
if a share ``Φ(z)`` of the resampled values is below the estimate, they are those at
``Φ(2z ± 1.96)``. Without the correction intervals of a standard deviation would be too low, because
a resampled site varies less than the site does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

SEED = 20
NORMAL_95 = 1.959963984540054

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def resamples(sites: Sequence[str], count: int) -> Places:
    """Return the scans of many resamples, (count, scans)."""
    generator = np.random.default_rng(SEED)
    site = np.array(sites)
    drawn = np.empty((count, site.size), np.intp)
    for name in np.unique(site):
        own = np.flatnonzero(site == name)
        drawn[:, own] = generator.choice(own, (count, own.size))
    return drawn


def interval(value: float, resampled: Floats) -> Interval:
    """Return the interval of an estimate, from its values in all resamples."""
    below = (np.mean(resampled < value) + np.mean(resampled <= value)) / 2
    edge = 0.5 / resampled.size
    z = special.ndtri(np.clip(below, edge, 1 - edge))
    levels = special.ndtr(2 * z + NORMAL_95 * np.array([-1, 1]))
    low, high = np.quantile(resampled, levels)
    return Interval(value, float(low), float(high))


def brown_forsythe(one: Floats, other: Floats) -> float:
    """Return p of a paired, one-sided Brown–Forsythe test: is the dispersion of `one` smaller?"""
    deviations = [np.abs(values - np.median(values)) for values in (one, other)]
    return float(stats.ttest_rel(*deviations, alternative="less").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values, corrected for multiple testing by Holm's step-down method."""
    given = np.array(p_values)
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def text(number: float, digits: int) -> str:
    """Return a number without the zero before its point."""
    sign, size = "−" if number < 0 else "", f"{abs(number):.{digits}f}"
    return sign + size.removeprefix("0") if float(size) else size.removeprefix("0")


def written(found: Interval, digits: int = 3) -> str:
    """Return an estimate and its interval."""
    value, low, high = (text(part, digits) for part in found)
    return f"{value} ({low} to {high})" if found.low < 0 else f"{value} ({low}–{high})"
