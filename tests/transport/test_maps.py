"""The interface of every map; alignment, straight lines between points, and chains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture
from scipy import interpolate

from ndflow import Affine, Chain, GaussianMixture, InvalidValueError
from ndflow.transport import Flow, LinearTails, PiecewiseLinear, QuantileMap, align, tabulate
from ndflow.transport.maps import Channelwise

seeds = st.integers(0, 10**6)


def one_of_each():
    """A map of every kind, of one channel."""
    generator = np.random.default_rng(0)
    source, target = (random_mixture(generator, 3) for _ in range(2))
    elsewhere = GaussianMixture(source.weights, source.means + 0.2, 2 * source.precisions)
    exact = QuantileMap(source, target)
    table = tabulate(exact, -2.0, 2.0)
    return [
        Affine(2.0, 1.0),
        Flow(source, elsewhere),
        exact,
        LinearTails(exact, -1.0, 1.0),
        table,
        table.inverse(),
        PiecewiseLinear([-1.5, 0.3, 1.0], [-2.0, 0.0, 3.0]),
        Chain((Affine(0.5, 0.1), table)),
    ]


@pytest.mark.parametrize("f", one_of_each(), ids=lambda f: type(f).__name__)
def test_every_map_has_the_whole_interface(f):
    x = np.linspace(-1.9, 1.9, 60).reshape(3, 4, 5)
    assert f.channels == 1
    # The shape of the points is kept, also if it is (n, 1), () or empty.
    for shaped in (x, x.ravel(), x.reshape(-1, 1), x[0, 0, 0], x[:0]):
        assert f(shaped).shape == np.shape(shaped)
    np.testing.assert_array_equal(f(x).ravel(), f(x.ravel()))
    # Increasing, and as steep as it says.
    assert (np.diff(f(x.ravel())) > 0).all()
    slope = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.exp(f.log_det_jacobian(x)), slope, rtol=1e-4)
    np.testing.assert_array_equal(f.with_log_det_jacobian(x)[0], f(x))
    # The inverse undoes it, both ways.
    np.testing.assert_allclose((~f)(f(x)), x, atol=1e-6)
    np.testing.assert_allclose(f(f.inverse()(x)), x, atol=1e-6)
    np.testing.assert_allclose(
        f.inverse().log_det_jacobian(f(x)), -f.log_det_jacobian(x), atol=1e-5
    )
    # It is finite far out, and so is its inverse.
    far = np.array([-200.0, -30.0, 30.0, 200.0])
    for g in (f, f.inverse()):
        assert np.isfinite(g(far)).all()
        assert (np.diff(g(far)) > 0).all()
        assert np.isfinite(g.log_det_jacobian(far)).all()


# ── chains, and maps side by side ────────────────────────────────────────────────────────────────


def test_a_chain_goes_from_left_to_right_and_follows_the_points():
    shear, scale = Affine([[1.0, 1.0], [0.0, 1.0]], [0.0, 0.0]), Affine(np.diag([2.0, 3.0]), [1, 1])
    chain = Chain((shear, scale))
    assert scale @ shear == chain
    assert Chain((shear, Chain((scale, shear)))) == Chain((chain, shear))  # unrolled
    assert chain([[1.0, 2.0]]).tolist() == [[7.0, 7.0]]
    np.testing.assert_allclose(chain.log_det_jacobian([[1.0, 2.0]]), np.log(6))
    np.testing.assert_allclose(chain.inverse()([[7.0, 7.0]]), [[1.0, 2.0]])


def test_each_channel_goes_through_its_own_map():
    bent = PiecewiseLinear([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0])
    both = Channelwise((bent, Affine(3.0, 1.0)))
    x = np.random.default_rng(0).uniform(-1, 4, size=(20, 2))
    np.testing.assert_array_equal(both(x), np.column_stack([bent(x[:, 0]), 3 * x[:, 1] + 1]))
    expected = bent.log_det_jacobian(x[:, 0]) + np.log(3)
    np.testing.assert_allclose(both.log_det_jacobian(x), expected)
    np.testing.assert_allclose(both.inverse()(both(x)), x, atol=1e-12)


# ── alignment ────────────────────────────────────────────────────────────────────────────────────


@given(mixtures(spread=10.0), seeds)
def test_alignment_gives_the_moments_of_a_target_to_each_channel(source, seed):
    d = source.channels
    target = random_mixture(np.random.default_rng(seed), 4, d)
    goals = ((None, np.zeros(d), np.ones(d)),
             (target, target.mean(), np.diagonal(target.covariance())))  # fmt: skip
    for to, mean, variances in goals:
        affine = align(source, to)
        aligned = moved(source, affine)
        np.testing.assert_allclose(aligned.mean(), mean, atol=1e-11)
        np.testing.assert_allclose(np.diagonal(aligned.covariance()), variances, rtol=1e-11)
        assert (affine.matrix == np.diag(np.diagonal(affine.matrix))).all()  # channels stay apart


def test_an_affine_map_mixes_channels_and_may_turn_a_contrast_round():
    f = Affine([[1.0, 2.0], [0.0, 3.0]], [10.0, 20.0])
    assert f([[1.0, 1.0], [0.0, 2.0]]).tolist() == [[13.0, 23.0], [14.0, 26.0]]
    np.testing.assert_allclose(f.log_det_jacobian([[1.0, 1.0], [0.0, 2.0]]), np.log(3))
    np.testing.assert_allclose(f.inverse()([[13.0, 23.0]]), [[1.0, 1.0]])
    turned = Affine(-2.0, 1.0)
    assert turned.inverse()(turned([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert turned.log_det_jacobian(0.0) == np.log(2)  # of |det|


def test_channels_that_do_not_fit_are_refused():
    one, two = (random_mixture(np.random.default_rng(0), 2, d) for d in (1, 2))
    with pytest.raises(InvalidValueError, match="source has 2 channels, not 1"):
        align(two, one)
    with pytest.raises(InvalidValueError, match="the last axis must hold 2 channels"):
        Affine(np.eye(2), np.zeros(2))(np.zeros((5, 3)))
    with pytest.raises(InvalidValueError, match="one map of one channel"):
        Channelwise((Affine(np.eye(2), np.zeros(2)),))


# ── straight lines between points ────────────────────────────────────────────────────────────────


@given(seeds, st.floats(0, 3))
def test_lines_are_those_of_scipy_extrapolated_and_can_be_undone(seed, wildness):
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 30))
    steps = np.exp(wildness * generator.standard_normal((2, size)))  # over orders of magnitude
    knots, values = np.cumsum(steps, axis=1) + generator.normal(0, 10, (2, 1))
    imap, back = PiecewiseLinear(knots, values), PiecewiseLinear(values, knots)
    reach = knots[-1] - knots[0]
    x = np.sort(generator.uniform(knots[0] - reach, knots[-1] + reach, 500))
    expected = interpolate.make_interp_spline(knots, values, k=1)
    largest = np.abs(expected(x)).max()
    np.testing.assert_allclose(imap(x), expected(x), rtol=1e-9, atol=1e-12 * largest)
    np.testing.assert_allclose(
        np.exp(imap.log_det_jacobian(x)), expected(x, 1), rtol=1e-9, atol=1e-12
    )
    assert imap.inverse() == back
    np.testing.assert_allclose(back(imap(x)), x, rtol=1e-8, atol=1e-8)
