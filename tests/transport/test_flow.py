"""The flow: mass, order of convergence, inverse; against the exact map and the theory."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture, regularised_match
from scipy import linalg

from ndflow import GaussianMixture, IntensityMap, InvalidValueError
from ndflow.transport import Flow, QuantileMap, match

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


def derivative(function, h):
    """The slope at zero of a function of one number, of fourth order."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


def jacobian(function, x, h=1e-4):
    """(n, d, d): the derivatives of a map of points, column by column."""
    columns = [derivative(lambda s, e=e: function(x + s * e), h) for e in np.eye(x.shape[1])]
    return np.stack(columns, axis=-1)


# One channel: the exact map is the truth.


@pytest.mark.parametrize("seed", range(40))
def test_100_steps_agree_with_the_exact_map_to_1e_6_sd(seed):
    flow = matched_flow(seed)
    x = flow.source.quantile(INNER)
    exact = QuantileMap(flow.source, flow.target)
    assert np.abs(flow(x) - exact(x)).max() < 1e-6 * sds(flow.target)[0]
    assert np.abs(flow.inverse()(flow(x)) - x).max() < 1e-6 * sds(flow.source)[0]
    np.testing.assert_allclose(flow.log_det_jacobian(x), exact.log_det_jacobian(x), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_runge_kutta_has_order_four(seed):
    flow = matched_flow(seed)
    x = flow.source.quantile(np.linspace(0.05, 0.95, 31))
    truth = QuantileMap(flow.source, flow.target)(x)
    # Enough steps to be in the asymptotic regime, but so few that rounding does not matter.
    steps, errors = [], []
    for count in 8 * 2 ** np.arange(10):
        error = np.abs(Flow(flow.source, flow.target, int(count))(x) - truth).max()
        if error < 1e-11:
            break
        steps.append(count)
        errors.append(error)
    slope = -np.polyfit(np.log(steps[-3:]), np.log(errors[-3:]), 1)[0]
    assert len(steps) >= 3
    assert 3.7 < slope < 4.3


@settings(max_examples=20)
@given(seeds)
def test_the_map_is_strictly_increasing(seed):
    flow = matched_flow(seed)
    x = np.linspace(*flow.source.quantile([1e-6, 1 - 1e-6]), 500)
    assert (np.diff(flow(x)) > 0).all()


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_the_map_is_finite_200_sd_out(channels):
    for seed in range(3):
        flow = matched_flow(seed, channels)
        directions = np.random.default_rng(seed).standard_normal((20, channels))
        directions /= np.linalg.norm(directions, axis=1)[:, np.newaxis]
        x = flow.source.mean() + 200 * sds(flow.source) * directions
        for there in (flow, flow.inverse()):
            assert np.isfinite(there(x)).all()
            assert np.isfinite(there.log_det_jacobian(x)).all()


# Any number of channels: mass.


@settings(max_examples=15)
@given(seeds, st.integers(1, 3), st.floats(0.01, 0.99))
def test_the_continuity_equation_holds(seed, channels, t):
    flow = matched_flow(seed, channels)
    there = flow.mixture(t)
    x = there.sample(50, np.random.default_rng(seed))
    by_time = derivative(lambda s: flow.mixture(t + s).pdf(x), 1e-3)

    def flux(y):
        return there.pdf(y)[:, np.newaxis] * flow.velocity(t, y)

    outflow = np.trace(jacobian(flux, x), axis1=1, axis2=2)
    peak = there.pdf(np.concatenate([x, there.means])).max()
    assert np.abs(by_time + outflow).max() < 1e-6 * peak


@settings(max_examples=15)
@given(seeds, st.integers(1, 3), st.floats(0, 1))
def test_the_divergence_is_that_of_the_velocity(seed, channels, t):
    flow = matched_flow(seed, channels)
    x = flow.mixture(t).sample(50, np.random.default_rng(seed))
    truth = np.trace(jacobian(lambda y: flow.velocity(t, y), x), axis1=1, axis2=2)
    assert np.abs(flow.divergence(t, x) - truth).max() < 1e-6 * max(1, np.abs(truth).max())


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_mass_is_conserved_and_the_jacobian_is_that_of_the_map(channels, seed):
    # With every other seed the first component is frozen, the others move.
    flow = matched_flow(seed, channels, frozen=[0] if seed % 2 else [])
    if seed % 2:
        assert (flow.source.means[0] == flow.target.means[0]).all()
        assert (flow.source.means[1:] != flow.target.means[1:]).all()
    x = flow.source.sample(40, np.random.default_rng(seed))
    determinants = np.linalg.det(jacobian(flow, x))
    assert (determinants > 0).all()
    np.testing.assert_allclose(determinants, np.exp(flow.log_det_jacobian(x)), rtol=1e-6)
    # q0 = |Df| q1∘f
    np.testing.assert_allclose(
        determinants * flow.target.pdf(flow(x)), flow.source.pdf(x), rtol=1e-5
    )


@pytest.mark.parametrize("channels", [2, 3])
def test_samples_of_the_source_become_samples_of_the_target(channels):
    flow = matched_flow(4, channels, steps=50)
    size = 4000
    arrived = flow(flow.source.sample(size, np.random.default_rng(0)))
    drawn = flow.target.sample(size, np.random.default_rng(1))

    def assert_mean(values, truth, error=0.0):
        spread = np.sqrt(values.var(axis=0) / size + error**2)
        assert (np.abs(values.mean(axis=0) - truth) < 4 * spread).all()

    assert_mean(arrived, flow.target.mean())
    centred = arrived - flow.target.mean()
    assert_mean(centred[:, :, np.newaxis] * centred[:, np.newaxis], flow.target.covariance())
    density = flow.target.logpdf(drawn)
    assert_mean(flow.target.logpdf(arrived), density.mean(), density.std() / size**0.5)
    # Shares of the components, which moments alone would not reveal.
    assert_mean(flow.target.responsibilities(arrived), flow.target.weights)


@settings(max_examples=10)
@given(seeds, st.integers(2, 3))
def test_the_inverse_undoes_the_map_to_1e_6_sd(seed, channels):
    flow = matched_flow(seed, channels)
    x = flow.source.sample(20, np.random.default_rng(seed))
    there = flow(x)
    assert (np.abs(flow.inverse()(there) - x) < 1e-6 * sds(flow.source)).all()
    np.testing.assert_allclose(
        flow.inverse().log_det_jacobian(there), -flow.log_det_jacobian(x), atol=1e-5
    )


@given(mixtures())
def test_from_a_density_to_itself_it_is_the_identity(mixture):
    flow = Flow(mixture, mixture, 10)
    x = mixture.sample(30, np.random.default_rng(0))
    np.testing.assert_allclose(flow(x), x, atol=1e-12)
    np.testing.assert_allclose(flow.log_det_jacobian(x), 0, atol=1e-11)


# The theory's special cases.


@given(seeds, st.integers(1, 3))
def test_between_single_gaussians_the_path_is_the_optimal_transport(seed, channels):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 1, channels, 3.0) for _ in range(2))
    target = GaussianMixture(source.weights, target.means, target.precisions)
    before, after = np.linalg.inv(source.precisions[0]), np.linalg.inv(target.precisions[0])
    root = linalg.sqrtm(before).real
    back = np.linalg.inv(root)
    T = back @ linalg.sqrtm(root @ after @ root).real @ back
    flow = Flow(source, target, 10)
    x = source.sample(20, generator)
    expected = target.means[0] + (x - source.means[0]) @ T.T
    # Points move in straight lines at a constant speed, which any Runge–Kutta method gets exactly.
    np.testing.assert_allclose(flow(x), expected, atol=1e-11)
    np.testing.assert_allclose(Flow(source, target, 1)(x), expected, atol=1e-11)
    t = 0.3
    halfway = (1 - t) * x + t * expected
    np.testing.assert_allclose(flow.velocity(t, halfway), expected - x, atol=1e-11)


@given(seeds, st.integers(1, 3))
def test_the_path_begins_at_the_source_and_ends_at_the_target(seed, channels):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 3, channels) for _ in range(2))
    target = GaussianMixture(source.weights, target.means, target.precisions)
    flow = Flow(source, target)
    for t, end in ((0.0, source), (1.0, target)):
        np.testing.assert_allclose(flow.mixture(t).means, end.means, atol=1e-12)
        np.testing.assert_allclose(flow.mixture(t).covariances, end.covariances, atol=1e-11)
        assert (flow.mixture(t).weights == source.weights).all()
    halfway = flow.mixture(0.5)
    if channels == 1:
        np.testing.assert_allclose(
            halfway.covariances**0.5,
            0.5 * (source.covariances**0.5 + target.covariances**0.5),
            atol=1e-12,
        )


def outer(one, two):
    """The mixture of two independent channels: every pair of components is one."""
    weights = np.outer(one.weights, two.weights).ravel()
    i, j = np.divmod(np.arange(weights.size), two.components)
    precisions = np.zeros((weights.size, 2, 2))
    precisions[:, 0, 0] = one.precisions[i, 0, 0]
    precisions[:, 1, 1] = two.precisions[j, 0, 0]
    means = np.column_stack([one.means[i, 0], two.means[j, 0]])
    return GaussianMixture(weights, means, precisions)


@settings(max_examples=20)
@given(seeds)
def test_independent_channels_flow_independently(seed):
    generator = np.random.default_rng(seed)
    matches = [regularised_match(generator) for _ in range(2)]
    flows = [Flow(m.source, m.matched, 20) for m in matches]
    both = Flow(outer(*(m.source for m in matches)), outer(*(m.matched for m in matches)), 20)
    x = both.source.sample(30, generator)
    apart = np.column_stack([flow(x[:, i]) for i, flow in enumerate(flows)])
    np.testing.assert_allclose(both(x), apart, atol=1e-12)
    logs = sum(flow.log_det_jacobian(x[:, i]) for i, flow in enumerate(flows))
    np.testing.assert_allclose(both.log_det_jacobian(x), logs, atol=1e-11)


# The interface.


def test_many_points_are_the_same_as_few_and_keep_their_shape():
    flow = matched_flow(0, steps=5)
    x = np.random.default_rng(0).standard_normal((3, 2000))
    assert flow(x).shape == x.shape
    assert flow.log_det_jacobian(x).shape == x.shape
    one_by_one = np.array([flow(v) for v in x[:, ::500].ravel()]).reshape(3, -1)
    np.testing.assert_allclose(flow(x)[:, ::500], one_by_one, rtol=1e-14)
    assert flow(np.empty(0)).shape == (0,)
    two = matched_flow(0, 2, steps=5)
    y = np.random.default_rng(0).standard_normal((4, 5, 2))
    assert two(y).shape == (4, 5, 2)
    assert two.log_det_jacobian(y).shape == (4, 5)


def test_more_steps_are_closer():
    flow = matched_flow(0)
    x = flow.source.quantile(INNER)
    truth = QuantileMap(flow.source, flow.target)(x)
    errors = [np.abs(Flow(flow.source, flow.target, n)(x) - truth).max() for n in (2, 8, 32)]
    assert all(more > fewer for more, fewer in pairwise(errors))


def test_a_flow_survives_json():
    flow = matched_flow(0, 2, steps=7)
    assert IntensityMap.from_dict(json.loads(json.dumps(flow.to_dict()))) == flow


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must lie between 1 and 10000, not 0"),
        ({"steps": 2.5}, "steps"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    mixture = random_mixture(np.random.default_rng(0), 2)
    with pytest.raises(InvalidValueError, match=message):
        Flow(mixture, mixture, **options)


def test_ends_that_do_not_belong_together_are_refused():
    generator = np.random.default_rng(0)
    one, two, three = (random_mixture(generator, k) for k in (2, 2, 3))
    with pytest.raises(InvalidValueError, match="the same weights and channels; match them first"):
        Flow(one, two)
    with pytest.raises(InvalidValueError, match="the same weights and channels"):
        Flow(one, three)
