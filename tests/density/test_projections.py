"""One-channel views of densities, against sums over a grid and samples."""

import numpy as np
import pytest
from mixtures import random_mixture

from ndflow import GaussianMixture, InvalidValueError
from ndflow.density.mixture import marginal, projected


def test_a_marginal_is_the_density_summed_over_the_other_channel():
    mixture = random_mixture(np.random.default_rng(3), 4, 2)
    low, high = mixture.mean() - 12, mixture.mean() + 12
    y = np.linspace(low[1], high[1], 4001)
    for x in np.linspace(low[0] + 9, high[0] - 9, 7):
        summed = mixture.pdf(np.column_stack([np.full_like(y, x), y])).sum() * (y[1] - y[0])
        assert marginal(mixture, 0).pdf(x) == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_projection_has_the_moments_of_projected_points(d):
    generator = np.random.default_rng(d)
    mixture = random_mixture(generator, 3, d)
    direction = generator.normal(size=d)
    line = projected(mixture, direction)
    assert line.mean()[0] == pytest.approx(mixture.mean() @ direction)
    variance = direction @ mixture.covariance() @ direction
    assert line.covariance()[0, 0] == pytest.approx(variance)


def test_directions_must_fit():
    mixture = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    with pytest.raises(InvalidValueError, match="direction"):
        projected(mixture, [1.0, 0.0, 0.0])
