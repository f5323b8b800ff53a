"""Estimated proportions: against draws from the model, quadrature and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures
from scipy import integrate, stats

from ndflow import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.population import TissueModel, estimated_proportions
from ndflow.population import proportions as module
from ndflow.population.proportions import (
    OF_ANY,
    OF_SITE,
    Estimate,
    Variation,
    model_of_site,
    tissue_intervals,
    variation_of,
)

MEAN = np.array([0.2, 0.45, 0.35])
COVARIANCE = np.array([[25.0, -10, -15], [-10, 16, -6], [-15, -6, 21]]) * 4e-5
TISSUES = (
    GaussianMixture([0.6, 0.4], [-2.0, -1.2], [0.5**-2, 0.5**-2]),
    GaussianMixture([1.0], [-0.2], [0.5**-2]),
    GaussianMixture([1.0], [0.9], [0.35**-2]),
)
MODEL = TissueModel(TISSUES, MEAN, COVARIANCE)
POPULATION = module._Population(MODEL)
USUAL = POPULATION.model.target(MEAN).quantile(QUANTILE_LEVELS)  # in standard units


def scored(quantiles):
    """Means of four neighbours each, z-scored."""
    return stats.zscore([part.mean() for part in np.split(quantiles, range(4, quantiles.size, 4))])


def people(n, variation, seed=0, differ=1.0):
    """Draw proportions, and the quantiles of scans by equation (1), in units of their own."""
    generator = np.random.default_rng(seed)
    shares = MEAN + differ * generator.standard_normal((n, 2)) @ POPULATION.plane.T
    t = np.array([POPULATION.model.target(one).quantile(QUANTILE_LEVELS) for one in shares])
    steps = np.linspace(USUAL[0], USUAL[-1], 400)
    close = np.exp(-0.5 * ((steps[:, np.newaxis] - steps) / module._LENGTH) ** 2)
    slopes = generator.multivariate_normal(np.zeros(400), close, n, method="svd")
    curves = integrate.cumulative_trapezoid(slopes, steps, initial=0)
    contrast = variation.contrast * np.array([np.interp(USUAL, steps, one) for one in curves])
    noise = variation.noise * generator.standard_normal((n, module._DIRECTIONS))
    spread = np.repeat(POPULATION.directions, 4, axis=1)[:, : QUANTILE_LEVELS.size]
    y = t + contrast + noise @ spread
    gain, offset = generator.uniform(0.5, 3, n), generator.uniform(-9, 9, n)
    return shares, y * gain[:, np.newaxis] + offset[:, np.newaxis]


def test_quantiles_move_with_proportions_as_finite_differences_say():
    for z in ([0.0, 0.0], [1.0, -0.5]):
        _, moves = POPULATION.usual(np.array(z))
        for place, way in enumerate(np.eye(2) * 0.01):
            targets = [MODEL.target(POPULATION.proportions(z + sign * way)) for sign in (1, -1)]
            one, other = (scored(target.quantile(QUANTILE_LEVELS)) for target in targets)
            exact = POPULATION.directions @ (one - other) / 0.02
            np.testing.assert_allclose(moves[:, place], exact, atol=1e-3 * np.abs(moves).max())


def test_the_covariance_of_contrast_is_the_double_integral():
    x = np.array([0.0, 0.3, 1.7])
    found = module._integrated(x)
    for i, j in ((1, 1), (1, 2), (2, 2)):
        exact, _ = integrate.dblquad(
            lambda a, b: np.exp(-0.5 * ((a - b) / module._LENGTH) ** 2), 0, x[i], 0, x[j]
        )
        assert found[i, j] == pytest.approx(exact, rel=1e-7)
    assert np.abs(found[0]).max() < 1e-15


def test_proportions_are_as_far_off_as_their_covariance_says():
    shares, seen = people(250, OF_SITE)
    found = [estimated_proportions(one, MODEL, OF_SITE) for one in seen]
    errors = shares - [one.proportions for one in found]
    said = np.mean([one.covariance for one in found], axis=0)
    np.testing.assert_allclose(np.cov(errors.T), said, atol=0.2 * np.trace(said))
    assert np.abs(errors.mean(axis=0)).max() < 0.2 * np.sqrt(said.diagonal().min())
    assert np.trace(said) < 0.7 * np.trace(COVARIANCE)  # something is learned


def test_no_proportions_are_more_probable_than_those_that_are_found():
    _, seen = people(5, OF_SITE, seed=6)
    scatter = OF_SITE.contrast**2 * POPULATION.contrast + OF_SITE.noise**2 * np.eye(6)
    inverse = np.linalg.pinv(COVARIANCE, rcond=1e-9)

    def surprise(s, scan):
        t = POPULATION.model.target(s).quantile(QUANTILE_LEVELS)
        r = POPULATION.directions @ (scored(scan) - scored(t))
        return 0.5 * (r @ np.linalg.solve(scatter, r) + (s - MEAN) @ inverse @ (s - MEAN))

    for scan in seen:
        best = estimated_proportions(scan, MODEL, OF_SITE).proportions
        for way in ([0.01, -0.01, 0], [0, 0.01, -0.01], [0.01, 0, -0.01]):
            for sign in (1, -1):
                assert surprise(best + sign * np.array(way), scan) > surprise(best, scan)


def test_proportions_are_found_in_any_units():
    alike = Variation(0.03, 0.01)
    shares, seen = people(40, alike, seed=1)
    found = np.array([estimated_proportions(one, MODEL, alike).proportions for one in seen])
    for tissue in range(3):
        assert np.corrcoef(shares[:, tissue], found[:, tissue])[0, 1] > 0.9


def test_where_contrast_differs_more_proportions_are_trusted_less():
    _, seen = people(20, OF_SITE, seed=2)
    sds = [
        np.std([estimated_proportions(one, MODEL, Variation(c, 0.06))[0] for one in seen], axis=0)
        for c in (0.05, 0.2, 0.8)
    ]
    assert (np.diff(sds, axis=0) < 0).all()
    usual = estimated_proportions(USUAL, MODEL, OF_SITE)
    np.testing.assert_allclose(usual.proportions, MEAN, atol=1e-5)


@pytest.mark.parametrize("truth", [Variation(0.05, 0.1), Variation(0.2, 0.1)])
def test_trust_is_estimated_from_many_scans_and_usual_for_few(truth):
    _, seen = people(500, truth, seed=3)
    found = variation_of(seen, MODEL)
    assert found.contrast == pytest.approx(truth.contrast, rel=0.25)
    assert found.noise == pytest.approx(truth.noise, rel=0.25)
    assert variation_of(seen[:1], MODEL) == OF_SITE
    assert variation_of([], MODEL, OF_ANY) == OF_ANY
    few = variation_of(seen[:3], MODEL).contrast
    assert abs(np.log(few / OF_SITE.contrast)) < abs(np.log(found.contrast / OF_SITE.contrast))


def test_no_variation_is_more_probable_than_the_one_that_is_found():
    _, seen = people(12, Variation(0.15, 0.1), seed=4, differ=0.3)
    departures = POPULATION.directions @ np.array([scored(one) for one in seen]).T
    departures = (departures - departures.mean(axis=1, keepdims=True)).T
    _, moves = POPULATION.usual(np.zeros(2))

    def surprise(contrast, noise, alike):
        scatter = (
            alike**2 * moves @ moves.T + contrast**2 * POPULATION.contrast + noise**2 * np.eye(6)
        )
        _, size = np.linalg.slogdet(scatter)
        fit = 11 * size + np.einsum("ni,ij,nj", departures, np.linalg.inv(scatter), departures)
        usual = [OF_SITE.contrast, OF_SITE.noise, 1]
        ratios = np.log(np.array([contrast, noise, alike]) / usual) * 2
        return 0.5 * (fit + ((ratios / module._SPREADS) ** 2).sum())

    best = variation_of(seen, MODEL)
    parts = np.array([best.contrast, best.noise, best.people])
    assert best.people < 1
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        for way in np.eye(3):
            assert surprise(*parts * factor**way) > surprise(*parts) - 1e-5


def test_people_who_are_alike_are_found_to_be_so():
    for differ in (0.3, 1.0, 2.0):
        _, seen = people(500, OF_SITE, seed=5, differ=differ)
        assert variation_of(seen, MODEL).people == pytest.approx(min(differ, 1), abs=0.16)


def test_the_people_of_a_site_are_found_in_its_average():
    shares, seen = people(250, OF_ANY, seed=7, differ=module._BETWEEN**0.5)
    found = np.array([model_of_site(one, MODEL).mean for one in seen]) - MEAN
    for truth, one in zip((shares - MEAN).T, found.T, strict=True):
        assert truth @ one / (one @ one) == pytest.approx(1, abs=0.35)  # neither more nor less


@settings(max_examples=20)
@given(mixtures(1, most=5, spread=2.0), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_any_scan_gets_proportions(scan, slope, offset):
    quantiles = scan.quantile(QUANTILE_LEVELS)
    found = estimated_proportions(quantiles, MODEL)
    assert found.proportions.sum() == pytest.approx(1, abs=1e-12)
    assert (found.proportions > 0).all()
    assert np.linalg.eigvalsh(found.covariance)[0] > -1e-12
    there = estimated_proportions(slope * quantiles + offset, MODEL)
    np.testing.assert_allclose(there.proportions, found.proportions, atol=1e-4)
    with pytest.raises(InvalidValueError, match="quantiles"):
        estimated_proportions(quantiles[1:], MODEL)


def test_intervals_are_as_wide_as_wrong_proportions_move_tissues():
    off = np.array([0.01, -0.006, -0.004])
    target, own = MODEL.target(MEAN), MODEL.target(MEAN + off)
    means = np.array([one.mean()[0] for one in TISSUES])
    moved = target.quantile(own.cdf(means)) - means
    known = tissue_intervals(Estimate(MEAN, np.zeros((3, 3))), MODEL)
    wide = tissue_intervals(Estimate(MEAN, np.outer(off, off)), MODEL)
    found = np.sqrt(wide**2 - known**2) / 1.645 * (means[2] - means[1])
    np.testing.assert_allclose(found, np.abs(moved), rtol=0.15, atol=1e-4)
