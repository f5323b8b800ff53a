"""Five classes: where they lie, and the polynomial that joins them, which always rises."""

import warnings
from typing import Any

import numpy as np
import pytest
from every_method import join, measure
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

import ndflow
from ndflow import Affine, DegenerateDataError
from ndflow.methods.baselines import class_means, through_classes
from ndflow.population import Landmarks
from ndflow.transport import Tabulated

seeds = st.integers(0, 10**6)


def scan(seed: int, size: int = 2000) -> NDArray[np.int64]:
    """Integers of three or four tissues, anywhere between 0 and 800."""
    generator = np.random.default_rng(seed)
    tissues = int(generator.integers(3, 5))
    parts = generator.multinomial(size, generator.dirichlet(np.full(tissues, 4.0)))
    means, sds = generator.uniform(100, 700, tissues), generator.uniform(10, 60, tissues)
    voxels = np.concatenate(
        [generator.normal(*part) for part in zip(means, sds, parts, strict=True)]
    )
    return np.rint(np.clip(voxels, 0, 800)).astype(np.int64)


# ── classes ──────────────────────────────────────────────────────────────────────────────────────


class Stated:
    """What the classes should make as large as possible, written down from its description.

    In units of zero mean and unit standard deviation. Half as many voxels as there are, spread
    evenly over five Gaussians of the standard deviation 1/5 at the quantiles 10, 30, … 90 %, are
    known to belong to a class; the integral over each of them is by Gauss–Hermite quadrature.
    """

    def __init__(self, voxels: NDArray[np.int64]) -> None:
        self.x = (voxels - voxels.mean()) / voxels.std()
        levels, counts = np.unique(self.x, return_counts=True)
        upto = np.cumsum(counts) / voxels.size
        self.starts = np.interp([0.1, 0.3, 0.5, 0.7, 0.9], upto, levels)
        self.start = np.concatenate([np.zeros(5), self.starts, np.full(5, np.log(0.2))])

    def __call__(self, parameters: NDArray[np.float64]) -> float:
        logits, means, log_sds = np.split(parameters, 3)
        weights = np.exp(logits) / np.exp(logits).sum()
        sds = np.exp(log_sds)
        density = stats.norm.pdf(self.x[:, np.newaxis], means, sds) @ weights
        nodes, share = np.polynomial.hermite_e.hermegauss(7)
        known = stats.norm.logpdf(self.starts + 0.2 * nodes[:, np.newaxis], means, sds)
        of_known = np.log(weights) + share / share.sum() @ known
        return -float(np.log(density).mean() + 0.5 * of_known.mean())


@pytest.mark.parametrize("seed", range(4))
def test_they_are_the_optimum_that_a_general_optimiser_finds(seed: int) -> None:
    voxels = scan(seed, 600)
    stated = Stated(voxels)
    found = optimize.minimize(stated, stated.start, method="BFGS", options={"gtol": 1e-7})
    expected = voxels.mean() + voxels.std() * np.sort(found.x[5:10])
    means = class_means(ndflow.histogram(voxels))
    np.testing.assert_allclose(means, expected, atol=2e-3 * voxels.std())


def test_five_separated_tissues_are_found() -> None:
    generator = np.random.default_rng(0)
    truth = np.array([100.0, 300.0, 500.0, 700.0, 900.0])
    voxels = np.rint(truth[:, np.newaxis] + 10 * generator.standard_normal((5, 1000)))
    means = class_means(ndflow.histogram(voxels.astype(int)))
    np.testing.assert_allclose(means, voxels.mean(axis=1), atol=1.0)


@given(seeds, st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_they_go_along_with_the_units(seed: int, slope: float, inter: float) -> None:
    voxels = scan(seed)
    means = class_means(ndflow.histogram(voxels))
    others = class_means(ndflow.histogram(voxels, slope=slope, inter=inter))
    np.testing.assert_allclose(others, slope * means + inter, atol=1e-3 * slope * voxels.std())


def test_a_few_stray_voxels_do_no_harm() -> None:
    voxels = scan(1)
    means = class_means(ndflow.histogram(voxels))
    damaged = np.append(voxels, [30_000, 30_000, -30_000])
    np.testing.assert_allclose(class_means(ndflow.histogram(damaged)), means, atol=0.01)


def test_too_few_levels_are_refused() -> None:
    voxels = np.repeat(np.arange(9), 100)
    with pytest.raises(DegenerateDataError, match="9 different intensities, too few for 5 classes"):
        class_means(ndflow.histogram(voxels))


@pytest.mark.parametrize("share", [0.35, 0.45])
def test_where_one_level_holds_many_voxels_the_map_is_made_without_a_warning(share: float) -> None:
    # Two or three classes begin at the least level, and so never part.
    generator = np.random.default_rng(0)
    many, rest = int(3000 * share), 3000 - int(3000 * share)
    clipped = np.concatenate([np.zeros(many, int), generator.integers(1, 300, rest)])
    own, target = (measure("hellier", ndflow.histogram(x)) for x in (clipped, scan(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of numpy, about a fit without a solution
        joined = join(own, target)
    x = np.linspace(-100, 500, 1000)
    assert (np.diff(joined.imap(x)) > 0).all()
    passes = np.allclose(joined.imap(own.values), target.values, rtol=1e-6)
    assert joined.converged == passes


# ── polynomials ──────────────────────────────────────────────────────────────────────────────────

OWN = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
# Targets for which the polynomial of that degree is the highest that rises, by a wide margin.
HIGHEST = {
    4: [0.0, 1.0, 1.75, 2.75, 4.0],
    3: [0.0, 0.75, 2.0, 2.5, 4.0],
    2: [0.0, 0.25, 1.0, 3.25, 4.0],
    1: [0.0, 0.0, 0.0, 0.0, 4.0],
}
CLEARLY = 0.3  # rising: a share of the mean slope; one that falls has less than none


def least_slope(degree: int, own: NDArray[Any], target: NDArray[Any]) -> float:
    """The least slope of the least-squares polynomial, as a share of the mean slope, on a grid."""
    unit = (own - own[0]) / (own[-1] - own[0])
    coefficients = np.linalg.lstsq(np.vander(unit, degree + 1), target, rcond=None)[0]
    grid = np.linspace(0, 1, 100_001)
    rise = np.polyval(coefficients, 1) - np.polyval(coefficients, 0)
    least = np.polyval(np.polyder(coefficients), grid).min()
    return float(least / rise) if rise > 0 else -np.inf


def polynomial(degree: int, own: NDArray[Any], target: NDArray[Any], x: Any) -> Any:
    """That polynomial itself, going on straight."""
    unit = (own - own[0]) / (own[-1] - own[0])
    coefficients = np.linalg.lstsq(np.vander(unit, degree + 1), target, rcond=None)[0]
    where = (x - own[0]) / (own[-1] - own[0])
    inside = np.clip(where, 0, 1)
    beyond = np.polyval(np.polyder(coefficients), inside) * (where - inside)
    return np.polyval(coefficients, inside) + beyond


@pytest.mark.parametrize("degree", HIGHEST)
def test_the_highest_degree_that_rises_is_taken(degree: int) -> None:
    target = np.array(HIGHEST[degree])
    for higher in range(degree + 1, 5):
        assert least_slope(higher, OWN, target) < 0
    assert least_slope(degree, OWN, target) > CLEARLY
    imap, found = through_classes(OWN, target)
    assert found == degree
    x = np.linspace(-3, 7, 301)
    np.testing.assert_allclose(imap(x), polynomial(degree, OWN, target, x), atol=1e-6)
    assert isinstance(imap, Affine if degree == 1 else Tabulated)


@given(seeds, st.floats(0.0, 1.5))
def test_it_always_rises_and_is_the_polynomial_of_that_degree(seed: int, wildness: float) -> None:
    generator = np.random.default_rng(seed)
    steps = np.exp(wildness * generator.standard_normal((2, 5)))
    own, target = np.cumsum(steps, axis=1) * np.array([[100.0], [1.0]])
    slopes = {degree: least_slope(degree, own, target) for degree in (4, 3, 2)}
    expected_degree = next((d for d, slope in slopes.items() if slope > 0), 1)
    assume(slopes.get(expected_degree, 1.0) > CLEARLY)
    imap, degree = through_classes(own, target)
    assert degree == expected_degree
    x = np.linspace(own[0] - 300, own[-1] + 300, 2000)
    assert (np.diff(imap(x)) > 0).all()
    expected = polynomial(degree, own, target, x)
    np.testing.assert_allclose(imap(x), expected, atol=1e-4 * np.ptp(target))
    if degree == 4:
        np.testing.assert_allclose(imap(own), target, atol=1e-5 * np.ptp(target))


@given(seeds, st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_the_degree_does_not_depend_on_the_units(seed: int, factor: float, shift: float) -> None:
    own, target = np.cumsum(np.random.default_rng(seed).uniform(0.1, 2, (2, 5)), axis=1)
    imap, degree = through_classes(own, target)
    scaled, same = through_classes(factor * (own + shift), target)
    assert degree == same
    x = np.linspace(own[0] - 1, own[-1] + 1, 200)
    np.testing.assert_allclose(scaled(factor * (x + shift)), imap(x), atol=1e-6 * np.ptp(target))


@pytest.mark.parametrize("degree", HIGHEST)
def test_a_polynomial_that_falls_is_reported(degree: int) -> None:
    joined = join(Landmarks("hellier", OWN), Landmarks("hellier", HIGHEST[degree]))
    assert joined.converged == (degree == 4)
    assert f"polynomial of degree {degree}" in joined.message
    assert ("because none of higher degree rises enough" in joined.message) == (degree < 4)
