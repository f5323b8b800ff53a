"""Distances between and within sites, and repeatability, in cases that can be computed by hand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.evaluation.sites import (
    distance_between_scans,
    distance_between_sites,
    distance_within_sites,
    repeatability,
    to_other_sites,
    to_own_site,
)

# Site distance.


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """Quantiles of scans, and their sites; at least two sites have two scans or more."""
    more = draw(st.lists(st.sampled_from("abc"), max_size=6))
    sites = draw(st.permutations([*"aabb", *more]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shift = {"a": 0.0, "b": 2.0, "c": -1.0}
    quantiles = [np.sort(generator.normal(shift[c], 1, 15)) for c in sites]
    return np.array(quantiles), list(sites)


def wasserstein(one: np.ndarray, other: np.ndarray) -> float:
    return float(stats.wasserstein_distance(one, other))


@given(cohorts())
def test_distances_agree_with_scipy_pair_by_pair(cohort):
    quantiles, sites = cohort
    means = {
        name: np.mean([q for q, c in zip(quantiles, sites, strict=True) if c == name], axis=0)
        for name in set(sites)
    }
    scans = list(zip(quantiles, sites, strict=True))
    wanted = [wasserstein(means[a], means[b]) for a, b in combinations(means, 2)]
    assert distance_between_sites(quantiles, sites) == pytest.approx(np.mean(wanted))
    wanted = [wasserstein(q, means[c]) for q, c in scans if sites.count(c) > 1]
    assert distance_within_sites(quantiles, sites) == pytest.approx(np.mean(wanted))
    wanted = [wasserstein(q, r) for (q, c), (r, d) in combinations(scans, 2) if c != d]
    assert distance_between_scans(quantiles, sites) == pytest.approx(np.mean(wanted))
    wanted = [wasserstein(q, means[c]) for q, c in scans]
    assert to_own_site(quantiles, sites) == pytest.approx(wanted)
    wanted = [np.mean([wasserstein(q, means[d]) for d in means if d != c]) for q, c in scans]
    assert to_other_sites(quantiles, sites) == pytest.approx(wanted)


# Repeatability.


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
    assert found.within_subjects == pytest.approx(np.mean(same))
    assert found.between_subjects == pytest.approx(np.mean(other))
    assert found.ratio == pytest.approx(np.mean(same) / np.mean(other))


@pytest.mark.parametrize("subjects", [["a", "b", "c"], ["a", None, None], ["a", "a", "a"]])
def test_without_a_pair_of_either_kind_there_is_no_result(subjects):
    assert repeatability(np.random.default_rng(0).normal(size=(3, 5)), subjects) is None


def test_equal_scans_have_a_ratio_of_one():
    assert repeatability(np.zeros((3, 5)), ["a", "a", "b"]) == (1, 0, 0, 1)


@given(cohorts(), st.floats(0.1, 10), st.floats(-100, 100))
def test_distances_scale_with_units_and_ignore_an_offset(cohort, scale, offset):
    quantiles, sites = cohort
    for measure in (distance_between_sites, distance_within_sites, distance_between_scans):
        there = measure(scale * quantiles + offset, sites)
        assert there == pytest.approx(scale * measure(quantiles, sites), rel=1e-9)


def test_shrinking_everything_does_not_change_the_ratio():
    quantiles = np.random.default_rng(0).normal(size=(4, 5))
    subjects = ["a", "a", "b", "b"]
    before, after = repeatability(quantiles, subjects), repeatability(0.1 * quantiles, subjects)
    assert before is not None
    assert after is not None
    assert after.ratio == pytest.approx(before.ratio)
    assert after.within_subjects == pytest.approx(0.1 * before.within_subjects)
