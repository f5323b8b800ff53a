"""Tables: monotone always, exact at the knots, as close as promised between them."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mixtures import random_mixture
from scipy import interpolate

from ndflow import Affine, GaussianMixture, InvalidValueError, normalising_map
from ndflow.transport import QuantileMap, Tabulated, linear_interpolant, tabulate
from ndflow.transport.tabulated import smooth_table

STANDARD = GaussianMixture([1.0], [0.0], [1.0])
seeds = st.integers(0, 10**6)


def random_table(seed, wildness=1.0):
    """A table with cells and secants over orders of magnitude, and slopes up to the limit."""
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 40))
    widths, steps = np.exp(wildness * generator.standard_normal((2, size - 1)))
    secants = steps / widths
    least = np.minimum(np.append(secants, np.inf), np.append(np.inf, secants))
    # A pair within 3/√2 of its secant lies within Fritsch and Carlson's circle.
    slopes = least * generator.uniform(1e-6, 3 / np.sqrt(2), size)
    return Tabulated(np.append(0, np.cumsum(widths)), np.append(0, np.cumsum(steps)) - 1.0, slopes)


def bimodal(sd):
    """Two tissues at −1 and 1: the wider apart, the steeper a map to it in the middle."""
    return GaussianMixture([0.5, 0.5], [-1.0, 1.0], [sd**-2, sd**-2])


# ── interpolation ────────────────────────────────────────────────────────────────────────────────


@given(seeds, st.floats(0, 3))
def test_it_is_the_cubic_hermite_spline_of_scipy(seed, wildness):
    table = random_table(seed, wildness)
    spline = interpolate.CubicHermiteSpline(table.knots, table.values, table.slopes)
    x = np.random.default_rng(seed).uniform(table.knots[0], table.knots[-1], 500)
    size = np.abs(table.values).max()
    np.testing.assert_allclose(table(x), spline(x), rtol=1e-12, atol=1e-12 * size)
    slope = np.exp(table.log_det_jacobian(x))
    np.testing.assert_allclose(slope, spline(x, 1), rtol=1e-6, atol=1e-10 * slope.max())


@given(seeds, st.floats(0, 3))
def test_it_is_increasing_everywhere_and_straight_beyond_its_ends(seed, wildness):
    table = random_table(seed, wildness)
    low, high = table.knots[[0, -1]]
    x = np.sort(np.random.default_rng(seed).uniform(2 * low - high, 2 * high - low, 1000))
    y = table(x)
    assert (np.diff(y) >= -4e-16 * np.abs(y).max()).all()
    for end, sign in ((0, -1.0), (-1, 1.0)):
        x = table.knots[end] + sign * (high - low) * np.array([0, 1e-6, 0.1, 1, 1000])
        straight = table.values[end] + table.slopes[end] * (x - table.knots[end])
        np.testing.assert_allclose(table(x), straight, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(table.log_det_jacobian(x), np.log(table.slopes[end]), atol=1e-8)


@given(seeds, st.floats(0, 2))
def test_the_inverse_is_exact_to_1e_12(seed, wildness):
    table = random_table(seed, wildness)
    back = table.inverse()
    y = np.random.default_rng(seed).uniform(table.values[0] - 1, table.values[-1] + 1, 500)
    np.testing.assert_allclose(table(back(y)), y, rtol=1e-12, atol=1e-12)
    assert (np.diff(back(np.sort(y))) >= 0).all()
    np.testing.assert_allclose(back(table.values), table.knots, rtol=1e-9, atol=1e-9)


@given(seeds, st.floats(0, 3))
def test_slopes_that_are_too_steep_are_reduced_until_the_table_increases(seed, wildness):
    generator = np.random.default_rng(seed)
    knots, values = np.cumsum(np.exp(wildness * generator.standard_normal((2, 12))), axis=1)
    table = smooth_table(knots, values, np.exp(3 * generator.standard_normal(12)))
    x = np.linspace(knots[0], knots[-1], 2000)
    assert (np.diff(table(x)) > -1e-15 * np.abs(table(x)).max()).all()


# ── making tables ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sd", [0.4, 0.15])
@pytest.mark.parametrize("low", [-3.0, -3.1], ids=["symmetric", "skewed"])
def test_a_sharp_map_gets_more_points_where_it_is_sharp(sd, low):
    # The symmetric range is a trap: the step lies in the middle of an interval, where a table
    # that misses it on both sides is right by symmetry.
    exact = QuantileMap(STANDARD, bimodal(sd))
    x = np.concatenate(
        [np.random.default_rng(0).uniform(low, 3, 5000), np.linspace(-0.1, 0.1, 5001)]
    )
    truth = exact(x)
    coarse, fine, finer = (tabulate(exact, low, 3.0, tolerance=t) for t in (1e9, 1e-4, 1e-6))
    assert coarse.knots.size == 200 < fine.knots.size < finer.knots.size < 3000
    assert np.abs(coarse(x) - truth).max() > 1e-4
    assert np.abs(fine(x) - truth).max() <= 1e-4
    assert np.abs(finer(x) - truth).max() <= 1e-6
    np.testing.assert_allclose(fine.values, exact(fine.knots), rtol=1e-14, atol=1e-15)
    assert (fine.knots[0], fine.knots[-1]) == (low, 3.0)


@pytest.mark.parametrize(
    ("imap", "high", "tolerance", "message"),
    [
        (Affine(1.0, 0.0), 0.0, 1.0, "low must be less than high"),
        (Affine(1.0, 0.0), np.inf, 1.0, "low must be less than high"),
        (Affine(1.0, 0.0), 1.0, 0.0, "tolerance must be a positive number"),
        (Affine(-1.0, 0.0), 1.0, 1.0, "increasing"),
        (Affine(np.eye(2), np.zeros(2)), 1.0, 1.0, "imap must have one channel"),
    ],
)
def test_what_cannot_be_tabulated_is_refused(imap, high, tolerance, message):
    with pytest.raises(InvalidValueError, match=message):
        tabulate(imap, 0.0, high, tolerance=tolerance)


# ── linear interpolants ──────────────────────────────────────────────────────────────────────────


@settings(max_examples=15)
@example(0)
@given(seeds)
def test_an_interpolant_is_as_good_as_the_map(seed):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 4, 1) for _ in range(2))
    low, high = source.quantile([0.001, 0.999]).tolist()
    imap = tabulate(normalising_map(source, target), low, high)
    found = linear_interpolant(imap, low - 1, high + 3)
    assert found is not None or seed > 0
    assume(found is not None)  # about one pair in seventy needs too many intervals
    x = generator.uniform(low - 1, high + 3, 5000)
    x[:2] = low - 1, high + 3
    assert np.abs(found(x) - imap(x)).max() <= 1.01 * 2**-25 * abs(np.ptp(imap(x[:2])))


class Corner(Affine):
    """A map with a corner, which no number of intervals can follow well enough."""

    def _mapped(self, x):
        return np.abs(x - 1 / 3) + 2 * x


@pytest.mark.parametrize(
    ("imap", "high"),
    [
        (Corner(1.0, 0.0), 1.0),
        # An outlier leaves the bend too few intervals.
        (Tabulated([0.0, 1.0, 2.0], [0.0, 1.0, 40.0], [0.5, 2.0, 20.0]), 1e5),
        (Affine(1.0, 0.0), -1.0),
        (Affine(1.0, 0.0), np.inf),
        (Affine(1.0, 0.0), np.nan),
    ],
)
def test_there_is_none_if_too_many_intervals_would_be_needed_or_without_a_range(imap, high):
    assert linear_interpolant(imap, -1.0, high) is None
