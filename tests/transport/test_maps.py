"""The interface of every map, and chains of maps."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture

from ndflow import Affine, Chain, GaussianMixture, IntensityMap, InvalidValueError
from ndflow.transport import Flow, LinearTails, PiecewiseLinear, QuantileMap, tabulate


def one_of_each(seed=0):
    """A map of every kind, of one channel."""
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 3) for _ in range(2))
    moved = GaussianMixture(source.weights, source.means + 0.2, 2 * source.precisions)
    exact = QuantileMap(source, target)
    table = tabulate(exact, -2.0, 2.0)
    return [
        Affine(2.0, 1.0),
        Flow(source, moved),
        exact,
        LinearTails(exact, -1.0, 1.0),
        table,
        table.inverse(),
        PiecewiseLinear([-1.5, 0.3, 1.0], [-2.0, 0.0, 3.0]),
        Chain((Affine(0.5, 0.1), table)),
    ]


KINDS = [type(kind).__name__ for kind in one_of_each()]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_every_map_has_the_whole_interface(kind):
    f = one_of_each()[kind]
    x = np.linspace(-1.9, 1.9, 60).reshape(3, 4, 5)
    assert f.channels == 1
    # The shape of the points is kept, also if it is (n, 1) or ().
    for shaped in (x, x.ravel(), x.reshape(-1, 1), x[0, 0, 0]):
        assert f(shaped).shape == np.shape(shaped)
    np.testing.assert_array_equal(f(x).ravel(), f(x.ravel()))
    # Increasing, and as steep as it says.
    assert (np.diff(f(x.ravel())) > 0).all()
    slope = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.exp(f.log_det_jacobian(x)), slope, rtol=1e-4)
    # Both at once is the same as one after the other.
    both = f.with_log_det_jacobian(x)
    np.testing.assert_array_equal(both[0], f(x))
    np.testing.assert_array_equal(both[1], f.log_det_jacobian(x))
    # The inverse undoes it, both ways.
    np.testing.assert_allclose((~f)(f(x)), x, atol=1e-6)
    np.testing.assert_allclose(f(f.inverse()(x)), x, atol=1e-6)
    np.testing.assert_allclose(f.inverse().inverse()(x), f(x), atol=1e-9)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_every_map_survives_json(kind):
    f = one_of_each()[kind]
    again = IntensityMap.from_dict(json.loads(json.dumps(f.to_dict())))
    assert again == f
    assert type(again) is type(f)
    x = np.linspace(-3, 3, 50)
    assert again(x).tobytes() == f(x).tobytes()


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_every_map_is_finite_200_sd_out(kind):
    f = one_of_each()[kind]
    x = np.array([-200.0, -30.0, 30.0, 200.0])
    for g in (f, f.inverse()):
        assert np.isfinite(g(x)).all()
        assert (np.diff(g(x)) > 0).all()
        assert np.isfinite(g.log_det_jacobian(x)).all()


def test_a_chain_goes_from_left_to_right():
    double, increment = Affine(2.0, 0.0), Affine(1.0, 1.0)
    assert Chain((double, increment))(3.0) == 7.0
    assert Chain((increment, double))(3.0) == 8.0


@given(st.tuples(mixtures(1), mixtures(1), mixtures(1)))
def test_a_chain_adds_log_jacobians_and_inverts_in_the_opposite_order(three):
    one, two, other = three
    there, onwards = QuantileMap(one, two), QuantileMap(two, other)
    chain = onwards @ there
    assert chain == Chain((there, onwards))
    x = one.quantile(np.linspace(0.001, 0.999, 41))
    np.testing.assert_allclose(chain(x), onwards(there(x)), rtol=1e-15)
    # From one to two to another is, on a line, from one to the other.
    np.testing.assert_allclose(chain(x), QuantileMap(one, other)(x), atol=1e-9)
    np.testing.assert_allclose(
        chain.log_det_jacobian(x), QuantileMap(one, other).log_det_jacobian(x), atol=1e-7
    )
    np.testing.assert_allclose(chain.inverse()(chain(x)), x, atol=1e-9)


def test_a_chain_in_several_channels_follows_the_points():
    shear, scale = Affine([[1.0, 1.0], [0.0, 1.0]], [0.0, 0.0]), Affine(np.diag([2.0, 3.0]), [1, 1])
    chain = Chain((shear, scale))
    assert chain.channels == 2
    assert chain([[1.0, 2.0]]).tolist() == [[7.0, 7.0]]
    np.testing.assert_allclose(chain.log_det_jacobian([[1.0, 2.0]]), np.log(6))
    np.testing.assert_allclose(chain.inverse()([[7.0, 7.0]]), [[1.0, 2.0]])


def test_chains_within_chains_are_unrolled():
    a, b, c = Affine(2.0, 0.0), Affine(1.0, 1.0), Affine(3.0, 0.0)
    assert Chain((Chain((a, b)), c)) == Chain((a, Chain((b, c)))) == Chain((a, b, c))
    assert len(Chain((Chain((a, Chain((b,)))), c)).maps) == 3


def test_what_is_no_chain_is_refused():
    with pytest.raises(InvalidValueError, match="at least one map"):
        Chain(())
    with pytest.raises(InvalidValueError, match="maps must be"):
        Chain((lambda x: x,))
    with pytest.raises(InvalidValueError, match="the same number of channels"):
        Chain((Affine(1.0, 0.0), Affine(np.eye(2), np.zeros(2))))
