"""Edges around levels, and the levels at which distributions are compared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=20, unique=True))
def test_every_level_lies_between_its_edges_and_inner_edges_are_midpoints(numbers):
    levels = np.sort(np.array(numbers, dtype=np.float64))
    edges = midpoint_edges(levels)
    assert edges.shape == (levels.size + 1,)
    assert (edges[:-1] < levels).all()
    assert (levels < edges[1:]).all()
    np.testing.assert_array_equal(edges[1:-1], (levels[1:] + levels[:-1]) / 2)
    assert levels[0] - edges[0] == edges[1] - levels[0]
    assert edges[-1] - levels[-1] == levels[-1] - edges[-2]


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_operations_changes_no_bit(seed):
    levels = np.unique(np.random.default_rng(seed).normal(0, 1000, 50))
    middles = 0.5 * (levels[1:] + levels[:-1])
    plain = [2 * levels[0] - middles[0], *middles, 2 * levels[-1] - middles[-1]]
    np.testing.assert_array_equal(midpoint_edges(levels), plain)


def test_levels_near_the_largest_double_do_not_overflow():
    top = np.finfo(np.float64).max
    edges = midpoint_edges(np.array([0.9 * top, 0.95 * top]))
    assert np.isfinite(edges).all()


def test_quantile_levels_are_the_199_half_percents_and_read_only():
    np.testing.assert_array_equal(QUANTILE_LEVELS, [i / 200 for i in range(1, 200)])
    with pytest.raises(ValueError, match="read-only"):
        QUANTILE_LEVELS[0] = 0.0
