"""The sliced Wasserstein distance, against a closed form and scipy."""

import numpy as np
import pytest
from mixtures import random_mixture
from scipy import stats

from ndflow import GaussianMixture
from ndflow.transport.joint import Slices


def test_a_shifted_gaussian_is_as_far_away_as_its_shift_on_average_over_directions():
    normal = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    points = normal.sample(5000, np.random.default_rng(1)) + np.array([3.0, 4.0])
    # In two channels the mean of |cos| over all directions is 2/π.
    assert Slices(normal, 500).distance(points) == pytest.approx(10 / np.pi, rel=0.05)


@pytest.mark.parametrize("d", [2, 3])
def test_it_agrees_with_scipy_on_samples(d):
    generator = np.random.default_rng(d)
    mixture, other = random_mixture(generator, 3, d), random_mixture(generator, 3, d)
    points, sample = other.sample(5000, generator), mixture.sample(5000, generator)
    sd = np.sqrt(np.diagonal(mixture.covariance()))
    vectors = np.random.default_rng(5).normal(size=(100, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = np.mean(
        [stats.wasserstein_distance(points / sd @ v, sample / sd @ v) for v in vectors]
    )
    assert Slices(mixture, 100).distance(points) == pytest.approx(expected, rel=0.15)


def test_units_do_not_matter():
    generator = np.random.default_rng(7)
    mixture = random_mixture(generator, 3, 2)
    points = generator.normal(size=(500, 2))
    units, offset = np.diag([3.0, 500.0]), np.array([7.0, -1e3])
    there = Slices(mixture.transformed(units, offset)).distance(points @ units + offset)
    assert there == pytest.approx(Slices(mixture).distance(points), rel=1e-9)
