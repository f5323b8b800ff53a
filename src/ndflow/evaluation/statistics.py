"""Tests of significance, the effect of a covariate such as age, and intraclass correlation.

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

*The intraclass correlation* is the share of the variance that is between subjects. Scans of one
subject should agree, not merely be correlated: a scanner that makes everything brighter by the same
amount is what a normalisation should correct. So the coefficient is one of
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

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

# ── tests and effects ─────────────────────────────────────────────────────────────────────────────

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
    slope_low, slope_high : the 95 % confidence interval of the slope.
    correlation : partial correlation of value and covariate given the site; it has the sign of the
        slope.
    correlation_low, correlation_high : the 95 % confidence interval of the correlation.
    p : two-sided p-value of the hypothesis that there is no effect.
    scans : number of scans whose covariates are known.
    """

    slope: float
    se: float
    slope_low: float
    slope_high: float
    correlation: float
    correlation_low: float
    correlation_high: float
    p: float
    scans: int


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
    return _t_test(a, b, np.abs([a, b]).max(), paired=True, alternative="two-sided")


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

    Examples
    --------
    >>> before, after = [2.0, 5.0, 9.0, 4.0, 7.0], [4.9, 5.2, 5.6, 5.0, 5.3]
    >>> statistic, p = brown_forsythe(after, before, paired=True)
    >>> print(f"t = {statistic:.2f}, p = {p:.3f}")
    t = -2.79, p = 0.025
    """
    a, b = real_array(one, "one", None), real_array(other, "other", None)
    if min(a.size, b.size) < 3:
        return _NO_DIFFERENCE
    # The rounding error is that of the data, not of the smaller deviations from the median.
    largest = max(np.abs(a).max(), np.abs(b).max())
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

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    given = real_array(p_values, "p_values", None)
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
    InvalidValueError : if the covariate is known for too few scans, if it does not vary within any
        site, or only together with the others.

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
    further = [np.asarray(one, np.float64) for one in others]
    known: NDArray[np.bool_] = ~np.isnan(np.sum([covariates, *further], axis=0))
    y, x = given[known], real_array(covariates[known], "covariate", None)
    names = [name for name, kept in zip(sites, known, strict=True) if kept]
    count = len(set(names))
    freedom = y.size - count - 1 - len(further)
    if freedom < 1:
        raise InvalidValueError(
            f"the covariate is known for {y.size} scans of {count} sites; "
            f"its effect needs at least {count + 2 + len(further)} scans"
        )
    site = np.unique(names, return_inverse=True)[1]
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
    slope = error = correlation = 0.0
    p = 1.0
    if dy.any():
        # In units of the largest deviation, so that no square overflows or underflows.
        unit_x, unit_y = np.abs(dx).max(), np.abs(dy).max()
        dx, dy = dx / unit_x, dy / unit_y
        xx, xy, yy = np.sum(dx * dx), np.sum(dx * dy), np.sum(dy * dy)
        slope = float(xy / xx)
        error = float(np.sqrt(np.sum((dy - slope * dx) ** 2) / freedom / xx))
        if abs(slope) > _ROUNDING:
            # `scipy.special` rather than `scipy.stats`: every study imports this module.
            t = abs(slope / error) if error > _ROUNDING else math.inf
            p = float(2 * special.stdtr(freedom, -t))
        slope, error = float(slope * unit_y / unit_x), float(error * unit_y / unit_x)
        correlation = float(np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0))
    half = float(special.stdtrit(freedom, 0.975)) * error
    slopes = (slope, error, slope - half, slope + half)
    low, high = -1.0, 1.0
    if abs(correlation) == 1:
        low = high = correlation
    elif freedom > 1:
        half, middle = _NORMAL_95 / math.sqrt(freedom - 1), math.atanh(correlation)
        low, high = math.tanh(middle - half), math.tanh(middle + half)
    return CovariateEffect(*slopes, correlation, low, high, p, y.size)


def _t_test(
    a: FloatArray,
    b: FloatArray,
    largest: float,
    *,
    paired: bool,
    alternative: Literal["two-sided", "less"],
) -> TestResult:
    """Return the t-test of the means of two samples; rounding is relative to `largest`."""
    from scipy import stats  # which takes half a second to import

    difference = float(a.mean() - b.mean())
    deviation = (a - b).std(ddof=1) if paired else max(a.std(ddof=1), b.std(ddof=1))
    if abs(difference) <= _ROUNDING * largest:
        return _NO_DIFFERENCE
    if deviation <= _ROUNDING * largest:
        impossible = alternative == "less" and difference > 0
        return TestResult(float(np.copysign(np.inf, difference)), float(impossible))
    if paired:
        statistic, p = stats.ttest_rel(a, b, alternative=alternative)
    else:  # from moments: given a sample of equal numbers, `ttest_ind` warns of lost precision
        first, second = ((x.mean(), x.std(ddof=1), x.size) for x in (a, b))
        statistic, p = stats.ttest_ind_from_stats(*first, *second, alternative=alternative)
    return TestResult(float(statistic), float(p))


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


# ── intraclass correlation ────────────────────────────────────────────────────────────────────────


Agreement = tuple[float, float, float]  # the coefficient, and the ends of its 95 % interval

_UPPER = 0.975  # of an F distribution, for the ends of a 95 % interval


class IntraclassCorrelation(NamedTuple):
    """An intraclass correlation.

    Attributes
    ----------
    subjects, scans : how many had a part in it.
    icc, icc_low, icc_high : the coefficient, 1 where scans agree perfectly, and the ends of its
        95 % interval; None where no two scans differ.
    model : ``ICC(1,1)`` or ``ICC(2,1)``.
    """

    subjects: int
    scans: int
    icc: float | None
    icc_low: float | None
    icc_high: float | None
    model: str


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
    >>> print(f"{made.model} = {made.icc:.3f}, from {made.icc_low:.3f}")
    ICC(2,1) = 0.990, from 0.270
    """
    own: dict[str, list[tuple[str, float]]] = {}
    for value, name, site in zip(np.asarray(values).tolist(), subjects, sites, strict=True):
        if name is not None:
            own.setdefault(name, []).append((site or "", value))
    repeated = [sorted(scans, key=lambda one: one[0]) for scans in own.values() if len(scans) > 1]
    if len(repeated) < 2:
        return None
    groups = [np.array([value for _, value in scans]) for scans in repeated]
    at = {tuple(site for site, _ in scans) for scans in repeated}
    first = next(iter(at))
    if len(at) == 1 and "" not in first and len(set(first)) == len(first):
        model, found = "ICC(2,1)", icc_two_way(np.array(groups))
    else:
        model, found = "ICC(1,1)", icc_one_way(groups)
    icc, low, high = found or (None, None, None)
    return IntraclassCorrelation(len(groups), sum(map(len, groups)), icc, low, high, model)


def icc_two_way(table: FloatArray) -> Agreement | None:
    """Return ICC(2,1) of a table of subjects and sites, (n, k); None where nothing differs.

    Examples
    --------
    >>> round(icc_two_way(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))[0], 3)
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
        return value, value, value  # nothing differs but subjects
    v = (a + b) ** 2 / (a**2 / (k - 1) + b**2 / ((n - 1) * (k - 1)))
    f, g = special.fdtri(n - 1, v, _UPPER), special.fdtri(v, n - 1, _UPPER)
    other = k * C + (k * n - k - n) * E
    low, high = n * (R - f * E) / (f * other + n * R), n * (g * R - E) / (other + n * g * R)
    return value, float(low), float(high)


def icc_one_way(groups: Sequence[FloatArray]) -> Agreement | None:
    """Return ICC(1,1) of the scans of each subject; None where nothing differs.

    Examples
    --------
    >>> icc_one_way([np.array([1.0, 1.0]), np.array([2.0, 2.0])])
    (1.0, 1.0, 1.0)
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
    return float((B - W) / total), low, high
