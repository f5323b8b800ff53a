"""The statistics of docs/study.md (experiments/study_results.py)."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from ndflow.evaluation.sites import distance_between_sites, distance_within_sites
from ndflow.evaluation.statistics import covariate_effect

SITES = ["a"] * 5 + ["b"] * 7 + ["c"] * 6
VALUES = np.random.default_rng(3).normal(size=(len(SITES), 9)).cumsum(axis=1)


@pytest.fixture(scope="module")
def results() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "experiments")
        import study_results

        yield study_results


def test_statistics_are_those_of_an_evaluation(results: ModuleType) -> None:
    site = np.array(SITES)
    squares = sum(((VALUES[site == s] - VALUES[site == s].mean(axis=0)) ** 2).sum(0) for s in "abc")
    effect = covariate_effect(VALUES[:, 1], VALUES[:, 0], SITES)
    for found, expected in (
        (results.w1_between(SITES)(VALUES), distance_between_sites(VALUES, SITES)),
        (results.w1_within(SITES)(VALUES), distance_within_sites(VALUES, SITES)),
        (results.partial_correlation(SITES)(VALUES[:, :2]), effect.correlation),
        (results.sd_within(SITES)(VALUES), np.sqrt(squares / (len(SITES) - 3)).mean()),
    ):
        assert found == pytest.approx(expected)


def test_resamples_keep_sites_apart_and_statistics_take_many(results: ModuleType) -> None:
    places = results.resamples(SITES, 50)
    assert (np.array(SITES)[places] == SITES).all()
    assert len({tuple(one) for one in places.tolist()}) == 50
    for statistic in (results.mean_sd, results.mean_sd_in_gaps, results.sd_within(SITES)):
        each = [statistic(VALUES[one]) for one in places]
        np.testing.assert_allclose(statistic(VALUES[places]), each)


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution(results: ModuleType) -> None:
    sample = np.random.default_rng(1).normal(size=(400, 1))
    one = results.estimates({"x": sample}, lambda v: v[..., 0].mean(axis=-1), ["a"] * 400)["x"]
    mean, error = sample.mean(), stats.sem(sample[:, 0])
    assert one.interval == pytest.approx((mean, mean - 1.96 * error, mean + 1.96 * error), abs=0.01)


def test_ratios_are_of_the_same_people(results: ModuleType) -> None:
    found = results.estimates({"one": VALUES, "twice": 2 * VALUES}, results.mean_sd, SITES)
    assert results.over(found, "one")["twice"].interval == pytest.approx((2, 2, 2))
