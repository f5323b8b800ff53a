"""The numbers of docs/study.md: what they mean, and that the page is whole."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from ndflow.evaluation.sites import distance_between_sites, distance_within_sites
from ndflow.evaluation.statistics import covariate_effect

ROOT = Path(__file__).parents[1]
SITES = ["a"] * 5 + ["b"] * 7 + ["c"] * 6


@pytest.fixture(scope="module")
def results() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "experiments"))
    import study_results

    yield study_results
    sys.path.remove(str(ROOT / "experiments"))


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(len(SITES), 9)).cumsum(axis=1)


def test_statistics_are_those_of_an_evaluation(results: ModuleType, values: np.ndarray) -> None:
    between = results.w1_between(SITES)(values)
    assert between == pytest.approx(distance_between_sites(values, SITES))
    within = results.w1_within(SITES)(values)
    assert within == pytest.approx(distance_within_sites(values, SITES))
    found = results.partial_correlation(SITES)(values[:, :2])
    effect = covariate_effect(values[:, 1], values[:, 0], SITES)
    assert found == pytest.approx(effect.correlation)


def test_the_spread_within_sites_is_pooled(results: ModuleType, values: np.ndarray) -> None:
    site = np.array(SITES)
    own = [values[site == name] for name in "abc"]
    squares = sum((len(one) - 1) * one.var(axis=0, ddof=1) for one in own)
    pooled = np.sqrt(squares / (len(SITES) - 3)).mean()
    assert results.sd_within(SITES)(values) == pytest.approx(pooled)


def test_statistics_of_resamples_are_those_of_each(results: ModuleType, values: np.ndarray) -> None:
    places = results.resamples(SITES, 3)
    for statistic in (results.mean_sd, results.mean_sd_in_gaps, results.sd_within(SITES)):
        each = [statistic(values[one]) for one in places]
        np.testing.assert_allclose(statistic(values[places]), each)


def test_resamples_keep_sites_apart(results: ModuleType) -> None:
    site = np.array(SITES)
    places = results.resamples(SITES, 50)
    assert (site[places] == site).all()
    assert len({tuple(one) for one in places.tolist()}) == 50


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution(results: ModuleType) -> None:
    sample = np.random.default_rng(1).normal(size=(400, 1))
    one = results.estimates({"x": sample}, lambda v: v[..., 0].mean(axis=-1), ["a"] * 400)["x"]
    mean, error = sample.mean(), stats.sem(sample[:, 0])
    assert one.interval == pytest.approx((mean, mean - 1.96 * error, mean + 1.96 * error), abs=0.01)


def test_the_interval_corrects_that_resamples_vary_less(results: ModuleType) -> None:
    sample = np.random.default_rng(5).normal(size=(8, 1))
    one = results.estimates({"x": sample}, results.mean_sd, ["a"] * 8)["x"]
    low, high = np.quantile(one.resampled, [0.025, 0.975])
    assert one.interval.low > low
    assert one.interval.high > high


def test_ratios_are_of_the_same_people(results: ModuleType, values: np.ndarray) -> None:
    found = results.estimates({"one": values, "twice": 2 * values}, results.mean_sd, SITES)
    ratio = results.over(found, "one")["twice"].interval
    assert ratio == pytest.approx((2, 2, 2))
