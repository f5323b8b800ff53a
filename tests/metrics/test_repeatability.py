"""Scan–rescan repeatability, compared with scipy's Wasserstein distance pair by pair."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.metrics.repeatability import repeatability


@given(
    st.lists(st.sampled_from(["ann", "bob", "cid", None]), max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_distances_within_and_between_subjects_agree_with_scipy(more, seed):
    subjects = ["ann", "ann", "bob", *more]
    quantiles = np.sort(np.random.default_rng(seed).normal(size=(len(subjects), 11)), axis=1)
    same, other = [], []
    for i, j in combinations(range(len(subjects)), 2):
        if subjects[i] is not None and subjects[j] is not None:
            pairs = same if subjects[i] == subjects[j] else other
            pairs.append(stats.wasserstein_distance(quantiles[i], quantiles[j]))
    found = repeatability(quantiles, subjects)
    assert found is not None
    assert found.pairs == len(same)
    assert found.w1_within == pytest.approx(np.mean(same))
    assert found.w1_between == pytest.approx(np.mean(other))
    assert found.ratio == pytest.approx(np.mean(same) / np.mean(other))


@pytest.mark.parametrize("subjects", [["a", "b", "c"], ["a", None, None], ["a", "a", "a"]])
def test_without_a_pair_of_either_kind_there_is_no_result(subjects):
    assert repeatability(np.random.default_rng(0).normal(size=(3, 5)), subjects) is None


def test_without_scans_there_is_no_result():
    assert repeatability(np.zeros((0, 5)), []) is None


def test_shrinking_everything_does_not_change_the_ratio():
    quantiles = np.random.default_rng(0).normal(size=(4, 5))
    subjects = ["a", "a", "b", "b"]
    before, after = repeatability(quantiles, subjects), repeatability(0.1 * quantiles, subjects)
    assert before is not None
    assert after is not None
    assert after.ratio == pytest.approx(before.ratio)
    assert after.w1_within == pytest.approx(0.1 * before.w1_within)


def test_equal_scans_have_a_ratio_of_one():
    assert repeatability(np.zeros((3, 5)), ["a", "a", "b"]) == (1, 0, 0, 1)
