"""Pushforwards of densities: against closed forms, scipy and another density."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture
from scipy import stats

from ndflow import Affine, Chain, GaussianMixture
from ndflow.population import pushforward
from ndflow.population.averaging import Pushforward
from ndflow.transport import PiecewiseLinear, QuantileMap, align

GRID = np.linspace(-4, 4, 801)
SCORES = np.linspace(-4, 4, 81)
NOISE = 3e4**-0.5  # of so many points, which is what a fit is told that it sees


def apart(one: GaussianMixture, other: GaussianMixture | Pushforward) -> float:
    """The largest difference of two distribution functions (Kolmogorov)."""
    return float(np.abs(one.cdf(GRID) - other.cdf(GRID)).max())


# ── exactly ──────────────────────────────────────────────────────────────────────────────────────


@given(mixtures(1), st.floats(0.01, 100), st.floats(-1000, 1000))
def test_an_affine_map_moves_a_density_like_a_change_of_units(
    mixture: GaussianMixture, slope: float, offset: float
) -> None:
    density = Pushforward(mixture, Affine(slope, offset))
    expected = mixture.transformed(slope, offset)
    at = expected.from_normal_score(SCORES)
    np.testing.assert_allclose(density.cdf(at), expected.cdf(at), atol=1e-12)
    np.testing.assert_allclose(density.from_normal_score(SCORES), at, atol=1e-9 * slope + 1e-12)
    assert (density.channels, density.components) == (1, mixture.components)


@given(mixtures(1), mixtures(1))
def test_the_map_from_one_density_to_another_gives_the_other(
    source: GaussianMixture, target: GaussianMixture
) -> None:
    density = Pushforward(source, QuantileMap(source, target))
    at = target.from_normal_score(SCORES)
    np.testing.assert_allclose(density.cdf(at), target.cdf(at), atol=1e-9)
    np.testing.assert_allclose(density.from_normal_score(SCORES), at, atol=1e-6)


def test_a_bent_line_moves_a_gaussian_as_scipy_says() -> None:
    knots, values = np.array([-1.0, 0.0, 2.0]), np.array([-3.0, 0.0, 1.0])
    density = Pushforward(GaussianMixture([1.0], [0.3], [4.0]), PiecewiseLinear(knots, values))
    y = np.linspace(-2.9, 0.9, 50)
    expected = stats.norm(0.3, 0.5).cdf(np.interp(y, values, knots))
    np.testing.assert_allclose(density.cdf(y), expected, atol=1e-12)
    scores = stats.norm.ppf([0.05, 0.3, 0.5, 0.9])
    expected = np.interp(stats.norm(0.3, 0.5).ppf([0.05, 0.3, 0.5, 0.9]), knots, values)
    np.testing.assert_allclose(density.from_normal_score(scores), expected, atol=1e-12)


# ── as a mixture ─────────────────────────────────────────────────────────────────────────────────


def test_the_moments_are_those_of_the_moved_points() -> None:
    mixture = random_mixture(np.random.default_rng(7), 3)
    bend = PiecewiseLinear(np.array([-2.0, 0.0, 2.0]), np.array([-1.5, 0.2, 1.0]))
    imap = Chain((align(mixture), bend))
    points = imap(mixture.quantile((np.arange(20_000) + 0.5) / 20_000))
    found = pushforward(mixture, imap)
    assert found.mean()[0] == pytest.approx(points.mean(), abs=0.002)
    assert np.sqrt(found.covariance()[0, 0]) == pytest.approx(points.std(), rel=0.005)


@pytest.mark.parametrize("seed", range(4))
def test_a_mixture_moved_to_another_is_like_the_other(seed: int) -> None:
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 3) for _ in range(2))
    target = moved(target, align(target))
    assert apart(pushforward(source, QuantileMap(source, target)), target) < NOISE
    assert apart(moved(source, align(source)), target) > 0.01  # alignment alone is not enough


def test_units_of_the_source_change_nothing() -> None:
    mixture = random_mixture(np.random.default_rng(3), 3)
    target = moved(mixture, align(mixture))
    for slope, offset in ((1.0, 0.0), (317.0, -20.0), (1e-4, 3.0)):
        scaled = mixture.transformed(slope, offset)
        assert (
            apart(pushforward(scaled, align(scaled)), pushforward(mixture, align(mixture))) < 1e-6
        )
        assert apart(pushforward(scaled, QuantileMap(scaled, target)), target) < NOISE
