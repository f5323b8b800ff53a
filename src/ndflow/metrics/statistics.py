"""Tests of significance, their correction, and the effect of a covariate such as age.

*The t-test* compares ``t = difference / standard error`` with Student's t distribution. Two cases
are decided before it:

- A difference no larger than the rounding error of the data counts as no difference: t = 0, p = 1.
  (Rounding errors that happen to have the same sign in all scans would otherwise be highly
  significant.)
- A difference without any variance has a standard error of zero: t is infinite, and p is its limit,
  0 or 1.

*The Brown–Forsythe test* compares dispersions: it is a t-test of ``|x − median|``. It is one-sided
here: is the dispersion of the first sample *smaller*? In the unpaired test (with equal variances)
the square of t is the statistic of Levene's test about the median. Scans are the same before and
after normalisation, so the paired test, on the differences of ``|x − median|`` scan by scan, is the
one that fits the design. The paper describes an unpaired test, although not all of its bold cells
can come from one; so both are available.

*Holm's correction* of n p-values, ``p_(1) ≤ … ≤ p_(n)``: ``max_{j ≤ i} (n − j + 1) p_(j)``, at most
1. It bounds the probability of even one false discovery, and assumes nothing about dependence
between the tests.

*The effect of a covariate* on a tissue's intensity has sites as fixed effects: one site's scans
may be brighter and its subjects older, so only the relation within sites shows what age does. The
model is ``y = a_site + b x + ε``. By the theorem of Frisch, Waugh and Lovell its slope is that of
the deviations from the sites' means, y' and x', through the origin:

    b = Σx'y' / Σx'²,   s² = Σ(y' − b x')² / (n − sites − 1),   se(b) = √(s² / Σx'²),

and ``r = Σx'y' / √(Σx'² Σy'²)`` is the partial correlation. ``b / se(b)`` has a t distribution with
``f = n − sites − 1`` degrees of freedom. *Other covariates* are regressed out of x' and y' first,
by the same theorem, and each takes away a degree of freedom. The 95 % interval of r is Fisher's,
``tanh(artanh r ± 1.96 / √(f − 1))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

__all__ = [
    "CovariateEffect",
    "TestResult",
    "brown_forsythe",
    "covariate_effect",
    "holm",
    "paired_t",
]

_Alternative = Literal["two-sided", "less"]

_NORMAL_95 = 1.959963984540054  # the 97.5th percentile of the normal distribution
_ROUNDING = 1e-12  # relative to the largest number in the data


class TestResult(NamedTuple):
    """The outcome of a t-test.

    Attributes
    ----------
    statistic : the difference in units of its standard error.
    p : the probability of a statistic at least as extreme if there were no difference.
    """

    statistic: float
    p: float


class CovariateEffect(NamedTuple):
    """The effect of a covariate on a value, within sites.

    Attributes
    ----------
    slope, se : change of the value per unit of the covariate, and its standard error.
    correlation : partial correlation of value and covariate given the site; it has the sign of the
        slope.
    p : two-sided p-value of the hypothesis that there is no effect.
    n : number of scans whose covariates are known.
    freedom : degrees of freedom of the residuals.
    """

    slope: float
    se: float
    correlation: float
    p: float
    n: int
    freedom: int

    @property
    def slope_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the slope."""
        half = float(special.stdtrit(self.freedom, 0.975)) * self.se
        return self.slope - half, self.slope + half

    @property
    def correlation_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the correlation."""
        if self.freedom < 2:
            return -1.0, 1.0
        if abs(self.correlation) == 1:
            return self.correlation, self.correlation
        half = _NORMAL_95 / math.sqrt(self.freedom - 1)
        middle = math.atanh(self.correlation)
        return math.tanh(middle - half), math.tanh(middle + half)


_NO_DIFFERENCE = TestResult(0.0, 1.0)  # also where there are too few numbers to test


def paired_t(one: ArrayLike, other: ArrayLike) -> TestResult:
    """Test whether the mean of ``one − other`` is zero, by a two-sided paired t-test.

    Parameters
    ----------
    one, other : (n,), two measurements of each scan.

    Returns
    -------
    The statistic, positive if `one` is larger on average, and p; 0 and 1 for fewer than two scans.

    Raises
    ------
    InvalidValueError : if there are not as many in `one` as in `other`.

    Examples
    --------
    >>> statistic, p = paired_t([5.1, 4.9, 5.6, 5.3], [4.8, 4.7, 5.0, 5.2])
    >>> print(f"t = {statistic:.2f}, p = {p:.3f}")
    t = 2.78, p = 0.069
    """
    a = real_array(one, "one", None)
    b = real_array(other, "other", a.size)
    if a.size < 2:
        return _NO_DIFFERENCE
    return _t_test(a, b, _largest(a, b), paired=True, alternative="two-sided")


def brown_forsythe(one: ArrayLike, other: ArrayLike, *, paired: bool) -> TestResult:
    """Test whether the dispersion of `one` is smaller than that of `other`.

    Parameters
    ----------
    one, other : (n,) and (m,), the samples.
    paired : whether the two are measurements of the same scans, in the same order.

    Returns
    -------
    The statistic, negative if the dispersion of `one` is smaller, and the one-sided p; 0 and 1 if
    either sample has fewer than three numbers.

    Raises
    ------
    InvalidValueError : if the test is paired and the samples differ in size.

    Examples
    --------
    >>> before, after = [2.0, 5.0, 9.0, 4.0, 7.0], [4.9, 5.2, 5.6, 5.0, 5.3]
    >>> statistic, p = brown_forsythe(after, before, paired=True)
    >>> print(f"t = {statistic:.2f}, p = {p:.3f}")
    t = -2.79, p = 0.025
    """
    a, b = real_array(one, "one", None), real_array(other, "other", None)
    if paired and a.size != b.size:
        raise InvalidValueError(
            f"a paired test needs samples of one size, not of {a.size} and {b.size} numbers; "
            f"give the same scans in both, or use the unpaired test"
        )
    if min(a.size, b.size) < 3:
        return _NO_DIFFERENCE
    # The rounding error is that of the data, not of the smaller deviations from the median.
    largest = _largest(a, b)
    a, b = np.abs(a - np.median(a)), np.abs(b - np.median(b))
    return _t_test(a, b, largest, paired=paired, alternative="less")


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values (n,), corrected for multiple testing by Holm's step-down method.

    Parameters
    ----------
    p_values : (n,), in any order.

    Returns
    -------
    The corrected p-values (n,), in the same order.

    Raises
    ------
    InvalidValueError : if one of them is not between 0 and 1.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    given = real_array(p_values, "p_values", None)
    if not ((given >= 0) & (given <= 1)).all():
        raise InvalidValueError("p_values must lie between 0 and 1")
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def covariate_effect(
    values: ArrayLike,
    covariate: ArrayLike,
    sites: Sequence[str],
    others: Sequence[ArrayLike] = (),
) -> CovariateEffect:
    """Return the effect of a covariate on a value, with the sites as fixed effects.

    Parameters
    ----------
    values : (n,), one per scan.
    covariate : (n,); scans whose covariate is NaN, that is not known, are left out.
    sites : (n,), the site of each scan.
    others : of (n,), further covariates that the effect is adjusted for; scans with NaN are left
        out.

    Returns
    -------
    Slope, standard error, partial correlation, p-value, and the number of scans used.

    Raises
    ------
    InvalidValueError : if the lengths differ, if the covariate is known for too few scans, if it
        does not vary within any site, or only together with the others.

    Examples
    --------
    >>> effect = covariate_effect(
    ...     [1.0, 1.2, 1.3, 2.0, 2.1, 2.3], [20, 30, 40, 25, 35, 45], ["a"] * 3 + ["b"] * 3
    ... )
    >>> print(f"{effect.slope:.3f} ± {effect.se:.3f} per year, p = {effect.p:.3f}")
    0.015 ± 0.002 per year, p = 0.003
    """
    given = real_array(values, "values", None)
    covariates = np.asarray(covariate, np.float64)
    if covariates.shape != given.shape or len(sites) != given.size:
        raise InvalidValueError(
            f"values, covariate and sites must have one entry per scan, "
            f"not {given.size}, {covariates.size} and {len(sites)}"
        )
    further = [np.asarray(one, np.float64) for one in others]
    if any(one.shape != given.shape for one in further):
        raise InvalidValueError("other covariates must have one entry per scan")
    known: NDArray[np.bool_] = ~np.isnan(np.sum([covariates, *further], axis=0))
    y, x = given[known], real_array(covariates[known], "covariate", None)
    names = [name for name, kept in zip(sites, known, strict=True) if kept]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    site = np.array([numbers[name] for name in names], np.intp)
    freedom = y.size - len(numbers) - 1 - len(further)
    if freedom < 1:
        raise InvalidValueError(
            f"the covariate is known for {y.size} scans of {len(numbers)} sites; "
            f"its effect needs at least {len(numbers) + 2 + len(further)} scans"
        )
    dx, dy = _deviations(x, site), _deviations(y, site)
    if not dx.any():
        raise InvalidValueError(
            "the covariate does not vary within any site, so its effect cannot be separated "
            "from that of the sites"
        )
    if further:
        dz = np.column_stack([_deviations(one[known], site) for one in further])
        dx, dy = _without(dx, dz), _without(dy, dz)
        if not dx.any():
            raise InvalidValueError(
                "the covariate only varies together with the other covariates within sites, so "
                "their effects cannot be told apart; leave one out"
            )
    if not dy.any():
        return CovariateEffect(0.0, 0.0, 0.0, 1.0, y.size, freedom)
    # In units of the largest deviation, so that no square overflows or underflows.
    unit_x, unit_y = np.abs(dx).max(), np.abs(dy).max()
    dx, dy = dx / unit_x, dy / unit_y
    xx, xy, yy = np.sum(dx * dx), np.sum(dx * dy), np.sum(dy * dy)
    slope = float(xy / xx)
    error = float(np.sqrt(np.sum((dy - slope * dx) ** 2) / freedom / xx))
    certain = _without_test(slope, error, 1.0, alternative="two-sided")
    # `scipy.special` rather than `scipy.stats`: every study imports this module.
    p = float(2 * special.stdtr(freedom, -abs(slope / error))) if certain is None else certain.p
    return CovariateEffect(
        slope=float(slope * unit_y / unit_x),
        se=float(error * unit_y / unit_x),
        correlation=float(np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)),
        p=p,
        n=y.size,
        freedom=freedom,
    )


def _t_test(
    a: FloatArray, b: FloatArray, largest: float, *, paired: bool, alternative: _Alternative
) -> TestResult:
    """Return the t-test of the means of two samples; rounding is relative to `largest`."""
    from scipy import stats  # which takes half a second to import

    difference = float(a.mean() - b.mean())
    deviation = (a - b).std(ddof=1) if paired else max(a.std(ddof=1), b.std(ddof=1))
    certain = _without_test(difference, float(deviation), largest, alternative=alternative)
    if certain is not None:
        return certain
    if paired:
        statistic, p = stats.ttest_rel(a, b, alternative=alternative)
    else:  # from moments: given a sample of equal numbers, `ttest_ind` warns of lost precision
        first, second = ((x.mean(), x.std(ddof=1), x.size) for x in (a, b))
        statistic, p = stats.ttest_ind_from_stats(*first, *second, alternative=alternative)
    return TestResult(float(statistic), float(p))


def _without_test(
    difference: float, deviation: float, largest: float, *, alternative: _Alternative
) -> TestResult | None:
    """Return the result where rounding decides it; None where a test is needed."""
    if abs(difference) <= _ROUNDING * largest:
        return _NO_DIFFERENCE
    if deviation <= _ROUNDING * largest:
        impossible = alternative == "less" and difference > 0
        return TestResult(float(np.copysign(np.inf, difference)), float(impossible))
    return None


def _largest(a: FloatArray, b: FloatArray) -> float:
    return float(max(np.abs(a).max(), np.abs(b).max()))


def _deviations(values: FloatArray, site: NDArray[np.intp]) -> FloatArray:
    """Return values minus the mean of their site; zero if that is no more than rounding."""
    deviations = values - (np.bincount(site, values) / np.bincount(site))[site]
    largest = np.abs(values).max()
    return deviations if np.abs(deviations).max() > _ROUNDING * largest else np.zeros_like(values)


def _without(values: FloatArray, others: FloatArray) -> FloatArray:
    """Return what a regression on others leaves; zero if that is no more than rounding."""
    scaled = others / np.maximum(np.abs(others).max(axis=0), np.finfo(np.float64).tiny)
    left: FloatArray = values - scaled @ np.linalg.lstsq(scaled, values)[0]
    least = 1e-9 * np.abs(values).max(initial=0.0)
    return left if np.abs(left).max(initial=0.0) > least else np.zeros_like(values)
