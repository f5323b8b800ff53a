"""The exact map of one channel, and straight tails: against closed forms and root finding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures

from ndflow import GaussianMixture
from ndflow.transport import Flow, LinearTails, QuantileMap

INNER = np.linspace(0.0005, 0.9995, 101)
two_mixtures = st.tuples(mixtures(1), mixtures(1))


def sd(mixture):
    return float(np.sqrt(mixture.covariance()[0, 0]))


def derivative(function, x, h):
    """Fourth-order central difference."""
    return (
        8 * (function(x + h) - function(x - h)) - (function(x + 2 * h) - function(x - 2 * h))
    ) / (12 * h)


def test_between_gaussians_it_is_the_straight_line_however_far_out():
    source = GaussianMixture([1.0], [1.0], [4.0])
    target = GaussianMixture([1.0], [-2.0], [0.25])
    x = 1.0 + 0.5 * np.linspace(-200, 200, 401)
    f = QuantileMap(source, target)
    np.testing.assert_allclose(f(x), -2 + 4 * (x - 1), rtol=1e-12)
    np.testing.assert_allclose(f.log_det_jacobian(x), np.log(4), atol=1e-9)


@given(two_mixtures)
def test_it_conserves_mass_and_its_inverse_undoes_it(pair):
    source, target = pair
    x = source.quantile(INNER)
    f = QuantileMap(source, target)
    y, log_slope = f.with_log_det_jacobian(x)
    # All the mass below x ends below f(x), ...
    np.testing.assert_allclose(target.cdf(y), source.cdf(x), rtol=1e-10)
    # ... and so q0 = |f'| q1∘f, where f' is the slope that the map really has.
    slope = derivative(f, x, 2e-4 * sd(source))
    np.testing.assert_allclose(slope * target.pdf(y), source.pdf(x), rtol=1e-6)
    np.testing.assert_allclose(slope, np.exp(log_slope), rtol=1e-6)
    back, back_log_slope = f.inverse().with_log_det_jacobian(y)
    assert np.abs(back - x).max() < 1e-10 * sd(source)
    np.testing.assert_allclose(back_log_slope, -log_slope, atol=1e-9)
    assert (QuantileMap(source, source)(x) == x).all()


@settings(max_examples=20)
@given(two_mixtures, st.sampled_from(["exact", "flow", "inverse"]))
def test_tails_are_straight_continuous_and_as_steep_as_the_end(pair, kind):
    source, target = pair
    if kind == "flow":
        other = GaussianMixture(source.weights, source.means + 0.3, source.precisions * 1.5)
        inner = Flow(source, other, steps=20)
    else:
        inner = QuantileMap(source, target)
    low, high = source.quantile([0.0005, 0.9995]).tolist()
    f = LinearTails(inner, low, high)
    if kind == "inverse":
        f = f.inverse()
        low, high = f.low, f.high
    width = high - low
    for end, sign in ((low, -1.0), (high, 1.0)):
        out = end + sign * width * np.array([0, 1e-9, 1e-3, 0.1, 1, 10, 100])
        slope = np.exp(f.log_det_jacobian(end))
        truth = derivative(f.inner, np.array(end), 1e-4 * width)
        assert slope == pytest.approx(float(truth), rel=1e-5)
        np.testing.assert_allclose(f(out), f(end) + slope * (out - end), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(f.log_det_jacobian(out), np.log(slope), atol=1e-12)
        assert f(end) == f.inner(end)
        assert f(end - sign * 1e-9 * width) == pytest.approx(float(f(end)), abs=1e-6)
    inside = np.linspace(low, high, 50)
    assert (f(inside) == f.inner(inside)).all()
    np.testing.assert_array_equal(f.log_det_jacobian(inside), f.inner.log_det_jacobian(inside))
    if kind == "exact":
        x = np.concatenate([inside, [low - 100 * width, high + 100 * width]])
        assert (np.abs(f.inverse()(f(x)) - x) <= 1e-10 * np.maximum(width, np.abs(x))).all()
