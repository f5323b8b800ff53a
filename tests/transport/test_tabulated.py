"""Tables: monotone always, exact at the knots, as close as promised between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mixtures import mixtures, regularised_match
from scipy import interpolate

from ndflow import Affine, Chain, GaussianMixture, InvalidValueError
from ndflow.transport import QuantileMap, Tabulated, tabulate

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


def within(table, generator, size=2000):
    """Sorted points over the table and beyond it."""
    low, high = table.knots[[0, -1]]
    return np.sort(generator.uniform(low - (high - low), high + (high - low), size))


def bimodal(sd):
    """Two tissues at −1 and 1: the wider apart, the steeper a map to it in the middle."""
    return GaussianMixture([0.5, 0.5], [-1.0, 1.0], [sd**-2, sd**-2])


STANDARD = GaussianMixture([1.0], [0.0], [1.0])

# Interpolation.


@given(seeds, st.floats(0, 3))
def test_it_is_the_cubic_hermite_spline_of_scipy(seed, wildness):
    table = random_table(seed, wildness)
    spline = interpolate.CubicHermiteSpline(table.knots, table.values, table.slopes)
    x = np.random.default_rng(seed).uniform(table.knots[0], table.knots[-1], 500)
    size = np.abs(table.values).max()
    np.testing.assert_allclose(table(x), spline(x), rtol=1e-12, atol=1e-12 * size)
    slope = np.exp(table.log_det_jacobian(x))
    np.testing.assert_allclose(slope, spline(x, 1), rtol=1e-6, atol=1e-10 * slope.max())


@given(seeds)
def test_with_the_slopes_of_pchip_it_is_pchip(seed):
    generator = np.random.default_rng(seed)
    knots = np.linspace(-1, 1, 15)
    values = np.append(0, np.cumsum(generator.uniform(0.7, 1.3, 14)))
    pchip = interpolate.PchipInterpolator(knots, values)
    x = generator.uniform(-1, 1, 300)
    np.testing.assert_allclose(Tabulated(knots, values, pchip(knots, 1))(x), pchip(x), atol=1e-12)


@given(seeds, st.floats(0, 3))
def test_at_the_knots_it_has_their_values_and_slopes(seed, wildness):
    table = random_table(seed, wildness)
    np.testing.assert_allclose(table(table.knots), table.values, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(
        table.log_det_jacobian(table.knots), np.log(table.slopes), rtol=1e-8, atol=1e-8
    )


@given(seeds, st.floats(0, 3))
def test_it_is_increasing_everywhere(seed, wildness):
    table = random_table(seed, wildness)
    x = within(table, np.random.default_rng(seed))
    y = table(x)
    rounding = 4e-16 * np.abs(y).max()
    assert (np.diff(y) >= -rounding).all()
    assert (np.exp(table.log_det_jacobian(x)) > 0).all()


@given(seeds)
def test_beyond_its_ends_it_continues_straight(seed):
    table = random_table(seed)
    width = table.knots[-1] - table.knots[0]
    for end, sign in ((0, -1.0), (-1, 1.0)):
        x = table.knots[end] + sign * width * np.array([0, 1e-6, 0.1, 1, 1000])
        straight = table.values[end] + table.slopes[end] * (x - table.knots[end])
        np.testing.assert_allclose(table(x), straight, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(table.log_det_jacobian(x), np.log(table.slopes[end]), atol=1e-8)
        back = table.inverse()(straight)
        np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9 * width)


@given(seeds, st.floats(0, 2))
def test_the_inverse_is_exact_to_1e_12(seed, wildness):
    table = random_table(seed, wildness)
    back = table.inverse()
    y = np.random.default_rng(seed).uniform(table.values[0] - 1, table.values[-1] + 1, 500)
    np.testing.assert_allclose(table(back(y)), y, rtol=1e-12, atol=1e-12)
    assert (np.diff(back(np.sort(y))) >= 0).all()
    np.testing.assert_allclose(back(table.values), table.knots, rtol=1e-9, atol=1e-9)
    assert back.inverse() is table


@given(seeds)
def test_the_inverse_undoes_a_map_of_moderate_slope_to_1e_12(seed):
    generator = np.random.default_rng(seed)
    knots = np.linspace(-1, 1, 30)
    secants = generator.uniform(0.7, 1.3, 29)
    values = np.append(0, np.cumsum(secants * np.diff(knots)))
    table = Tabulated(knots, values, generator.uniform(0.7, 1.3, 30))
    x = generator.uniform(-2, 2, 500)
    back = table.inverse()
    np.testing.assert_allclose(back(table(x)), x, atol=1e-12)
    np.testing.assert_allclose(
        back.log_det_jacobian(table(x)), -table.log_det_jacobian(x), atol=1e-10
    )


@pytest.mark.parametrize(
    ("knots", "values", "slopes", "message"),
    [
        ([0, 1, 1], [0, 1, 2], [1, 1, 1], "knots must be strictly increasing"),
        ([0, 1, 2], [0, 2, 1], [1, 1, 1], "values must be strictly increasing"),
        ([0, 1, 2], [0, 1, 2], [1, 0, 1], "slopes must be positive"),
        ([0, 1, 2], [0, 1, 2], [1, -1, 1], "slopes must be positive"),
        ([0, 1, 2], [0, 1, 2], [1, 3.1, 1], "slopes must not be so steep"),
        ([0, 1, np.nan], [0, 1, 2], [1, 1, 1], "knots must be finite"),
        ([0, 1, 2], [0, 1, np.inf], [1, 1, 1], "values must be finite"),
        ([0, 1, 2], [0, 1, 2], [1, 1], r"slopes must have the shape \(3\)"),
        ([0, 1, 2], [0, 1], [1, 1, 1], r"values must have the shape \(3\)"),
        ([0], [0], [1], "knots must number between 2 and"),
        ([[0, 1]], [0, 1], [1, 1], r"knots must have the shape \(any\)"),
        ([0, 1], ["a", "b"], [1, 1], "values must be an array of real numbers"),
    ],
)
def test_an_invalid_table_is_refused_with_what_is_wrong(knots, values, slopes, message):
    with pytest.raises(InvalidValueError, match=message):
        Tabulated(knots, values, slopes)


# Making tables.


def test_it_starts_with_200_points():
    assert tabulate(Affine(2.0, 1.0), 0.0, 10.0).knots.size == 200
    assert tabulate(Affine(2.0, 1.0), 0.0, 10.0, points=7).knots.size == 7


@given(seeds)
def test_the_table_of_a_match_is_within_the_tolerance(seed):
    generator = np.random.default_rng(seed)
    result = regularised_match(generator)
    exact = QuantileMap(result.source, result.matched)
    low, high = result.source.quantile([0.0005, 0.9995])
    table = tabulate(exact, low, high)
    x = generator.uniform(low, high, 2000)
    assert np.abs(table(x) - exact(x)).max() <= 1e-4
    np.testing.assert_allclose(table.values, exact(table.knots), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(table.log_det_jacobian(table.knots), np.log(table.slopes), atol=1e-8)
    # The ends of the range are knots.
    assert table.knots[0] == low
    assert table.knots[-1] == high


@pytest.mark.parametrize("sd", [0.4, 0.3, 0.2, 0.15])
@pytest.mark.parametrize("low", [-3.0, -3.1], ids=["symmetric", "skewed"])
def test_a_sharp_map_gets_more_points_where_it_is_sharp(sd, low):
    # The symmetric range is a trap: the step lies in the middle of an interval, where a table
    # that misses it on both sides is right by symmetry.
    exact = QuantileMap(STANDARD, bimodal(sd))
    x = np.concatenate(
        [np.random.default_rng(0).uniform(low, 3, 20_000), np.linspace(-0.1, 0.1, 20_001)]
    )

    def error(table):
        return np.abs(table(x) - exact(x)).max()

    coarse = tabulate(exact, low, 3.0, tolerance=1e9)
    assert coarse.knots.size == 200
    assert error(coarse) > 1e-4
    fine = tabulate(exact, low, 3.0)
    assert 200 < fine.knots.size < 1000
    assert error(fine) <= 1e-4
    finer = tabulate(exact, low, 3.0, tolerance=1e-6)
    assert finer.knots.size > fine.knots.size
    assert error(finer) <= 1e-6


@pytest.mark.parametrize("sd", [0.12, 0.1, 0.05, 0.02, 0.01])
def test_strongly_separated_components_still_give_an_increasing_table(sd):
    # Between two far tissues the distribution function is flat but for the last digits, so the map
    # there jumps one way, and is constant the other.
    for source, target, reach in ((STANDARD, bimodal(sd), 3.0), (bimodal(sd), STANDARD, 1.2)):
        exact = QuantileMap(source, target)
        table = tabulate(exact, -reach, reach)
        x = np.sort(np.random.default_rng(0).uniform(-reach, reach, 5000))
        assert (np.diff(table(x)) >= 0).all()
        dense = np.abs(x) > 0.5 if source is not STANDARD else np.abs(x) > 0.05
        assert np.abs(table(x) - exact(x))[dense].max() <= 1e-4


@settings(max_examples=20)
@given(st.tuples(mixtures(1, spread=3.0), mixtures(1, spread=3.0)))
def test_any_map_between_densities_has_an_increasing_table(pair):
    exact = QuantileMap(*pair)
    low, high = pair[0].quantile([0.0005, 0.9995])
    table = tabulate(exact, low, high)
    x = np.linspace(low - 1, high + 1, 3000)
    assert (np.diff(table(x)) > 0).all()


@given(
    hnp.arrays(float, 12, elements=st.floats(1e-3, 1e3)),
    hnp.arrays(float, 12, elements=st.floats(1e-3, 1e3)),
)
def test_wild_slopes_are_tamed(widths, steps):
    # A chain of a table and another: increasing data whose slopes are too steep for a coarse table.
    knots, values = np.append(0, np.cumsum(widths)), np.append(0, np.cumsum(steps))
    secants = steps / widths
    slopes = np.minimum(np.append(secants, np.inf), np.append(np.inf, secants))
    imap = Chain((Tabulated(knots, values, slopes), Affine(2.0, -1.0)))
    table = tabulate(imap, -1.0, knots[-1] + 1.0, points=5, tolerance=1e9)
    x = np.linspace(-2, knots[-1] + 2, 4000)
    assert (np.diff(table(x)) > -1e-15 * np.abs(table(x)).max()).all()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1.0, 1.0), {}, "low must be less than high"),
        ((0.0, np.inf), {}, "low must be less than high"),
        ((0.0, 1.0), {"points": 1}, "points must lie between 2 and"),
        ((0.0, 1.0), {"tolerance": 0.0}, "tolerance must be a positive number"),
    ],
)
def test_bad_options_are_refused_by_name(arguments, options, message):
    with pytest.raises(InvalidValueError, match=message):
        tabulate(Affine(1.0, 0.0), *arguments, **options)


def test_several_channels_cannot_be_tabulated():
    plane = Affine(np.eye(2), np.zeros(2))
    with pytest.raises(
        InvalidValueError, match="imap must have one channel to be tabulated, not 2"
    ):
        tabulate(plane, 0.0, 1.0)


def test_a_falling_map_cannot_be_tabulated():
    with pytest.raises(InvalidValueError, match="increasing"):
        tabulate(Affine(-1.0, 0.0), 0.0, 1.0)
