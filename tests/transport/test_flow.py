"""The flow: mass and inverse; against the exact map and the theory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import random_mixture, regularised_match
from scipy import linalg

from ndflow import GaussianMixture
from ndflow.transport import Flow, QuantileMap, match
from ndflow.transport.flow import with_far_field

INNER = np.linspace(0.0005, 0.9995, 101)
seeds = st.integers(0, 10**6)


def sds(mixture):
    return np.sqrt(np.diagonal(mixture.covariance()))


def matched_flow(seed, channels=1, steps=100, frozen=()):
    result = regularised_match(np.random.default_rng(seed), channels)
    if frozen:
        target = random_mixture(np.random.default_rng(seed + 1), 3, channels)
        result = match(result.source, target, frozen=frozen)
    return Flow(result.source, result.matched, steps)


def jacobian(function, x, h=1e-4):
    """(n, d, d): the derivatives of a map of points, by fourth-order differences."""
    columns = [
        (8 * (function(x + h * e) - function(x - h * e))
         - (function(x + 2 * h * e) - function(x - 2 * h * e))) / (12 * h)
        for e in np.eye(x.shape[1])
    ]  # fmt: skip
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("seed", range(10))
def test_100_steps_agree_with_the_exact_map_to_1e_6_sd(seed):
    flow = matched_flow(seed)
    x = flow.source.quantile(INNER)
    exact = QuantileMap(flow.source, flow.target)
    assert np.abs(flow(x) - exact(x)).max() < 1e-6 * sds(flow.target)[0]
    assert np.abs(flow.inverse()(flow(x)) - x).max() < 1e-6 * sds(flow.source)[0]
    np.testing.assert_allclose(flow.log_det_jacobian(x), exact.log_det_jacobian(x), atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("frozen", [[], [0]])
def test_mass_is_conserved_and_the_jacobian_is_that_of_the_map(channels, frozen):
    flow = matched_flow(1, channels, frozen=frozen)
    x = flow.source.sample(25, np.random.default_rng(0))
    there, log_det = flow.with_log_det_jacobian(x)
    determinants = np.linalg.det(jacobian(flow, x))
    assert (determinants > 0).all()
    np.testing.assert_allclose(determinants, np.exp(log_det), rtol=1e-6)
    # q0 = |Df| q1∘f
    np.testing.assert_allclose(determinants * flow.target.pdf(there), flow.source.pdf(x), rtol=1e-5)
    back, back_log_det = flow.inverse().with_log_det_jacobian(there)
    assert (np.abs(back - x) < 1e-6 * sds(flow.source)).all()
    np.testing.assert_allclose(back_log_det, -log_det, atol=1e-5)


@given(seeds, st.integers(1, 3))
def test_between_single_gaussians_it_is_the_optimal_transport(seed, channels):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 1, channels, 3.0) for _ in range(2))
    target = GaussianMixture(source.weights, target.means, target.precisions)
    before, after = np.linalg.inv(source.precisions[0]), np.linalg.inv(target.precisions[0])
    root = linalg.sqrtm(before).real
    back = np.linalg.inv(root)
    T = back @ linalg.sqrtm(root @ after @ root).real @ back
    x = source.sample(20, generator)
    expected = target.means[0] + (x - source.means[0]) @ T.T
    # Points move in straight lines at a constant speed, which any Runge–Kutta method gets exactly.
    for steps in (1, 10):
        np.testing.assert_allclose(Flow(source, target, steps)(x), expected, atol=1e-11)


def test_many_points_are_the_same_as_few_and_keep_their_shape():
    flow = matched_flow(0, steps=5)
    x = np.random.default_rng(0).standard_normal((3, 2000))
    one_by_one = np.array([flow(v) for v in x[:, ::500].ravel()]).reshape(3, -1)
    np.testing.assert_allclose(flow(x)[:, ::500], one_by_one, rtol=1e-14)
    two = matched_flow(0, 2, steps=5)
    y = np.random.default_rng(0).standard_normal((4, 5, 2))
    assert two(y).shape == (4, 5, 2)
    assert two.log_det_jacobian(y).shape == (4, 5)


# ── far from all voxels ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("d", [2, 3])
def test_far_out_the_map_is_the_identity_and_one_to_one(d):
    result = regularised_match(np.random.default_rng(5), d)
    flow = Flow(*with_far_field(result.source, result.matched))
    sd, middle = sds(flow.target), flow.target.mean()
    directions = np.random.default_rng(0).normal(size=(50, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    far = middle + 50 * sd * directions
    y, log_det = flow.with_log_det_jacobian(far)
    np.testing.assert_allclose(y, far, atol=1e-9 * 50 * sd.max())
    np.testing.assert_allclose(log_det, 0, atol=1e-9)
    ray = middle + np.linspace(0, 50, 100)[:, np.newaxis] * sd * directions[0]
    fine = Flow(flow.source, flow.target, 200)
    assert np.abs(fine.inverse()(fine(ray)) - ray).max() < 1e-2 * sd.max()
    # No finite point is lost, however far out.
    far = np.zeros((3, d)) + np.array([[1e30], [-1e100], [1e300]])
    np.testing.assert_allclose(flow.inverse()(flow(far)), far, atol=2.0)


def test_where_the_voxels_are_the_far_field_changes_little():
    result = regularised_match(np.random.default_rng(6), 2)
    points = result.source.sample(1000, np.random.default_rng(0))
    plain = Flow(result.source, result.matched)
    fading = Flow(*with_far_field(result.source, result.matched))
    off = np.abs(plain(points) - fading(points)) / sds(result.matched)
    assert np.quantile(off, 0.95) < 0.02
