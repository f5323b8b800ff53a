"""Intervals of changes, effects of covariates, and ICC, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.evaluation.statistics import (
    covariate_effect,
    icc_one_way,
    icc_two_way,
    intraclass_correlation,
    jackknife,
    partial_correlations,
)


def without_each(values: np.ndarray, statistic) -> list[float]:
    """Return a statistic of all values, and without each of them."""
    return [statistic(values), *(statistic(np.delete(values, n)) for n in range(values.size))]


def test_the_jackknife_of_a_mean_is_the_interval_of_student():
    x = np.random.default_rng(0).normal(3, 2, 17)
    found = jackknife(without_each(x, np.mean), ["a"] * 17)
    low, high = stats.t.interval(0.95, 16, x.mean(), stats.sem(x))
    assert found == pytest.approx((x.mean(), low, high))
    # Of two sites: their variances add up, and one scan of a third says nothing.
    sites = [*"a" * 10, *"b" * 6, "c"]
    parts = x[:10], x[10:16]
    variance = sum((part.size / 17) ** 2 * part.var(ddof=1) / part.size for part in parts)
    middle = 16 / 17 * x[:16].mean()
    weights = [[part.mean() * part.size / 17 for part in parts]]
    for number, part in enumerate(parts):
        for place in range(part.size):
            weights.append([*weights[0]])
            weights[-1][number] = np.delete(part, place).mean() * part.size / 17
    half = stats.t.ppf(0.975, 14) * np.sqrt(variance + 0.1)
    found = jackknife([*map(sum, weights), np.nan], sites, 0.1)
    assert found == pytest.approx((middle, middle - half, middle + half))
    assert np.isnan(jackknife([1.0, 2.0, 3.0], ["a", "b"]).change_low)


def test_intervals_of_changes_cover_the_truth_as_often_as_they_should():
    r, q, k = 0.6, 0.3, 0.8
    generator = np.random.default_rng(3)
    shared = np.linalg.cholesky([[1, r, q], [r, 1, k], [q, k, 1]])
    sites = np.array([*"a" * 12, *"b" * 20])
    everyone, covered, truth = np.arange(32), np.zeros(2), (r - q, 0)
    for _ in range(300):
        x, *y = shared @ generator.normal(size=(3, 32)) + 2 * (sites == "a")
        values, none = np.array(y).T, np.zeros((32, 0))

        def correlations(n, values=values, x=x, none=none):
            now, before = partial_correlations(values[n], x[n], sites[n].tolist(), none[n])
            return now - before

        def spreads(n, values=values):
            now, before = values[n].std(axis=0, ddof=1)
            return np.log(now / before)

        ends = [jackknife(without_each(everyone, what), sites) for what in (correlations, spreads)]
        covered += [
            low <= wanted <= high for (_, low, high), wanted in zip(ends, truth, strict=True)
        ]
    assert (np.abs(covered / 300 - 0.94) < 0.03).all()


def test_what_has_not_changed_has_no_uncertainty_and_what_does_not_vary_no_correlation():
    x, y = np.random.default_rng(1).normal(size=(2, 20))
    assert jackknife(np.zeros(21), ["a"] * 20) == (0, 0, 0)
    values = np.column_stack([y, y, np.full(20, 0.1)])
    one, other, constant = partial_correlations(values, x, ["a"] * 20, np.zeros((20, 0)))
    assert one == other == pytest.approx(stats.pearsonr(x, y).statistic)
    assert np.isnan(constant)


@pytest.mark.parametrize(
    ("covariate", "sites", "message"),
    [
        ([20.0, 30, np.nan, np.nan], ["a"] * 4, "2 scans have the covariate; add 1"),
        ([np.nan] * 4, ["a"] * 4, "0 scans have the covariate"),
        ([0.1, 0.1, 0.1, 7.0], list("aaab"), "does not vary"),  # beyond rounding
        ([20.1, 20.1, 30.1, 30.1], list("aabb"), "does not vary within any site"),
        ([20.0, 30, 40, np.inf], ["a"] * 4, "finite"),
    ],
)
def test_covariates_without_a_measurable_effect_are_refused(covariate, sites, message):
    with pytest.raises(InvalidValueError, match=message):
        covariate_effect([1.0, 2, 4, 3], covariate, sites)


@pytest.mark.parametrize("given", [True, False])
def test_the_effect_is_that_of_a_regression_with_an_intercept_of_each_site(given):
    generator = np.random.default_rng(8)
    n = 40
    sites = [*"a" * 21, *"b" * 12, *"c" * 7]
    place = np.array(["abc".index(site) for site in sites])
    age = generator.uniform(20, 80, n) + 15 * place
    sex = (age + 30 * generator.normal(size=n) > 50).astype(float)
    y = 0.02 * age - 0.5 * sex + generator.normal(size=n) - 2 * place
    others = [sex] if given else []
    found = covariate_effect(y, age, sites, others)
    dummies = [[site == name for site in sites] for name in "abc"]
    X = np.column_stack([age, *others, *np.array(dummies, float)])
    freedom = n - X.shape[1]
    beta, (rss,), _, _ = np.linalg.lstsq(X, y)
    covariance = rss / freedom * np.linalg.inv(X.T @ X)
    assert found.slope == pytest.approx(beta[0])
    assert found.se == pytest.approx(np.sqrt(covariance[0, 0]))
    t = beta[0] / found.se
    assert found.correlation == pytest.approx(t / np.sqrt(t**2 + freedom))
    unknown = [*age, np.nan]  # and a scan whose age is not known
    given = np.reshape([[*one, 0.0] for one in others], (-1, n + 1)).T
    both = np.column_stack([[*y, 9.0], unknown])
    again = partial_correlations(both, np.array(unknown), [*sites, "d"], np.nan_to_num(given))
    assert again[0] == pytest.approx(found.correlation)
    with pytest.raises(InvalidValueError, match="only varies together"):
        covariate_effect(y, age, sites, [2 * age + 1])


def test_intervals_of_a_correlation_are_those_of_scipy():
    x, y = np.random.default_rng(9).normal(size=(2, 25))
    found = covariate_effect(y, x, ["a"] * 25)
    truth = stats.pearsonr(x, y).confidence_interval(0.95)
    assert (found.correlation_low, found.correlation_high) == pytest.approx(tuple(truth))
    constant = covariate_effect([0.1] * 3, [20.0, 30, 40], ["a"] * 3)  # 3 × 0.1 is not 0.3
    assert constant == (0, 0, 0, -1, 1, 3)
    line = covariate_effect([1.0, 2, 3, 4], [1, 2, 3, 4], ["a"] * 4)
    assert (line.correlation_low, line.correlation_high) == (1.0, 1.0)
    few = covariate_effect([1.0, 2, 4], [1, 2, 3], ["a"] * 3)
    assert (few.correlation_low, few.correlation_high) == (-1, 1)


# Six targets and four judges: Table 2 of Shrout and Fleiss, Psychological Bulletin 86 (1979).
SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float
)


def test_the_example_of_shrout_and_fleiss():
    # The intervals are those that the package psych of R prints for it.
    one, two = icc_one_way([*SHROUT_FLEISS]), icc_two_way(SHROUT_FLEISS)
    assert one == pytest.approx((0.17, -0.133, 0.723), abs=0.005)
    assert two == pytest.approx((0.29, 0.019, 0.761), abs=0.0005)
    assert one[1:] == pytest.approx((-0.133, 0.723), abs=0.0005)


def test_intervals_cover_the_truth_as_often_as_they_should_with_groups_of_any_size():
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(600):
        sizes = generator.integers(2, 5, 15)
        subjects = [generator.normal() + generator.normal(size=size) for size in sizes]
        _, low, high = icc_one_way(subjects)
        covered += low <= 0.5 <= high
    assert abs(covered / 600 - 0.95) < 0.03


def test_scans_that_agree_perfectly_have_no_uncertainty_and_a_negative_icc_has_an_interval():
    table = np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    assert icc_two_way(table) == icc_one_way([*table]) == (1, 1, 1)
    opposed = np.array([[1.0, 2.0], [2.0, 1.0], [1.1, 2.2], [2.2, 1.1]])
    for value, low, high in (icc_two_way(opposed), icc_one_way([*opposed])):
        assert -5 < low < value < min(high, 0) <= high < 1


def test_the_design_chooses_the_model_and_order_does_not_matter():
    values = SHROUT_FLEISS[:, :2].ravel()
    subjects, sites = [name for name in "abcdef" for _ in range(2)], ["x", "y"] * 6
    crossed = intraclass_correlation(values, subjects, sites)
    assert crossed == (6, 12, *icc_two_way(SHROUT_FLEISS[:, :2]), "ICC(2,1)")
    order = np.random.default_rng(2).permutation(12)
    mixed = ([one[place] for place in order] for one in (values, subjects, sites))
    again = intraclass_correlation(*mixed)
    assert again[2:5] == pytest.approx(crossed[2:5])
    assert (*again[:2], again.model) == (*crossed[:2], crossed.model)
    for where in (["x"] * 12, [None] * 12, ["x", "y"] * 5 + ["x", "z"]):
        plain = intraclass_correlation(values, subjects, where)
        assert plain == (6, 12, *icc_one_way([*SHROUT_FLEISS[:, :2]]), "ICC(1,1)")


def test_subjects_with_one_scan_and_unknown_ones_have_no_part():
    values, subjects = [1, 1.2, 3, 3.1, 9, 7], ["a", "a", "b", "b", "c", None]
    found = intraclass_correlation(values, subjects, [None] * 6)
    assert found == intraclass_correlation(values[:4], subjects[:4], [None] * 4)
    assert intraclass_correlation([1, 2, 3], ["a", "a", "b"], [None] * 3) is None
    assert intraclass_correlation([1] * 4, [*"aabb"], [None] * 4).icc is None
