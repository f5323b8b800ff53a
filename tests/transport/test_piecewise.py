"""Piecewise linear maps: the interface of a map, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import interpolate

from ndflow import Affine, Chain, IntensityMap, InvalidValueError
from ndflow.transport import PiecewiseLinear

seeds = st.integers(0, 10**6)


def random_lines(seed: int, wildness: float = 1.0) -> PiecewiseLinear:
    """Points with steps over orders of magnitude, anywhere."""
    generator = np.random.default_rng(seed)
    size = int(generator.integers(1, 30))
    knots, values = np.cumsum(np.exp(wildness * generator.standard_normal((2, size + 1))), axis=1)
    return PiecewiseLinear(*(part + generator.normal(0, 10) for part in (knots, values)))


def around(imap: PiecewiseLinear, seed: int, size: int = 500) -> np.ndarray:
    """Points between the knots and as far again beyond them."""
    low, high = imap.knots[[0, -1]]
    reach = high - low
    return np.random.default_rng(seed).uniform(low - reach, high + reach, size)


@given(seeds, st.floats(0, 3))
def test_it_is_the_linear_interpolation_of_scipy_extrapolated(seed: int, wildness: float) -> None:
    imap = random_lines(seed, wildness)
    expected = interpolate.make_interp_spline(imap.knots, imap.values, k=1)  # extrapolates
    x = around(imap, seed)
    size = np.abs(expected(x)).max()
    np.testing.assert_allclose(imap(x), expected(x), rtol=1e-9, atol=1e-12 * size)
    np.testing.assert_allclose(imap(imap.knots), imap.values, rtol=1e-12, atol=1e-12 * size)


@given(seeds)
def test_the_log_jacobian_is_that_of_finite_differences(seed: int) -> None:
    imap = random_lines(seed)
    # In the middle of every cell, and in both tails.
    middles = 0.5 * (imap.knots[1:] + imap.knots[:-1])
    x = np.concatenate([[imap.knots[0] - 1.0], middles, [imap.knots[-1] + 1.0]])
    step = 0.1 * np.diff(imap.knots).min()
    slope = (imap(x + step) - imap(x - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(imap.log_det_jacobian(x)), slope, rtol=1e-6)
    both = imap.with_log_det_jacobian(x)
    np.testing.assert_array_equal(both[0], imap(x))
    np.testing.assert_array_equal(both[1], imap.log_det_jacobian(x))


@given(seeds)
def test_beyond_its_ends_it_continues_straight(seed: int) -> None:
    imap = random_lines(seed)
    reach = np.array([0.0, 1e-6, 1.0, 1e3])
    for end, inner, sign in ((0, 1, -1.0), (-1, -2, 1.0)):
        slope = (imap.values[end] - imap.values[inner]) / (imap.knots[end] - imap.knots[inner])
        straight = imap.values[end] + sign * slope * reach
        x = imap.knots[end] + sign * reach
        np.testing.assert_allclose(imap(x), straight, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(imap.log_det_jacobian(x), np.log(slope), atol=1e-9)


@given(seeds, st.floats(0, 3))
def test_the_inverse_undoes_it_both_ways(seed: int, wildness: float) -> None:
    imap = random_lines(seed, wildness)
    back = imap.inverse()
    assert isinstance(back, PiecewiseLinear)
    x = around(imap, seed)
    np.testing.assert_allclose(back(imap(x)), x, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(imap(back(x)), x, rtol=1e-8, atol=1e-8)
    assert back.inverse() == imap
    inside = 0.5 * (imap.knots[1:] + imap.knots[:-1])
    np.testing.assert_allclose(
        back.log_det_jacobian(imap(inside)), -imap.log_det_jacobian(inside), atol=1e-9
    )


@given(seeds, st.floats(0, 3))
def test_it_is_increasing_everywhere(seed: int, wildness: float) -> None:
    imap = random_lines(seed, wildness)
    y = imap(np.sort(around(imap, seed, 2000)))
    assert (np.diff(y) >= -4e-16 * np.abs(y).max()).all()


@pytest.mark.parametrize("shape", [(), (60,), (60, 1), (3, 4, 5), (0,)])
def test_the_shape_of_the_points_stays(shape: tuple[int, ...]) -> None:
    imap = PiecewiseLinear([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])
    x = np.full(shape, 2.0)
    assert imap.channels == 1
    assert imap(x).shape == shape
    np.testing.assert_array_equal(imap(x), 2.5)
    one_a_point = (60,) if shape == (60, 1) else shape
    assert imap.log_det_jacobian(x).shape == one_a_point
    np.testing.assert_allclose(imap.log_det_jacobian(x), np.log(0.5))


def test_two_points_are_a_straight_line_and_chains_may_contain_it() -> None:
    line = PiecewiseLinear([1.0, 3.0], [10.0, 20.0])
    x = np.array([-7.0, 1.0, 2.0, 3.0, 99.0])
    np.testing.assert_allclose(line(x), Affine(5.0, 5.0)(x))
    bent = PiecewiseLinear([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(Chain((bent, line))(x), line(bent(x)))


@given(seeds, st.floats(0, 3))
def test_it_is_the_same_bit_by_bit_after_a_trip_through_json(seed: int, wildness: float) -> None:
    imap = random_lines(seed, wildness)
    again = IntensityMap.from_dict(json.loads(json.dumps(imap.to_dict())))
    assert type(again) is PiecewiseLinear
    assert again == imap
    x = around(imap, seed)
    assert again(x).tobytes() == imap(x).tobytes()


def test_its_points_cannot_be_changed() -> None:
    given_knots = np.array([0.0, 1.0])
    imap = PiecewiseLinear(given_knots, [0.0, 2.0])
    given_knots[1] = 100.0
    assert imap(1.0) == 2.0
    with pytest.raises(ValueError, match="read-only"):
        imap.knots[0] = 5.0


@pytest.mark.parametrize(
    ("knots", "values", "message"),
    [
        ([0, 1, 1], [0, 1, 2], "knots must be strictly increasing"),
        ([0, 2, 1], [0, 1, 2], "knots must be strictly increasing"),
        ([0, 1, 2], [0, 1, 1], "values must be strictly increasing"),
        ([0, 1, 2], [2, 1, 0], "values must be strictly increasing"),
        ([0, 1, np.nan], [0, 1, 2], "knots must be finite"),
        ([0, 1, 2], [0, 1, np.inf], "values must be finite"),
        ([0, 1, 2], [0, 1], r"values must have the shape \(3\)"),
        ([0], [0], "knots must number between 2 and .*, not 1"),
        ([], [], "knots must number between 2 and .*, not 0"),
        ([[0, 1]], [0, 1], r"knots must have the shape \(any\)"),
        ([0, 1], ["a", "b"], "values must be an array of real numbers"),
        ([-1e200, 1e200], [0, 1], "knots must be .*within"),
        ([0, 1], [0, 1e151], "values must be .*within"),
        ([0, 1e-120], [0, 1], "slopes from knots to values must lie"),
        ([0, 1], [0, 1e-120], "slopes from knots to values must lie"),
        ([0, 5e-324], [0, 1e149], "slopes from knots to values must lie"),
        ([0, 1e149], [0, 5e-324], "slopes from knots to values must lie"),
    ],
)
def test_points_that_make_no_map_are_refused_with_what_is_wrong(
    knots: list[float], values: list[float], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        PiecewiseLinear(knots, values)
