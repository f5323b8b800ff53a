"""Quartiles and contrast of tissues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.evaluation.tissues import separability, weighted_moments, weighted_quantile

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
    tissues = np.zeros((2, 3, 5))  # WM, GM and CSF, of two scans
    tissues[..., 3:] = [[[5, 1], [3, 1], [0, 7]], [[50, 10], [20, 30], [0, 7]]]
    found = separability(tissues)
    assert found == pytest.approx([2.0, 30 / np.sqrt(500)])
    assert separability(tissues * 7 + [0, 0, 0, 4, 0]) == pytest.approx(found)
    assert separability(-tissues) == pytest.approx(found)
    assert separability([[0, 0, 0, mean, 0] for mean in (2, 1, 0)]) == np.inf
