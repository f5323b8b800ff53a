"""Divergences against quadrature, and every gradient against finite differences."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import integrate, stats

from ndflow import GaussianMixture, InvalidValueError
from ndflow.transport import divergence, divergence_gradient
from ndflow.transport.divergence import Energy
from ndflow.transport.match import Objective

OBJECTIVES_AND_CHANNELS = [("l2", 1), ("l2", 2), ("l2", 3), ("cramer", 1)]


def pair(seed, channels, most=4):
    generator = np.random.default_rng(seed)
    return tuple(
        random_mixture(generator, int(generator.integers(2, most + 1)), channels) for _ in range(2)
    )


def scipy_sum(mixture, function):
    """Σ_k π_k of some function of the components, by scipy."""
    return sum(
        w * function(m, np.linalg.inv(p))
        for w, m, p in zip(mixture.weights, mixture.means, mixture.precisions, strict=True)
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


def symmetric_directions(count, channels):
    """A basis of the symmetric matrices of each component, (count · d(d+1)/2, count, d, d)."""
    basis = []
    for k in range(count):
        for i, j in zip(*np.tril_indices(channels), strict=True):
            e = np.zeros((count, channels, channels))
            e[k, i, j] = e[k, j, i] = 1
            basis.append(e)
    return np.array(basis)


# Values.


@pytest.mark.parametrize("seed", range(5))
def test_l2_is_half_the_integrated_squared_difference_of_densities(seed):
    q, p = pair(seed, 1)

    def squared(x):
        densities = [
            scipy_sum(m, lambda mean, cov: stats.norm.pdf(x, mean[0], cov[0, 0] ** 0.5))
            for m in (q, p)
        ]
        return 0.5 * (densities[0] - densities[1]) ** 2

    truth, _ = integrate.quad(squared, -15, 15, limit=500, epsabs=1e-13, epsrel=1e-12)
    assert divergence(q, p) == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_l2_in_two_channels_agrees_with_quadrature(seed):
    q, p = pair(seed, 2)
    # The trapezoidal rule converges exponentially on a smooth function that dies out at both ends.
    axis = np.arange(-9, 9, 0.06)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    difference = [
        scipy_sum(m, lambda mean, cov: stats.multivariate_normal.pdf(grid, mean, cov))
        for m in (q, p)
    ]
    truth = 0.5 * ((difference[0] - difference[1]) ** 2).sum() * 0.06**2
    assert divergence(q, p) == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_cramer_is_the_integrated_squared_difference_of_distribution_functions(seed):
    q, p = pair(seed, 1)

    def squared(x):
        shares = [
            scipy_sum(m, lambda mean, cov: stats.norm.cdf(x, mean[0], cov[0, 0] ** 0.5))
            for m in (q, p)
        ]
        return (shares[0] - shares[1]) ** 2

    truth, _ = integrate.quad(squared, -15, 15, limit=500, epsabs=1e-13, epsrel=1e-12)
    assert divergence(q, p, "cramer") == pytest.approx(truth, rel=1e-9, abs=1e-13)


@given(st.integers(0, 10**6), st.sampled_from(OBJECTIVES_AND_CHANNELS))
def test_a_divergence_is_symmetric_and_positive_between_different_mixtures(seed, kind):
    objective, channels = kind
    q, p = pair(seed, channels)
    there, back = divergence(q, p, objective), divergence(p, q, objective)
    assert there > 0
    assert there == pytest.approx(back, rel=1e-10, abs=1e-15)


@given(mixtures(), st.integers(0, 10**6))
def test_l2_is_zero_for_equal_densities_even_if_they_are_written_differently(mixture, seed):
    order = np.random.default_rng(seed).permutation(mixture.components)
    # The same density: components in another order, and the first one in two halves.
    again = GaussianMixture(
        np.concatenate([mixture.weights[order], [0]])
        + 0.5 * mixture.weights[0] * np.concatenate([-1.0 * (order == 0), [1]]),
        np.concatenate([mixture.means[order], mixture.means[:1]]),
        np.concatenate([mixture.precisions[order], mixture.precisions[:1]]),
    )
    assert 0 <= divergence(mixture, again) < 1e-14
    assert 0 <= divergence(mixture, mixture) < 1e-14
    if mixture.channels == 1:
        assert 0 <= divergence(mixture, again, "cramer") < 1e-14


@given(mixtures(), st.integers(0, 5), st.floats(1e-3, 1.0))
def test_l2_notices_one_component_that_moved(mixture, which, shift):
    k = which % mixture.components
    assume(mixture.weights[k] > 0.01)
    means = mixture.means.copy()
    means[k, 0] += shift
    elsewhere = GaussianMixture(mixture.weights, means, mixture.precisions)
    assert divergence(mixture, elsewhere) > 1e-12


# Gradients.


@pytest.mark.parametrize(("objective", "channels"), OBJECTIVES_AND_CHANNELS)
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_a_divergence_is_its_derivative(objective, channels, seed):
    q, p = pair(seed, channels)
    gradient = divergence_gradient(q, p, objective)
    assert gradient.value == divergence(q, p, objective)
    by_mean = slopes(
        lambda e: divergence(
            GaussianMixture(q.weights, q.means + e.reshape(q.means.shape), q.precisions),
            p,
            objective,
        ),
        q.means.size,
    )
    assert_gradient(gradient.means.ravel(), by_mean)

    directions = symmetric_directions(q.components, channels)

    def along(e):
        precisions = q.precisions + np.tensordot(e, directions, 1)
        return divergence(GaussianMixture(q.weights, q.means, precisions), p, objective)

    # dD = tr(G dΛ), and a direction has a one on each side of the diagonal.
    claimed = np.einsum("kij,akij->a", gradient.precisions, directions)
    assert_gradient(claimed, slopes(along, len(directions)))
    np.testing.assert_allclose(gradient.precisions, np.swapaxes(gradient.precisions, 1, 2))


def objective_to_minimise(seed, channels, objective):
    """What `match` minimises, with one frozen component, away from its starting point."""
    q, p = pair(seed, channels)
    free = np.ones(q.components, dtype=bool)
    free[0] = False
    return q, p, free, Objective(q, free, Energy(p, objective), 0.05)


@pytest.mark.parametrize(("objective", "channels"), OBJECTIVES_AND_CHANNELS)
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_in_the_optimisers_coordinates_is_the_derivative(objective, channels, seed):
    _, _, _, minimised = objective_to_minimise(seed, channels, objective)
    size = minimised.start().size
    here = 0.5 * np.random.default_rng(seed).standard_normal(size)
    _, _, gradient = minimised.in_coordinates(here)
    assert_gradient(gradient, slopes(lambda e: minimised.in_coordinates(here + e)[1], size))


@pytest.mark.parametrize(("objective", "channels"), OBJECTIVES_AND_CHANNELS)
@pytest.mark.parametrize("seed", range(4))
def test_the_objective_is_the_divergence_and_the_documented_regulariser(objective, channels, seed):
    q, p, free, minimised = objective_to_minimise(seed, channels, objective)
    here = 0.5 * np.random.default_rng(seed).standard_normal(minimised.start().size)
    means, precisions = q.means.copy(), q.precisions.copy()
    means[free], precisions[free] = minimised.parameters(here)
    value, total, _ = minimised.in_coordinates(here)
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


def test_a_gradient_of_a_mixture_far_away_is_finite():
    q = GaussianMixture([0.5, 0.5], [-1e3, 1e3], [1.0, 1e6])
    p = GaussianMixture([1.0], [0.0], [1.0])
    for objective in ("l2", "cramer"):
        gradient = divergence_gradient(q, p, objective)
        assert np.isfinite(gradient.value)
        assert np.isfinite(gradient.means).all()
        assert np.isfinite(gradient.precisions).all()


def test_what_makes_no_sense_is_refused_by_name():
    one, two = pair(0, 1)[0], pair(0, 2)[0]
    with pytest.raises(InvalidValueError, match="objective must be one of l2, cramer"):
        divergence(one, one, "kl")
    with pytest.raises(InvalidValueError, match="'cramer' needs one channel"):
        divergence_gradient(two, two, "cramer")
    with pytest.raises(InvalidValueError, match="source has 1 channels, but target 2"):
        divergence(one, two)


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
