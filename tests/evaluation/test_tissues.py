"""Quartiles, contrast and variation of tissues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.evaluation.tissues import (
    coefficient_of_variation,
    separability,
    weighted_moments,
    weighted_quantile,
)

weighted = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=40
).filter(lambda pairs: any(weight for _, weight in pairs))


@given(weighted, st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_a_weight_of_three_counts_as_three_voxels(pairs, shares):
    values, weights = np.array(pairs).T
    voxels = np.repeat(values, weights)
    # The share below a voxel plus half of the ties is its average rank minus a half.
    ranks = (stats.rankdata(voxels, method="average") - 0.5) / voxels.size
    levels, first = np.unique(voxels, return_index=True)
    wanted = np.interp(shares, ranks[first], levels)
    np.testing.assert_allclose(weighted_quantile(values, weights, shares), wanted, atol=1e-9)
    moments = (voxels.mean(), voxels.std())
    assert weighted_moments(values, weights) == pytest.approx(moments, abs=1e-9)


def test_straight_lines_change_nothing_and_scans_are_taken_one_by_one():
    wm, gm = np.array([[5.0, 1.0], [50.0, 10.0]]), np.array([[3.0, 1.0], [20.0, 30.0]])
    found = separability(wm, gm)
    assert found == pytest.approx([2.0, 30 / np.sqrt(500)])
    assert separability(wm * 7 + [4, 0], gm * 7 + [4, 0]) == pytest.approx(found)
    assert separability(-wm, -gm) == pytest.approx(found)
    assert separability([2.0, 0.0], [1.0, 0.0]) == np.inf


def test_it_is_that_of_scipy_and_units_do_not_matter_if_the_zero_is_the_same():
    values = np.random.default_rng(0).uniform(400, 900, 30)
    truth = stats.variation(values, ddof=1)
    assert coefficient_of_variation(values, 0.0) == pytest.approx(truth)
    mean, sd = values.mean(), 3.7
    assert coefficient_of_variation((values - mean) / sd, -mean / sd) == pytest.approx(truth)
    assert coefficient_of_variation([-1.0, 0.0, 1.0], 0.0) is None
