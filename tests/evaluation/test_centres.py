"""Distances within and between centres: against scipy's Wasserstein distance and closed forms."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.evaluation import between, pairwise, within


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """Quantiles of scans, and centres of which the first two have two scans or more."""
    more = draw(st.lists(st.sampled_from("abc"), max_size=6))
    centres = draw(st.permutations([*"aabb", *more]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shift = {"a": 0.0, "b": 2.0, "c": -1.0}
    quantiles = [np.sort(generator.normal(shift[c], 1, 15)) for c in centres]
    return np.array(quantiles), list(centres)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(stats.wasserstein_distance(one, other))


@given(cohorts())
def test_distances_are_those_that_scipy_finds_pair_by_pair(cohort):
    quantiles, centres = cohort
    means = {
        name: np.mean([q for q, c in zip(quantiles, centres, strict=True) if c == name], axis=0)
        for name in set(centres)
    }
    scans = list(zip(quantiles, centres, strict=True))
    wanted = [apart(means[a], means[b]) for a, b in combinations(means, 2)]
    assert between(quantiles, centres) == pytest.approx(np.mean(wanted))
    wanted = [apart(q, means[c]) for q, c in scans if centres.count(c) > 1]
    assert within(quantiles, centres) == pytest.approx(np.mean(wanted))
    wanted = [apart(q, r) for (q, c), (r, d) in combinations(scans, 2) if c != d]
    assert pairwise(quantiles, centres) == pytest.approx(np.mean(wanted))


@given(cohorts(), st.floats(0.1, 10), st.floats(-100, 100))
def test_units_scale_all_distances_and_an_offset_changes_none(cohort, scale, offset):
    quantiles, centres = cohort
    for measure in (between, within, pairwise):
        there = measure(scale * quantiles + offset, centres)
        assert there == pytest.approx(scale * measure(quantiles, centres), rel=1e-9)


@given(cohorts())
def test_moving_whole_centres_to_one_place_leaves_the_distances_within_them(cohort):
    quantiles, centres = cohort
    moved = quantiles.copy()
    for name in set(centres):
        own = [c == name for c in centres]
        moved[own] -= quantiles[own].mean(axis=0)
    assert between(moved, centres) == pytest.approx(0, abs=1e-12)
    assert within(moved, centres) == pytest.approx(within(quantiles, centres))


def test_what_needs_more_centres_or_more_scans_says_so():
    two = np.zeros((2, 5))
    for measure in (between, pairwise):
        with pytest.raises(InvalidValueError, match="two centres"):
            measure(two, ["a", "a"])
        with pytest.raises(InvalidValueError, match="two centres"):
            measure(np.zeros((0, 5)), [])
    with pytest.raises(InvalidValueError, match="no centre has two scans"):
        within(two, ["a", "b"])
    with pytest.raises(InvalidValueError, match="centres must be one a scan"):
        within(two, ["a", "b", "c"])
    with pytest.raises(InvalidValueError, match="one quantile"):
        within(np.zeros((2, 0)), ["a", "a"])
