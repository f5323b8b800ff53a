"""The effect of a covariate: against scipy for one site, and least squares for several."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.metrics.covariate import covariate_effect

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(3, 40), st.floats(-1, 1))
def test_one_site_is_a_simple_regression(seed, n, slope):
    generator = np.random.default_rng(seed)
    age = generator.uniform(20, 80, n)
    y = slope * age + generator.normal(0, 5, n)
    found, truth = covariate_effect(y, age, ["a"] * n), stats.linregress(age, y)
    assert found.slope == pytest.approx(truth.slope, rel=1e-8, abs=1e-12)
    assert found.se == pytest.approx(truth.stderr, rel=1e-6)
    assert found.correlation == pytest.approx(truth.rvalue, rel=1e-8, abs=1e-12)
    assert found.p == pytest.approx(truth.pvalue, rel=1e-5, abs=1e-9)
    assert found.n == n


@given(seeds, st.lists(st.sampled_from("abc"), min_size=3, max_size=30))
def test_several_sites_are_least_squares_with_an_intercept_each(seed, more):
    sites = [*"aabb", *more]
    generator = np.random.default_rng(seed)
    number = np.array(["abc".index(c) for c in sites])
    x = generator.normal(0, 1, number.size) + 3 * number
    y = 0.3 * x - 5 * number + generator.normal(0, 1, number.size)
    dummies = np.array([[c == name for name in sorted(set(sites))] for c in sites], float)
    design = np.column_stack([x, dummies])
    solution = np.linalg.lstsq(design, y)[0]
    freedom = y.size - design.shape[1]
    rss = np.sum((y - design @ solution) ** 2)
    covariance = rss / freedom * np.linalg.inv(design.T @ design)
    found = covariate_effect(y, x, sites)
    assert found.slope == pytest.approx(solution[0], rel=1e-7, abs=1e-10)
    assert found.se == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-6)
    p = 2 * stats.t.sf(abs(solution[0]) / np.sqrt(covariance[0, 0]), freedom)
    assert found.p == pytest.approx(p, rel=1e-5, abs=1e-10)
    # The partial correlation is that of what the sites alone leave of x and of y.
    rest = [v - dummies @ np.linalg.lstsq(dummies, v)[0] for v in (x, y)]
    assert found.correlation == pytest.approx(np.corrcoef(*rest)[0, 1], rel=1e-6, abs=1e-9)


def test_differences_between_sites_are_no_effect_of_the_covariate():
    # Older subjects in a brighter site, and within each site the older are darker.
    age = np.array([20.0, 30, 40, 60, 70, 80])
    y = np.array([1.0, 0.9, 0.8, 3.0, 2.9, 2.8]) + 0.001 * np.array([1, -2, 1, 1, -2, 1])
    assert covariate_effect(y, age, ["a"] * 6).slope > 0
    within = covariate_effect(y, age, ["a"] * 3 + ["b"] * 3)
    assert within.slope == pytest.approx(-0.01)
    assert within.correlation < -0.99
    assert within.p < 0.01


def test_scans_of_unknown_age_are_left_out():
    generator = np.random.default_rng(2)
    age, y = generator.uniform(20, 80, 12), generator.normal(size=12)
    sites = ["a", "b"] * 5 + ["c", "c"]
    missing = age.copy()
    missing[[3, 10, 11]] = np.nan  # and with them all that is known of c
    kept = [i for i in range(12) if i not in (3, 10, 11)]
    found = covariate_effect(y, missing, sites)
    assert found == covariate_effect(y[kept], age[kept], [sites[i] for i in kept])
    assert found.n == 9


def test_a_value_that_never_changes_has_no_effect_and_a_straight_line_has_a_certain_one():
    age = [20.0, 30, 40, 50]
    assert covariate_effect([0.1] * 3, age[:3], ["a"] * 3) == (
        0,
        0,
        0,
        1,
        3,
    )  # 0.1 + 0.1 + 0.1 is not 0.3
    line = covariate_effect([1.0, 2, 3, 4], age, ["a"] * 4)
    assert line.slope == pytest.approx(0.1)
    assert line.correlation == pytest.approx(1)
    assert line.p == pytest.approx(0, abs=1e-12)


@given(seeds, st.sampled_from([1e-200, 1e-9, 1e9, 1e200]))
def test_units_change_the_slope_and_nothing_else(seed, unit):
    generator = np.random.default_rng(seed)
    x, y, sites = generator.normal(size=8), generator.normal(size=8), list("aabbabab")
    before, after = covariate_effect(y, x, sites), covariate_effect(unit * y, x, sites)
    assert after.slope / unit == pytest.approx(before.slope, rel=1e-9)
    assert after.se / unit == pytest.approx(before.se, rel=1e-9)
    assert after[2:] == pytest.approx(before[2:], rel=1e-9)


@pytest.mark.parametrize(
    ("covariate", "sites", "message"),
    [
        ([20.0, 30, np.nan, np.nan], ["a"] * 4, "known for 2 scans of 1 sites.* at least 3"),
        ([20.0, 30, 40, 50], list("aabc"), "at least 5 scans"),
        ([np.nan] * 4, ["a"] * 4, "known for 0 scans"),
        ([20.1] * 4, ["a"] * 4, "does not vary"),
        ([0.1, 0.1, 0.1, 7.0], list("aaab"), "does not vary"),  # but for rounding
        ([20.1, 20.1, 30.1, 30.1], list("aabb"), "does not vary within any site"),
        ([20.0, 30, 40, np.inf], ["a"] * 4, "finite"),
        ([20.0, 30, 40], ["a"] * 4, "one a scan"),
        ([20.0, 30, 40, 50], ["a"] * 3, "one a scan"),
    ],
)
def test_what_cannot_be_told_is_said(covariate, sites, message):
    with pytest.raises(InvalidValueError, match=message):
        covariate_effect([1.0, 2, 4, 3], covariate, sites)
