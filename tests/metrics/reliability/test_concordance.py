"""Lin's coefficient against its definition by distances, and its known properties."""

import numpy as np
import pytest

from ndflow.metrics.reliability.concordance import concordance, pairs_of_scans


def pairs(seed=0, n=40):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=n)
    return x, 0.8 * x + 0.4 * generator.normal(size=n) + 0.3


def test_it_is_one_minus_the_distance_from_equality_over_that_expected_without_correlation():
    x, y = pairs()
    # Expected over all ways to pair the scans: brute force over every combination.
    expected = np.mean((x[:, None] - y) ** 2)
    assert concordance(x, y).value == pytest.approx(1 - np.mean((x - y) ** 2) / expected)


def test_it_is_the_correlation_times_the_deviation_from_equality():
    x, y = pairs(1)
    v = x.std() / y.std()
    u = (x.mean() - y.mean()) / np.sqrt(x.std() * y.std())
    accuracy = 2 / (v + 1 / v + u**2)
    assert concordance(x, y).value == pytest.approx(np.corrcoef(x, y)[0, 1] * accuracy)
    assert concordance(x, y + 1).value < concordance(x, y).value
    assert concordance(x, x) == (1, 1, 1)
    assert concordance(x, -x + 2 * x.mean()).value == pytest.approx(-1)


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.8, 0.3), (1.0, 1.5), (-0.5, 0.2)])
def test_its_interval_covers_the_truth_and_its_width_is_that_of_repeated_samples(slope, shift):
    generator = np.random.default_rng(3)
    covariance = slope
    truth = 2 * covariance / (1.25 + slope**2 + 0.16 + shift**2)
    seen, covered = [], 0
    for _ in range(800):
        subject = generator.normal(size=40)
        x = subject + 0.5 * generator.normal(size=40)
        found = concordance(x, slope * subject + shift + 0.4 * generator.normal(size=40))
        seen.append(np.arctanh([found.value, found.low, found.high]))
        covered += found.low <= truth <= found.high
    z, low, high = np.transpose(seen)
    assert z - low == pytest.approx(high - z)
    assert np.mean(high - low) / (2 * 1.96) == pytest.approx(z.std(), rel=0.1)
    assert 0.92 < covered / 800 < 0.98


def test_repeated_pairs_of_a_subject_count_once_and_few_subjects_have_no_interval():
    x, y = pairs(2)
    once = concordance(x, y)
    twice = concordance(np.tile(x, 2), np.tile(y, 2), subjects=x.size)
    assert twice == pytest.approx(once)
    assert concordance(np.tile(x, 2), np.tile(y, 2)).low > once.low
    assert concordance([1.0, 2.0], [1.0, 2.5])[1:] == (None, None)
    assert concordance([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])[1:] == (None, None)


def test_what_cannot_be_computed_is_none():
    assert concordance([1.0], [2.0]) is None
    assert concordance([1.0, 1.0], [1.0, 1.0]) is None


def test_pairs_are_in_the_order_of_sites_and_unknown_subjects_have_none():
    subjects = ["a", None, "b", "a", "a", "b", None]
    sites = ["y", "x", "x", "x", "x", "x", "x"]
    assert pairs_of_scans(subjects, sites) == [(3, 4), (3, 0), (4, 0), (2, 5)]
