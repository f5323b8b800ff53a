"""Intraclass correlations against the published example, brute force, and simulated variances."""

import numpy as np
import pytest

from ndflow.metrics.reliability.intraclass import (
    icc_one_way,
    icc_two_way,
    intraclass_correlation,
)

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


@pytest.mark.parametrize("of_site", [0.0, 0.5])
def test_intervals_cover_the_truth_as_often_as_they_should(of_site):
    generator = np.random.default_rng(5)
    covered = np.zeros(2)
    for _ in range(1500):
        table = generator.normal(size=(12, 1)) + 0.5 * generator.normal(size=(12, 5))
        one = icc_one_way([*table])
        covered[0] += one.low <= 0.8 <= one.high
        two = icc_two_way(table + of_site * generator.normal(size=5))
        covered[1] += two.low <= 1 / (1.25 + of_site**2) <= two.high
    assert abs(covered[0] / 1500 - 0.95) < 0.017  # three standard errors: it is exact
    assert 0.91 < covered[1] / 1500 < 0.98  # it is approximate


def test_intervals_of_unequal_numbers_of_scans_cover_the_truth():
    generator = np.random.default_rng(6)
    covered = 0
    for _ in range(1500):
        sizes = generator.integers(2, 5, 15)
        found = icc_one_way([generator.normal() + generator.normal(size=size) for size in sizes])
        covered += found.low <= 0.5 <= found.high
    assert 0.92 < covered / 1500 < 0.98


def test_scans_that_agree_perfectly_have_no_uncertainty_and_a_negative_icc_has_an_interval():
    table = np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    assert icc_two_way(table) == icc_one_way([*table]) == (1, 1, 1)
    opposed = np.array([[1.0, 2.0], [2.0, 1.0], [1.1, 2.2], [2.2, 1.1]])
    for found in (icc_two_way(opposed), icc_one_way([*opposed])):
        assert -5 < found.low < found.value < min(found.high, 0) <= found.high < 1


def test_mean_squares_are_those_of_an_analysis_of_variance_by_regression():
    table = np.random.default_rng(0).normal(size=(7, 3)) + np.arange(7)[:, None] + [0, 1, 3]
    n, k = table.shape
    subject, site = (one.ravel() for one in np.indices(table.shape))
    y, one = table.ravel(), np.ones((table.size, 1))
    rows, columns = (np.eye(many)[place] for many, place in ((n, subject), (k, site)))

    def left(*parts):
        X = np.hstack([one, *parts])
        return np.sum((y - X @ np.linalg.lstsq(X, y)[0]) ** 2)

    R, C = (left() - left(rows)) / (n - 1), (left() - left(columns)) / (k - 1)
    E, W = left(rows, columns) / ((n - 1) * (k - 1)), left(rows) / (n * (k - 1))
    two, one_way = icc_two_way(table), icc_one_way([*table])
    assert two.value == pytest.approx((R - E) / (R + (k - 1) * E + k * (C - E) / n))
    assert one_way.value == pytest.approx((R - W) / (R + (k - 1) * W))


def test_unequal_numbers_of_scans_still_estimate_the_share_of_the_variance_between_subjects():
    generator = np.random.default_rng(1)
    sizes = generator.integers(2, 6, 4000)
    groups = [2 * generator.normal() + generator.normal(size=size) for size in sizes]
    assert icc_one_way(groups).value == pytest.approx(4 / 5, abs=0.02)


def test_the_design_chooses_the_model_and_order_does_not_matter():
    values = SHROUT_FLEISS[:, :2].ravel()
    subjects, sites = [name for name in "abcdef" for _ in range(2)], ["x", "y"] * 6
    crossed = intraclass_correlation(values, subjects, sites)
    assert crossed == (icc_two_way(SHROUT_FLEISS[:, :2]), "ICC(2,1)", 6, 12)
    order = np.random.default_rng(2).permutation(12)
    mixed = ([one[place] for place in order] for one in (values, subjects, sites))
    again = intraclass_correlation(*mixed)
    assert again.found == pytest.approx(crossed.found)
    assert again[1:] == crossed[1:]
    for where in (["x"] * 12, [None] * 12, ["x", "y"] * 5 + ["x", "z"]):
        plain = intraclass_correlation(values, subjects, where)
        assert plain == (icc_one_way([*SHROUT_FLEISS[:, :2]]), "ICC(1,1)", 6, 12)


def test_subjects_with_one_scan_and_unknown_ones_have_no_part():
    values, subjects = [1, 1.2, 3, 3.1, 9, 7], ["a", "a", "b", "b", "c", None]
    found = intraclass_correlation(values, subjects, [None] * 6)
    assert found == intraclass_correlation(values[:4], subjects[:4], [None] * 4)
    assert intraclass_correlation([1, 2, 3], ["a", "a", "b"], [None] * 3) is None
    assert intraclass_correlation([1] * 4, [*"aabb"], [None] * 4).found is None
