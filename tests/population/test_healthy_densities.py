"""What healthy scans look like as a whole: overlaps are integrals, and bounds are left out one."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import stats

from ndflow import Affine, GaussianMixture, InvalidValueError
from ndflow.population.healthy_densities import HealthyDensities


def scans(count, *, spread=0.05):
    """Return brains that differ a little, in the space of a reference."""
    generator = np.random.default_rng(count)
    found = []
    for _ in range(count):
        csf, grey = generator.uniform(0.05, 0.3), spread * generator.standard_normal()
        weights = [csf, 0.55 * (1 - csf), 0.45 * (1 - csf)]
        found.append(GaussianMixture(weights, [-1.6, grey, 1.1], [8.0, 9.0, 25.0]))
    return found


def histogram_of(mixture, edges):
    """Return the share of each bin, component by component."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    parts = zip(mixture.weights, mixture.means[:, 0], mixture.covariances[:, 0, 0], strict=True)
    return sum(w * np.diff(stats.norm.cdf(ends, mean, np.sqrt(v))) for w, mean, v in parts)


def overlaps_of(mixture, others, edges):
    """Return one minus half the sum of the differences."""
    own = histogram_of(mixture, edges)
    return [1 - np.abs(own - histogram_of(other, edges)).sum() / 2 for other in others]


@given(mixtures(channels=1), st.lists(mixtures(channels=1), min_size=1, max_size=4))
def test_the_overlap_is_the_mass_that_a_scan_shares_with_the_most_similar_one(mixture, others):
    learned = HealthyDensities.learn(others)
    truth = max(overlaps_of(mixture, others, learned.edges))
    assert learned.overlap(mixture) == pytest.approx(truth, abs=5e-4)  # shares are rounded


def test_bins_are_fine_enough_for_the_overlap_of_densities():
    x = np.linspace(-9, 9, 40001)
    one, *others = scans(6, spread=0.3)
    truth = max(np.trapezoid(np.minimum(one.pdf(x), other.pdf(x)), x) for other in others)
    assert HealthyDensities.learn(others).overlap(one) == pytest.approx(truth, abs=2e-3)


def test_the_least_overlap_is_that_of_the_scan_most_unlike_the_others():
    every = [*scans(5, spread=0.2), GaussianMixture([1.0], [0.5], [1.0])]
    learned = HealthyDensities.learn(every)
    best = [
        max(overlaps_of(own, every[:i] + every[i + 1 :], learned.edges))
        for i, own in enumerate(every)
    ]
    assert learned.least == pytest.approx(min(best), abs=1e-3)
    assert learned.least < 0.8


def test_scans_that_are_all_but_equal_do_not_make_the_bound_stricter_than_estimates_allow():
    alike = [brain.transformed(1 + 1e-4 * i, 0) for i, brain in enumerate(scans(1) * 5)]
    assert HealthyDensities.learn(alike).least == 0.95
    assert HealthyDensities.learn(alike[:1]).least == 0.95


@given(st.permutations(range(8)))
@settings(max_examples=10)
def test_neither_order_nor_repetition_of_scans_matters_bit_by_bit(order):
    every = scans(8)
    twice = [every[i] for i in order] + every[:3]
    assert HealthyDensities.learn(twice) == HealthyDensities.learn(every)


def test_of_many_scans_some_are_kept_and_every_other_is_like_one_of_them():
    every = scans(90, spread=0.2)
    learned = HealthyDensities.learn(every)
    assert learned.shares.shape == (64, learned.edges.size + 1)
    overlaps = [learned.overlap(own) for own in every]
    assert min(overlaps) >= learned.least - 1e-3
    # Those left out are more like a scan that was kept than those kept are like each other.
    left_out = [one for one in overlaps if one < 1 - 1e-3]
    assert len(left_out) == pytest.approx(26, abs=2)
    kept = learned.shares
    closest = [
        max(np.minimum(own, other).sum() for j, other in enumerate(kept) if j != i)
        for i, own in enumerate(kept)
    ]
    assert min(left_out) > np.median(closest) - 0.01


@given(mixtures(channels=1), st.floats(0.01, 500.0), st.floats(-900.0, 900.0))
def test_units_do_not_matter(mixture, scale, shift):
    learned = HealthyDensities.learn(scans(4))
    moved = learned.transformed(Affine(scale, shift))
    there = mixture.transformed(scale, shift)
    assert moved.overlap(there) == pytest.approx(learned.overlap(mixture), abs=1e-6)


def test_where_only_the_average_is_known_it_stands_for_the_scans():
    average = scans(1)[0]
    known = HealthyDensities.of_average(average.transformed(20.0, 300.0))
    assert known.least == 0.9
    assert known.overlap(average.transformed(20.0, 300.0)) == pytest.approx(1.0)
    shifted = average.transformed(20.0, 320.0)
    assert known.overlap(shifted) == pytest.approx(
        overlaps_of(average, [average.transformed(1.0, 1.0)], np.arange(-80, 80) / 16)[0], abs=0.02
    )


def test_they_survive_json_and_are_short():
    learned = HealthyDensities.learn(scans(20))
    text = json.dumps(learned.to_dict())
    assert HealthyDensities.from_dict(json.loads(text)) == learned
    assert len(text) < 20 * 700


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [0.0, 0.0]}, "edges must be one or more increasing numbers"),
        ({"edges": [], "shares": [[1.0]]}, "edges must be one or more increasing numbers"),
        ({"shares": [[0.5, 0.5]]}, "shares must have the shape"),
        ({"shares": np.zeros((0, 3))}, "shares must hold at least one scan"),
        ({"shares": [[0.5, 0.6, -0.1]]}, "shares must hold at least one scan, and lie between"),
        ({"shares": [[0.5, 1.6, 0.0]]}, "shares must hold at least one scan, and lie between"),
        ({"least": 1.1}, "least must lie between 0 and 1"),
        ({"least": -0.1}, "least must lie between 0 and 1"),
    ],
)
def test_densities_that_make_no_sense_are_refused(change, message):
    good = {"edges": [0.0, 1.0], "shares": [[0.5, 0.3, 0.2]], "least": 0.9}
    with pytest.raises(InvalidValueError, match=message):
        HealthyDensities(**(good | change))


def test_one_channel_only():
    with pytest.raises(InvalidValueError):
        HealthyDensities.learn([random_mixture(np.random.default_rng(0), 2, 2)])
