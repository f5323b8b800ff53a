"""Proportions chosen for a scan: against brute force, and where the truth is known."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures
from numpy.typing import NDArray
from scipy import optimize, stats

from ndflow import GaussianMixture
from ndflow.population.tissues import TissueModel, adapted_proportions

MEAN = np.array([0.2, 0.45, 0.35])
COVARIANCE = np.array([[25.0, -10, -15], [-10, 16, -6], [-15, -6, 21]]) * 1e-4
MODEL = TissueModel(
    (
        GaussianMixture([0.6, 0.4], [-2.2, -1.6], [0.4**-2, 0.5**-2]),
        GaussianMixture([1.0], [-0.1], [0.35**-2]),
        GaussianMixture([1.0], [1.0], [0.22**-2]),
    ),
    MEAN,
    COVARIANCE,
)
LEVELS = (np.arange(199) + 0.5) / 199
GRID = np.linspace(-6, 4, 40_001)
BELOW = np.array(
    [
        stats.norm.cdf(GRID[:, np.newaxis], p.means[:, 0], p.precisions[:, 0, 0] ** -0.5)
        @ p.weights
        for p in MODEL.densities
    ]
)


def somebody(shares: NDArray[np.float64], bend: float = 0.0) -> GaussianMixture:
    """A scan with these proportions, in units of its own; its GM may be shifted."""
    target = MODEL.target(shares)
    means = target.means + bend * (np.abs(target.means + 0.1) < 0.01)
    return GaussianMixture(target.weights, means, target.precisions).transformed(180.0, 700.0)


def objective(free: NDArray[np.float64], scan: GaussianMixture, strength: float) -> float:
    """Equation (1), with quantiles from a table and the best line from least squares."""
    shares = np.array([*free, 1 - sum(free)])
    if (shares < 0.02).any():
        return np.inf
    y = np.interp(LEVELS, shares @ BELOW, GRID)
    line = np.polynomial.Polynomial.fit(scan.quantile(LEVELS), y, 1)
    residual = y - line(scan.quantile(LEVELS))
    off = shares - MEAN
    return float(residual.var() / y.var() + strength * off @ np.linalg.pinv(COVARIANCE) @ off)


SCANS = {
    "much fluid": somebody(np.array([0.32, 0.4, 0.28])),
    "little fluid": somebody(np.array([0.1, 0.5, 0.4])),
    "dark grey matter": somebody(np.array([0.25, 0.4, 0.35]), -0.15),
    "bright grey matter": somebody(np.array([0.15, 0.5, 0.35]), 0.2),
    "one Gaussian": GaussianMixture([1.0], [900.0], [200.0**-2]),
}


@pytest.mark.parametrize("strength", [1e-4, 1e-2])
@pytest.mark.parametrize("scan", SCANS)
def test_no_search_finds_less_than_the_minimum(scan: str, strength: float) -> None:
    found = adapted_proportions(SCANS[scan], MODEL, prior_strength=strength)
    by_hand = partial(objective, scan=SCANS[scan], strength=strength)
    best = optimize.minimize(
        by_hand, MEAN[:2], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-10}
    )
    assert found.before == pytest.approx(by_hand(MEAN[:2]), rel=1e-4, abs=1e-8)
    assert found.after == pytest.approx(by_hand(found.proportions[:2]), rel=1e-4, abs=1e-8)
    assert found.after == pytest.approx(best.fun, rel=1e-3, abs=1e-7)
    np.testing.assert_allclose(found.proportions[:2], best.x, atol=2e-3)


@settings(max_examples=15)
@given(st.tuples(st.floats(-0.1, 0.12), st.floats(-0.1, 0.1)))
def test_known_proportions_are_recovered_where_contrast_is_not_in_doubt(
    off: tuple[float, float],
) -> None:
    shares = MEAN + np.array([off[0], off[1] - off[0] / 2, -off[1] - off[0] / 2])
    found = adapted_proportions(somebody(shares), MODEL, prior_strength=1e-7)
    np.testing.assert_allclose(found.proportions, shares, atol=2e-3)
    assert found.after < 1e-5


def test_where_proportions_vary_in_one_direction_only_so_do_those_of_a_scan() -> None:
    way = np.array([2.0, -1.0, -1.0])
    model = TissueModel(MODEL.densities, MEAN, np.outer(way, way) * 0.03**2)
    off = adapted_proportions(
        somebody(np.array([0.32, 0.45, 0.23])), model, prior_strength=0.01
    ).proportions
    off = off - MEAN
    along = float(off @ way / np.sqrt(way @ way))
    assert along > 0.05
    assert np.linalg.norm(off) == pytest.approx(along, abs=0.005)


@settings(max_examples=20)
@given(mixtures(1, most=5, spread=2.0), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_any_scan_in_any_units_gets_proportions_that_are_no_worse(
    scan: GaussianMixture, slope: float, offset: float
) -> None:
    found = adapted_proportions(scan, MODEL)
    assert found.after <= found.before
    assert found.proportions.sum() == pytest.approx(1, abs=1e-12)
    assert (found.proportions >= 0.02 - 1e-12).all()
    other = adapted_proportions(scan.transformed(slope, offset), MODEL)
    np.testing.assert_allclose(other.proportions, found.proportions, atol=1e-3)
    assert other.before == pytest.approx(found.before, rel=1e-6)


def test_a_scan_like_the_mean_keeps_the_mean() -> None:
    for bend in (0.002, -0.002):  # which proportions do not explain
        found = adapted_proportions(somebody(MEAN, bend), MODEL)
        np.testing.assert_allclose(found.proportions, MEAN, atol=1e-5)
        assert not found.clear


def test_a_strong_prior_gives_the_mean_and_says_that_nothing_was_gained() -> None:
    found = adapted_proportions(SCANS["much fluid"], MODEL, prior_strength=1e3)
    np.testing.assert_allclose(found.proportions, MEAN, atol=1e-4)
    assert not found.clear
