"""Tissues of scans and of a population: against brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, moved

from ndflow import Affine, GaussianMixture
from ndflow.density import stack
from ndflow.errors import InvalidValueError
from ndflow.population import (
    TissueModel,
    Tissues,
    tissue_model,
    tissues_from_components,
)
from ndflow.population.tissues import USUAL
from ndflow.transport import PiecewiseLinear, align

FLUID = GaussianMixture([0.7, 0.3], [300.0, 380.0], [60.0**-2, 50.0**-2])
GREY = GaussianMixture([1.0], [700.0], [50.0**-2])
WHITE = GaussianMixture([0.8, 0.2], [1000.0, 940.0], [30.0**-2, 40.0**-2])
COMMON = (FLUID, GREY, WHITE)
SHARES = np.array(
    [[0.1, 0.5, 0.4], [0.3, 0.4, 0.3], [0.2, 0.45, 0.35], [0.15, 0.5, 0.35], [0.4, 0.35, 0.25]]
)
UNITS = [Affine(1.0, 0.0), Affine(2.5, -100.0), Affine(0.3, 40.0), Affine(1.7, 5.0), Affine(9, 9)]
SCANS = [
    Tissues(COMMON, shares).transformed(units) for shares, units in zip(SHARES, UNITS, strict=True)
]
PLANE = GaussianMixture([1.0], np.zeros((1, 2)), [np.eye(2)])


def apart(one, other):
    """The largest difference of two distribution functions (Kolmogorov)."""
    at = other.quantile(np.linspace(0.001, 0.999, 500))
    return float(np.abs(one.cdf(at) - other.cdf(at)).max())


@given(st.tuples(*[st.floats(0.01, 1)] * 3), st.floats(0.1, 10), st.floats(-500, 500))
def test_a_target_is_the_sum_of_the_tissues_in_any_units(amounts, slope, offset):
    shares = np.array(amounts) / sum(amounts)
    model = TissueModel(COMMON, SHARES[0], USUAL, "components")
    x = np.linspace(100, 1200, 60)
    expected = sum(share * tissue.pdf(x) for share, tissue in zip(shares, COMMON, strict=True))
    np.testing.assert_allclose(model.target(shares).pdf(x), expected, rtol=1e-9, atol=1e-15)
    there = model.transformed(Affine(slope, offset))
    density = there.target(shares).pdf(slope * x + offset)
    np.testing.assert_allclose(slope * density, expected, rtol=1e-6, atol=1e-12)
    assert (there.source, there.mean.tolist()) == (model.source, model.mean.tolist())
    with pytest.raises(InvalidValueError):
        model.target(1.1 * shares)


# ── from scans with maps ─────────────────────────────────────────────────────────────────────────


def test_scans_that_differ_in_units_and_proportions_have_their_tissues_in_common():
    model = tissue_model(SCANS)
    units = align(stack(COMMON, SHARES.mean(axis=0)))  # zero mean and unit spread
    for found, tissue in zip(model.densities, COMMON, strict=True):
        assert apart(found, moved(tissue, units)) < 0.01
    assert model.source == "maps"
    middle = model.target(model.mean)
    assert middle.mean()[0] == pytest.approx(0, abs=1e-9)
    assert middle.covariance()[0, 0] == pytest.approx(1, abs=1e-9)
    # Proportions have the moments that numpy finds.
    np.testing.assert_allclose(model.mean, SHARES.mean(axis=0), atol=1e-12)
    expected = 0.9 * np.cov(SHARES, rowvar=False) + 0.1 * USUAL
    np.testing.assert_allclose(model.covariance, expected, atol=1e-12)


def test_with_given_maps_tissues_are_averaged_after_the_maps():
    knots = np.array([100.0, 600.0, 1200.0])
    bends = [
        PiecewiseLinear(knots, np.array([-3.0, 0.1, 2.0])),
        PiecewiseLinear(knots, np.array([-2.5, -0.2, 2.2])),
        Affine(0.004, -2.6),
    ]
    model = tissue_model([Tissues(COMMON, shares) for shares in SHARES[:3]], bends)
    for found, tissue in zip(model.densities, COMMON, strict=True):
        # By points, and not by distribution functions.
        points = tissue.quantile((np.arange(2000) + 0.5) / 2000)
        pooled = np.sort(np.concatenate([bend(points) for bend in bends]))
        below = (np.arange(pooled.size) + 0.5) / pooled.size
        assert np.abs(found.cdf(pooled) - below).max() < 0.015
    np.testing.assert_allclose(model.mean, SHARES[:3].mean(axis=0), atol=1e-12)
    assert abs(model.target(model.mean).mean()[0]) > 0.1  # nothing moved it on from there


# ── from components ──────────────────────────────────────────────────────────────────────────────


def scatter(mixture, kinds):
    """The variance of the means within groups, by numpy."""
    total = 0.0
    for kind in range(3):
        mine = kinds == kind
        means, weights = mixture.means[mine, 0], mixture.weights[mine]
        centre = np.average(means, weights=weights)
        total += float(np.average((means - centre) ** 2, weights=weights) * weights.sum())
    return total


@settings(max_examples=20)
@given(mixtures(1, most=6, spread=3.0).filter(lambda mixture: mixture.components >= 3))
def test_no_other_grouping_of_components_has_less_scatter(mixture):
    model = tissues_from_components(mixture)
    where = [
        next(g for g, group in enumerate(model.densities) if mean in group.means[:, 0])
        for mean in mixture.means[:, 0]
    ]
    least = min(
        scatter(mixture, np.array(kinds))
        for kinds in product(range(3), repeat=mixture.components)
        if set(kinds) == {0, 1, 2}
    )
    assert scatter(mixture, np.array(where)) == pytest.approx(least, rel=1e-9, abs=1e-15)
    x = np.linspace(-9, 9, 200)
    np.testing.assert_allclose(model.target(model.mean).pdf(x), mixture.pdf(x), atol=1e-12)


def test_components_of_scans_with_maps_are_grouped_into_their_tissues():
    model = tissues_from_components(stack(COMMON, SHARES[1]))
    np.testing.assert_allclose(model.mean, SHARES[1], atol=1e-12)
    np.testing.assert_allclose(model.covariance, USUAL, atol=1e-15)  # people differ as usual
    for found, tissue in zip(model.densities, COMMON, strict=True):
        assert apart(found, tissue) < 1e-9


@pytest.mark.parametrize("mixture", [GREY, stack([PLANE] * 3)])
def test_too_few_components_or_too_many_channels_make_no_tissues(mixture):
    with pytest.raises(InvalidValueError, match="one channel and at least three components"):
        tissues_from_components(mixture)
