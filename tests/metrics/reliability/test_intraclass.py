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
    assert icc_one_way([*SHROUT_FLEISS]) == pytest.approx(0.17, abs=0.005)
    assert icc_two_way(SHROUT_FLEISS) == pytest.approx(0.29, abs=0.005)


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
    assert icc_two_way(table) == pytest.approx((R - E) / (R + (k - 1) * E + k * (C - E) / n))
    assert icc_one_way([*table]) == pytest.approx((R - W) / (R + (k - 1) * W))


def test_unequal_numbers_of_scans_still_estimate_the_share_of_the_variance_between_subjects():
    generator = np.random.default_rng(1)
    sizes = generator.integers(2, 6, 4000)
    groups = [2 * generator.normal() + generator.normal(size=size) for size in sizes]
    assert icc_one_way(groups) == pytest.approx(4 / 5, abs=0.02)


def test_the_design_chooses_the_model_and_order_does_not_matter():
    values = SHROUT_FLEISS[:, :2].ravel()
    subjects, sites = [name for name in "abcdef" for _ in range(2)], ["x", "y"] * 6
    crossed = intraclass_correlation(values, subjects, sites)
    assert crossed == (icc_two_way(SHROUT_FLEISS[:, :2]), "ICC(2,1)", 6, 12)
    order = np.random.default_rng(2).permutation(12)
    mixed = ([one[place] for place in order] for one in (values, subjects, sites))
    assert intraclass_correlation(*mixed) == pytest.approx(crossed[:1] + crossed[1:])
    for where in (["x"] * 12, [None] * 12, ["x", "y"] * 5 + ["x", "z"]):
        plain = intraclass_correlation(values, subjects, where)
        assert plain == (icc_one_way([*SHROUT_FLEISS[:, :2]]), "ICC(1,1)", 6, 12)


def test_subjects_with_one_scan_and_unknown_ones_have_no_part():
    values, subjects = [1, 1.2, 3, 3.1, 9, 7], ["a", "a", "b", "b", "c", None]
    found = intraclass_correlation(values, subjects, [None] * 6)
    assert found == intraclass_correlation(values[:4], subjects[:4], [None] * 4)
    assert intraclass_correlation([1, 2, 3], ["a", "a", "b"], [None] * 3) is None
    assert intraclass_correlation([1] * 4, [*"aabb"], [None] * 4).value is None
