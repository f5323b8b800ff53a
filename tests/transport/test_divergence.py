"""Divergences against quadrature; what `match` minimises against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import integrate, stats

from ndflow import GaussianMixture, InvalidValueError
from ndflow.transport import divergence
from ndflow.transport.divergence import Energy
from ndflow.transport.match import Objective

OBJECTIVES_AND_CHANNELS = [("l2", 1), ("l2", 2), ("l2", 3), ("cramer", 1)]


def pair(seed, channels):
    generator = np.random.default_rng(seed)
    return tuple(
        random_mixture(generator, int(generator.integers(2, 5)), channels) for _ in range(2)
    )


def slopes(function, size, h=1e-3):
    """The gradient of a function of `size` numbers at zero, by fourth-order differences."""
    steps = h * np.eye(size)
    return np.array(
        [
            (8 * (function(e) - function(-e)) - (function(2 * e) - function(-2 * e))) / (12 * h)
            for e in steps
        ]
    )


def assert_gradient(gradient, truth):
    """Agreement to 1e-6, relative to the gradient as a whole."""
    assert np.abs(gradient - truth).max() <= 1e-6 * np.abs(truth).max()


# ── values ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("objective", "factor"), [("l2", 0.5), ("cramer", 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_integrated_squared_difference(seed, objective, factor):
    # Of densities, halved; or of distribution functions.
    function = stats.norm.pdf if objective == "l2" else stats.norm.cdf

    def value(mixture, x):
        sds = mixture.precisions[:, 0, 0] ** -0.5
        return mixture.weights @ function(x, mixture.means[:, 0], sds)

    q, p = pair(seed, 1)
    truth, _ = integrate.quad(
        lambda x: factor * (value(q, x) - value(p, x)) ** 2, -15, 15, limit=500, epsabs=1e-13
    )
    assert divergence(q, p, objective) == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("seed", range(2))
def test_l2_in_two_channels_agrees_with_quadrature(seed):
    # The trapezoidal rule converges exponentially on a smooth function that dies out at both ends.
    axis = np.arange(-9, 9, 0.06)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    q, p = pair(seed, 2)
    densities = [
        sum(
            w * stats.multivariate_normal.pdf(grid, mean, np.linalg.inv(precision))
            for w, mean, precision in zip(m.weights, m.means, m.precisions, strict=True)
        )
        for m in (q, p)
    ]
    truth = 0.5 * ((densities[0] - densities[1]) ** 2).sum() * 0.06**2
    assert divergence(q, p) == pytest.approx(truth, rel=1e-9, abs=1e-13)


@given(mixtures(), st.integers(0, 10**6))
def test_it_is_zero_for_equal_densities_even_if_they_are_written_differently(mixture, seed):
    order = np.random.default_rng(seed).permutation(mixture.components)
    # The same density: components in another order, and the first one in two halves.
    again = GaussianMixture(
        np.concatenate([mixture.weights[order], [0]])
        + 0.5 * mixture.weights[0] * np.concatenate([-1.0 * (order == 0), [1]]),
        np.concatenate([mixture.means[order], mixture.means[:1]]),
        np.concatenate([mixture.precisions[order], mixture.precisions[:1]]),
    )
    assert 0 <= divergence(mixture, again) < 1e-14
    if mixture.channels == 1:
        assert 0 <= divergence(mixture, again, "cramer") < 1e-14


@pytest.mark.parametrize("channels", [1, 2])
def test_a_blurred_divergence_is_that_of_blurred_densities(channels):
    one, two = pair(4, channels)

    def wider(mixture):
        covariances = mixture.covariances + 0.3**2 * np.eye(channels)
        return GaussianMixture(mixture.weights, mixture.means, np.linalg.inv(covariances))

    value, *_ = Energy(two, "l2", 0.3)(one.weights, one.means, one.covariances)
    assert value == pytest.approx(divergence(wider(one), wider(two)), rel=1e-9)


def test_what_makes_no_sense_is_refused_by_name():
    one, two = pair(0, 1)[0], pair(0, 2)[0]
    with pytest.raises(InvalidValueError, match="objective must be l2 or cramer"):
        divergence(one, one, "kl")
    with pytest.raises(InvalidValueError, match="'cramer' needs one channel"):
        divergence(two, two, "cramer")
    with pytest.raises(InvalidValueError, match="source has 1 channels, not 2"):
        divergence(one, two)


# ── what is minimised, with one frozen component, away from its starting point ───────────────────


@pytest.mark.parametrize(("objective", "channels"), OBJECTIVES_AND_CHANNELS)
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_is_as_documented_and_its_gradient_its_derivative(objective, channels, seed):
    q, p = pair(seed, channels)
    free = np.arange(q.components) > 0
    minimised = Objective(q, free, Energy(p, objective), 0.05)
    size = minimised.start().size
    here = 0.5 * np.random.default_rng(seed).standard_normal(size)
    value, total, gradient = minimised.in_coordinates(here)
    assert_gradient(gradient, slopes(lambda e: minimised.in_coordinates(here + e)[1], size))

    means, precisions = q.means.copy(), q.precisions.copy()
    means[free], precisions[free] = minimised.parameters(here)
    there = GaussianMixture(q.weights, means, precisions)
    assert value == pytest.approx(divergence(there, p, objective), rel=1e-9)
    held = 0.0
    for k in np.flatnonzero(free):
        shift = means[k] - q.means[k]
        # The eigenvalues of M = L0⁻¹ Λ L0⁻ᵀ are those of Λ0⁻¹ Λ.
        ratios = np.linalg.eigvals(np.linalg.solve(q.precisions[k], precisions[k])).real
        held += q.weights[k] * (
            0.5 * shift @ q.precisions[k] @ shift + 0.25 * (np.log(ratios) ** 2).sum()
        )
    assert total - value == pytest.approx(0.05 * held, rel=1e-9)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6), objective=st.sampled_from(["l2", "cramer"]), frozen=st.booleans()
)
def test_the_second_derivatives_of_the_objective_are_those_of_its_gradient(seed, objective, frozen):
    source, target = pair(seed, 1)
    free = np.ones(source.components, dtype=bool)
    free[0] = not frozen
    minimised = Objective(source, free, Energy(target, objective), 1e-2)
    size = minimised.start().size
    here = np.random.default_rng(seed).normal(0, 0.5, size)
    truth = slopes(lambda e: minimised.in_coordinates(here + e)[2], size)
    assert_gradient(minimised.hessian(here), truth)
