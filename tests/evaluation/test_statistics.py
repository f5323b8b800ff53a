"""Tests, the effect of a covariate, and intraclass correlation, against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.evaluation.statistics import (
    brown_forsythe,
    covariate_effect,
    holm,
    icc_one_way,
    icc_two_way,
    intraclass_correlation,
    paired_t,
)

seeds = st.integers(0, 2**32 - 1)


X = np.random.default_rng(0).normal(100, 1, 30)
NARROW, WIDE = [-1.0, 1.0, -1.0, 1.0], [-2.0, 2.0, -2.0, 2.0]


@pytest.mark.parametrize(
    ("test", "one", "other", "expected"),
    [
        (paired_t, X, X + 1e-13, (0, 1)),  # a rounding error
        (paired_t, [1.0], [2.0], (0, 1)),  # too few
        (paired_t, X + 1, X, (np.inf, 0)),  # a difference without variance
        (brown_forsythe, X + 0.1, X, (0, 1)),  # the same dispersion up to rounding
        (brown_forsythe, [1.0, 1.1], [1.0, 9.0], (0, 1)),
        (brown_forsythe, NARROW, WIDE, (-np.inf, 0)),  # certain in one direction
        (brown_forsythe, WIDE, NARROW, (np.inf, 1)),  # and impossible in the other
    ],
)
def test_differences_without_variance_are_certain_and_rounding_errors_are_none(
    test, one, other, expected
):
    for how in ({"paired": True}, {"paired": False}) if test is brown_forsythe else ({},):
        assert test(one, other, **how) == expected


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holms_correction_agrees_with_the_step_down_procedure(p_values):
    adjusted = holm(p_values)
    for level in (0.001, 0.01, 0.05, 0.2, 0.5, 0.9):
        # Reject the smallest while each is at most level / number of those left.
        rejected, left = set(), sorted(range(len(p_values)), key=lambda i: p_values[i])
        while left and p_values[left[0]] * len(left) <= level:
            rejected.add(left.pop(0))
        assert {i for i, p in enumerate(adjusted) if p <= level} == rejected
    assert (adjusted >= p_values).all()
    assert (adjusted <= 1).all()


def closed_form(a: np.ndarray, b: np.ndarray, *, paired: bool) -> tuple[float, int]:
    """Return Student's t of the difference of means, and its degrees of freedom."""
    if paired:
        return (a - b).mean() / ((a - b).std(ddof=1) / np.sqrt(a.size)), a.size - 1
    freedom = a.size + b.size - 2
    variance = ((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / freedom
    return (a.mean() - b.mean()) / np.sqrt(variance * (1 / a.size + 1 / b.size)), freedom


@given(seeds, st.integers(3, 30), st.sampled_from([0.0, 100.0, 1e6]))
def test_t_tests_agree_with_their_closed_form_to_nine_digits(seed, n, offset):
    generator = np.random.default_rng(seed)
    one, other = generator.normal(offset, 1, n), generator.normal(offset + 0.5, 2, n)
    t, freedom = closed_form(one, other, paired=True)
    assert paired_t(one, other) == pytest.approx((t, 2 * stats.t.sf(abs(t), freedom)), rel=1e-9)
    deviations = [np.abs(x - np.median(x)) for x in (one, other)]
    for paired in (False, True):
        t, freedom = closed_form(*deviations, paired=paired)
        found = brown_forsythe(one, other, paired=paired)
        assert found == pytest.approx((t, stats.t.cdf(t, freedom)), rel=1e-9)


@pytest.mark.parametrize(
    ("covariate", "sites", "message"),
    [
        ([20.0, 30, np.nan, np.nan], ["a"] * 4, "known for 2 scans of 1 sites.* at least 3"),
        ([np.nan] * 4, ["a"] * 4, "known for 0 scans"),
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
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), freedom))
    assert found.correlation == pytest.approx(t / np.sqrt(t**2 + freedom))
    half = stats.t.ppf(0.975, freedom) * found.se
    assert (found.slope_low, found.slope_high) == pytest.approx(
        (found.slope - half, found.slope + half)
    )
    with pytest.raises(InvalidValueError, match="only varies together"):
        covariate_effect(y, age, sites, [2 * age + 1])


def test_intervals_of_a_correlation_are_those_of_scipy():
    x, y = np.random.default_rng(9).normal(size=(2, 25))
    found = covariate_effect(y, x, ["a"] * 25)
    truth = stats.pearsonr(x, y).confidence_interval(0.95)
    assert (found.correlation_low, found.correlation_high) == pytest.approx(tuple(truth))
    constant = covariate_effect([0.1] * 3, [20.0, 30, 40], ["a"] * 3)  # 3 × 0.1 is not 0.3
    assert constant == (0, 0, 0, 0, 0, -1, 1, 1, 3)
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
