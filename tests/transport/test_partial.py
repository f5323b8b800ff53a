"""Partial matching: what the map does in, beside and between components that are frozen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import moved, random_mixture
from scipy import stats

from ndflow import GaussianMixture, normalising_map
from ndflow.transport import Flow, align, match
from ndflow.transport.normalising_map import flow_map

SOLVERS = ["exact", "rk4"]


@st.composite
def frozen_pairs(draw):
    """A source, a target, and some components of the source, though not all of them."""
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    source = random_mixture(generator, int(generator.integers(2, 6)))
    target = random_mixture(generator, int(generator.integers(1, 6)))
    most = source.components - 1
    indices = st.integers(0, source.components - 1)
    return source, target, sorted(draw(st.sets(indices, min_size=1, max_size=most)))


def over(mixture, count=400):
    """Points all over a mixture, and beyond."""
    low, high = mixture.quantile([1e-4, 1 - 1e-4])
    return np.linspace(low - 1, high + 1, count)


def distribution(mixture, k, x):
    return stats.norm.cdf(x, mixture.means[k, 0], np.sqrt(mixture.covariances[k, 0, 0]))


def density(mixture, k, x):
    return stats.norm.pdf(x, mixture.means[k, 0], np.sqrt(mixture.covariances[k, 0, 0]))


@settings(max_examples=12)
@given(frozen_pairs(), st.sampled_from(SOLVERS))
def test_the_map_is_a_diffeomorphism_whatever_is_frozen(pair, solver):
    source, target, frozen = pair
    imap = normalising_map(source, target, frozen=frozen, solver=solver)
    x = over(source)
    y, log_slope = imap.with_log_det_jacobian(x)
    assert (np.diff(y) > 0).all()
    assert np.isfinite(log_slope).all()  # so the slope is positive, and no infinity
    h = 1e-6
    slope = (imap(x + h) - imap(x - h)) / (2 * h)
    ends = imap.maps[0].inverse()(np.array([imap.maps[1].low, imap.maps[1].high]))
    away = np.abs(x[:, np.newaxis] - ends).min(axis=1) > 1e-3  # where it bends into a straight line
    np.testing.assert_allclose(np.exp(log_slope)[away], slope[away], rtol=2e-3)
    np.testing.assert_allclose(imap.inverse()(y), x, atol=1e-4)


@settings(max_examples=12)
@given(frozen_pairs())
def test_both_solvers_agree_on_the_map(pair):
    source, target, frozen = pair
    exact, rk4 = (normalising_map(source, target, frozen=frozen, solver=s) for s in SOLVERS)
    x = source.quantile(np.linspace(0.01, 0.99, 99))
    np.testing.assert_allclose(rk4(x), exact(x), atol=1e-4)


@given(frozen_pairs())
def test_inside_a_frozen_component_points_move_no_more_than_the_mass_that_passes_them(pair):
    # F1(f(x)) = F0(x), so |f(x) - x| is at most |F1(x) - F0(x)| by the least density on the way;
    # the frozen component has its part in neither difference, and in both densities.
    source, target, frozen = pair
    aligned = moved(source, align(source, target))
    result = match(aligned, target, frozen=frozen)
    imap = flow_map(align(aligned, aligned), result)
    after = result.matched
    free = [k for k in range(source.components) if k not in frozen]
    for k in frozen:
        sd = np.sqrt(aligned.covariances[k, 0, 0])
        x = aligned.means[k, 0] + sd * np.linspace(-1, 1, 9)
        x = x[(x > imap.maps[1].low) & (x < imap.maps[1].high)]
        y = imap(x)
        passing = sum(
            aligned.weights[j] * (distribution(after, j, x) - distribution(aligned, j, x))
            for j in free
        )
        least = np.minimum(density(aligned, k, x), density(aligned, k, y))
        bound = np.abs(passing) / (aligned.weights[k] * np.maximum(least, 1e-300))
        assert (np.abs(y - x) <= bound + 1e-9).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("separation", "most"), [(6.0, 5e-4), (8.0, 3e-5), (12.0, 4e-7)])
def test_far_inside_a_frozen_component_the_map_is_the_alignment(solver, separation, most):
    # A lesion, so many standard deviations (of itself, 0.25) above tissue that has to move.
    source = GaussianMixture([0.5, 0.4, 0.1], [-1.0, 0.0, 0.25 * separation], [16.0] * 3)
    target = GaussianMixture([0.5, 0.5], [-0.8, 0.9], [9.0, 9.0])
    affine = align(source, target)
    imap = normalising_map(source, target, frozen=[2], solver=solver)
    x = source.means[2, 0] + 0.25 * np.linspace(-0.5, 2, 26)
    assert np.abs(imap(x) - affine(x)).max() < most
    # The tissue does move, and the lesion would have moved with it.
    assert np.abs(imap(np.array([-1.0, 0.0])) - affine(np.array([-1.0, 0.0]))).max() > 0.1
    free = normalising_map(source, target, solver=solver)
    assert np.abs(free(x) - affine(x)).max() > 10 * most


@settings(max_examples=12)
@given(frozen_pairs(), st.floats(0, 1))
def test_between_components_the_velocity_blends_by_responsibility(pair, t):
    source, target, frozen = pair
    aligned = moved(source, align(source, target))
    after = match(aligned, target, frozen=frozen).matched
    flow = Flow(aligned, after)
    now = flow.mixture(t)
    x = over(aligned, 60)
    parts = np.array([now.weights[k] * density(now, k, x) for k in range(now.components)])
    here = parts.sum(axis=0) > 1e-200
    shares = parts[:, here] / parts[:, here].sum(axis=0)
    truth = np.zeros(here.sum())
    for k in range(now.components):
        if k in frozen:
            continue  # its share stands still
        sds = [float(np.sqrt(m.covariances[k, 0, 0])) for m in (aligned, after, now)]
        drift = after.means[k, 0] - aligned.means[k, 0]
        truth += shares[k] * (drift + (sds[1] - sds[0]) / sds[2] * (x[here] - now.means[k, 0]))
    np.testing.assert_allclose(flow.velocity(t, x)[here], truth, rtol=1e-9, atol=1e-9)


def test_a_component_that_passes_a_frozen_one_pushes_its_points_the_other_way():
    # A line keeps its order: the density of the frozen component stays, its points do not.
    before = GaussianMixture([0.5, 0.5], [-3.0, 0.0], [4.0, 4.0])
    after = GaussianMixture([0.5, 0.5], [3.0, 0.0], [4.0, 4.0])
    assert Flow(before, after, 400)(np.array([0.0]))[0] == pytest.approx(3.0, abs=1e-6)
