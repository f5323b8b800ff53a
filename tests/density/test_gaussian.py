"""Expanded squares: the fast way with several channels, against one point at a time."""

import numpy as np
import pytest
from mixtures import random_mixture

from ndflow.density import gaussian


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_quadratic_functions_are_sums_of_monomials(d):
    generator = np.random.default_rng(d)
    constant, linear = generator.normal(size=3), generator.normal(size=(3, d))
    matrices, x = generator.normal(size=(3, d, d)), generator.normal(size=(7, d))
    found = gaussian.coefficients(constant, linear, matrices) @ gaussian.monomials(x)
    for k in range(3):
        for n in range(7):
            value = constant[k] + linear[k] @ x[n] + x[n] @ matrices[k] @ x[n]
            assert found[k, n] == pytest.approx(value)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_distances_from_means_are_those_of_each_point(d):
    generator = np.random.default_rng(d)
    mixture, x = random_mixture(generator, 4, d), generator.normal(size=(50, d))
    found, _ = gaussian.quadratic_at(mixture.precisions, mixture.means, x)
    vectors = x - mixture.means[:, np.newaxis]
    expected = np.einsum("kni,kij,knj->kn", vectors, mixture.precisions, vectors)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_moments_are_those_about_the_means(d):
    generator = np.random.default_rng(d)
    means, x = generator.normal(size=(4, d)), generator.normal(size=(50, d))
    weights = generator.uniform(size=(4, 50))
    basis = gaussian.moment_basis(x, means)
    total, first, second = gaussian.weighted_moments(weights, basis, means)
    vectors = x - means[:, np.newaxis]
    np.testing.assert_allclose(total, weights.sum(axis=1))
    np.testing.assert_allclose(first, np.einsum("kn,kni->ki", weights, vectors), atol=1e-12)
    np.testing.assert_allclose(
        second, np.einsum("kn,kni,knj->kij", weights, vectors, vectors), atol=1e-12
    )
