"""Distances between and within sites, and repeatability, in cases that can be computed by hand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance as w1

from ndflow.evaluation.sites import (
    distance_between_sites,
    distance_within_sites,
    repeatability,
    wasserstein_matrix,
)


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """Quantiles of scans, and their sites; at least two sites have two scans or more."""
    more = draw(st.lists(st.sampled_from("abc"), max_size=6))
    sites = draw(st.permutations([*"aabb", *more]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shift = {"a": 0.0, "b": 2.0, "c": -1.0}
    quantiles = [np.sort(generator.normal(shift[c], 1, 15)) for c in sites]
    return np.array(quantiles), list(sites)


@settings(max_examples=25)
@given(cohorts())
def test_distances_agree_with_scipy_pair_by_pair(cohort):
    quantiles, sites = cohort
    means = {
        name: np.mean([q for q, c in zip(quantiles, sites, strict=True) if c == name], axis=0)
        for name in set(sites)
    }
    scans = list(zip(quantiles, sites, strict=True))
    wanted = [w1(means[a], means[b]) for a, b in combinations(means, 2)]
    assert distance_between_sites(quantiles, sites) == pytest.approx(np.mean(wanted))
    wanted = [w1(q, means[c]) for q, c in scans if sites.count(c) > 1]
    assert distance_within_sites(quantiles, sites) == pytest.approx(np.mean(wanted))
    assert np.isnan(distance_within_sites(quantiles[:2], ["a", "b"]))


@settings(max_examples=25)
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
            pairs.append(w1(quantiles[i], quantiles[j]))
    found = repeatability(wasserstein_matrix(quantiles), subjects)
    assert found == pytest.approx(np.mean(same) / np.mean(other))


def test_without_a_pair_of_either_kind_or_any_difference_there_is_no_ratio():
    for subjects in (["a", "b", "c"], ["a", None, None], ["a", "a", "a"]):
        assert np.isnan(repeatability(1 - np.eye(3), subjects))
    assert np.isnan(repeatability(np.zeros((3, 3)), ["a", "a", "b"]))
