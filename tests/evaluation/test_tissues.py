"""Quartiles, contrast and variation of tissues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from ndflow.errors import InvalidValueError
from ndflow.evaluation.tissues import (
    coefficient_of_variation,
    quartiles,
    separability,
    weighted_moments,
    weighted_quantile,
)

# Tissue quartiles.

weighted = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=40
).filter(lambda pairs: any(weight for _, weight in pairs))
numbers = st.floats(-100, 100).map(lambda x: round(x, 3))


@given(weighted, st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_a_weight_of_three_counts_as_three_voxels(pairs, shares):
    values, weights = np.array(pairs).T
    voxels = np.repeat(values, weights)
    # The share below a voxel plus half of the ties is its average rank minus a half.
    ranks = (stats.rankdata(voxels, method="average") - 0.5) / voxels.size
    levels, first = np.unique(voxels, return_index=True)
    wanted = np.interp(shares, ranks[first], levels)
    np.testing.assert_allclose(weighted_quantile(values, weights, shares), wanted, atol=1e-9)
    np.testing.assert_allclose(
        weighted_quantile(voxels, np.ones(voxels.size), shares), wanted, atol=1e-9
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weighted_quantile([1, 2], [0, 0], 0.5), "nor all of them zero"),
        (lambda: weighted_quantile([1, 2], [-1, 2], 0.5), "not be negative"),
        (lambda: weighted_quantile([1, 2], [1], 0.5), "weights must have the shape"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


# Tissue contrast.


def test_moments_are_those_of_voxels_repeated_as_often_as_they_weigh():
    generator = np.random.default_rng(0)
    values, weights = generator.normal(5, 2, 50), generator.integers(0, 9, 50)
    repeated = np.repeat(values, weights)
    assert weighted_moments(values, weights) == pytest.approx((repeated.mean(), repeated.std()))


def test_gaussians_d_prime_apart_have_the_area_under_the_curve_of_signal_detection():
    generator = np.random.default_rng(1)
    gm, wm = generator.normal(3, 1, 20_000), generator.normal(5, 2, 20_000)
    found = separability(*(weighted_moments(one, np.ones(one.size)) for one in (wm, gm)))
    area = roc_auc_score(np.repeat([0, 1], 20_000), np.concatenate([gm, wm]))
    assert stats.norm.cdf(found / np.sqrt(2)) == pytest.approx(area, abs=0.01)


def test_straight_lines_change_nothing_and_scans_are_taken_one_by_one():
    wm, gm = np.array([[5.0, 1.0], [50.0, 10.0]]), np.array([[3.0, 1.0], [20.0, 30.0]])
    found = separability(wm, gm)
    assert found == pytest.approx([2.0, 30 / np.sqrt(500)])
    assert separability(wm * 7 + [4, 0], gm * 7 + [4, 0]) == pytest.approx(found)
    assert separability(-wm, -gm) == pytest.approx(found)
    assert separability([2.0, 0.0], [1.0, 0.0]) == np.inf


# Variation.


def test_it_is_that_of_scipy_and_units_do_not_matter_if_the_zero_is_the_same():
    values = np.random.default_rng(0).uniform(400, 900, 30)
    truth = stats.variation(values, ddof=1)
    assert coefficient_of_variation(values, 0.0) == pytest.approx(truth)
    mean, sd = values.mean(), 3.7
    assert coefficient_of_variation((values - mean) / sd, -mean / sd) == pytest.approx(truth)
    assert coefficient_of_variation(values + 500, 0.0) < truth  # so the zero has to be named


def test_values_that_do_not_lie_above_zero_have_none():
    assert coefficient_of_variation([-1.0, 0.0, 1.0], 0.0) is None
    assert coefficient_of_variation([1.0], 0.0) is None


def test_quartiles_of_many_voxels_agree_with_numpy_on_replicated_voxels():
    generator = np.random.default_rng(0)
    values, weights = generator.normal(5, 2, 4000), generator.integers(0, 5, 4000)
    wanted = np.quantile(np.repeat(values, weights), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles(values, weights), wanted, atol=2e-3)
    # With weights on the bright half only, those of a half-normal distribution.
    bright = quartiles(values, values > 5)
    np.testing.assert_allclose(bright, stats.halfnorm.ppf([0.25, 0.5, 0.75], 5, 2), atol=0.1)
