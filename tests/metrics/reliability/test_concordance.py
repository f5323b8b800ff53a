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
    assert concordance(x, y) == pytest.approx(1 - np.mean((x - y) ** 2) / expected)


def test_it_is_the_correlation_times_the_deviation_from_equality():
    x, y = pairs(1)
    v = x.std() / y.std()
    u = (x.mean() - y.mean()) / np.sqrt(x.std() * y.std())
    accuracy = 2 / (v + 1 / v + u**2)
    assert concordance(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1] * accuracy)
    assert concordance(x, y + 1) < concordance(x, y)
    assert concordance(x, x) == 1
    assert concordance(x, -x + 2 * x.mean()) == pytest.approx(-1)


def test_what_cannot_be_computed_is_none():
    assert concordance([1.0], [2.0]) is None
    assert concordance([1.0, 1.0], [1.0, 1.0]) is None


def test_pairs_are_in_the_order_of_sites_and_unknown_subjects_have_none():
    subjects = ["a", None, "b", "a", "a", "b", None]
    sites = ["y", "x", "x", "x", "x", "x", "x"]
    assert pairs_of_scans(subjects, sites) == [(3, 4), (3, 0), (4, 0), (2, 5)]
