"""References: the mean density or quantiles of a cohort, whatever its order and units."""

import numpy as np
import pytest
from mixtures import moved, random_mixture
from scipy import stats

from ndflow import GaussianMixture, InvalidValueError
from ndflow.population import Reference, reference
from ndflow.transport import align

GRID = np.linspace(-10, 10, 20_001)
AVERAGES = ["density", "quantile"]
STANDARD = GaussianMixture([0.5, 0.5], [-0.6, 0.6], [1 / 0.64, 1 / 0.64])
PLANE = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])


def cohort(count: int = 6, channels: int = 1) -> list[GaussianMixture]:
    """Scans of one anatomy: three tissues whose places, widths and shares vary, in any units."""
    generator = np.random.default_rng(2)
    first = random_mixture(generator, 3, channels, spread=1.5)
    scans = []
    for _ in range(count):
        scan = GaussianMixture(
            generator.dirichlet(100 * first.weights),
            first.means + 0.1 * generator.standard_normal(first.means.shape),
            first.precisions * generator.uniform(0.7, 1.4),
        )
        scale = np.diag(np.exp(generator.standard_normal(channels)))
        scans.append(scan.transformed(scale, 5 * generator.standard_normal(channels)))
    return scans


def standardised_pdf(mixture: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """The density of a one-channel mixture with mean 0 and variance 1, by scipy."""
    means, variances = mixture.means[:, 0], 1 / mixture.precisions[:, 0, 0]
    mean = mixture.weights @ means
    sd = np.sqrt(mixture.weights @ (variances + means**2) - mean**2)
    x = mean + sd * np.asarray(y)[:, np.newaxis]
    return sd * (mixture.weights * stats.norm.pdf(x, means, np.sqrt(variances))).sum(axis=1)


def total_variation(one: np.ndarray, two: np.ndarray) -> float:
    return float(0.5 * np.abs(one - two).sum() * (GRID[1] - GRID[0]))


def difference(one: Reference, two: Reference) -> float:
    a, b = one.mixture, two.mixture
    assert a.components == b.components
    return max(
        np.abs(getattr(a, name) - getattr(b, name)).max()
        for name in ("weights", "means", "precisions")
    )


# What it is.


@pytest.mark.parametrize("weights", [None, [10.0, 1.0, 0.0, 0.0, 0.0, 2.0]])
def test_it_is_the_mean_of_the_standardised_densities(weights):
    generator = np.random.default_rng(0)
    scans = [random_mixture(generator, 3, spread=1.5) for _ in range(6)]
    found = reference(scans, weights=weights).mixture.pdf(GRID)
    truth = np.average([standardised_pdf(s, GRID) for s in scans], axis=0, weights=weights)
    assert total_variation(found, truth) < 0.015
    others = [1.0] * 6 if weights else [10.0, 1.0, 0.0, 0.0, 0.0, 2.0]
    wrong = np.average([standardised_pdf(s, GRID) for s in scans], axis=0, weights=others)
    assert total_variation(found, wrong) > 0.05


@pytest.mark.parametrize("average", AVERAGES)
def test_the_reference_of_one_scan_is_that_scan(average):
    (scan,) = cohort(1)
    found = reference([scan], average=average)
    assert total_variation(found.mixture.pdf(GRID), standardised_pdf(scan, GRID)) < 0.01
    normal = reference([GaussianMixture([1.0], [7.0], [0.04])], average=average).mixture
    np.testing.assert_allclose(normal.pdf(GRID), stats.norm.pdf(GRID), atol=1e-9)


def test_the_reference_of_one_scan_of_several_channels_is_that_scan():
    (scan,) = cohort(1, channels=3)
    found, truth = reference([scan]).mixture, moved(scan, align(scan))
    y = truth.sample(3000, np.random.default_rng(0))
    assert 0.5 * np.abs(found.pdf(y) / truth.pdf(y) - 1).mean() < 0.02


# What it does not depend on.


@pytest.mark.parametrize("average", AVERAGES)
def test_neither_order_nor_repetition_nor_units_matter(average):
    scans = cohort(5)
    names, weights = ["e", "a", "d", "b", "c"], [1.0, 2.0, 0.3, 1.0, 1.7]

    def made(which, repeated=1):
        return reference(
            [scans[i] for i in which] * repeated,
            average=average,
            names=[names[i] for i in which] * repeated,
            weights=[weights[i] for i in which] * repeated,
        )

    found = made(range(5))
    assert made([3, 0, 4, 2, 1]) == found
    twice = made(range(5), repeated=2)
    assert twice.mixture == found.mixture
    assert (twice.scans, found.scans) == (10, 5)
    generator = np.random.default_rng(0)
    for i, scan in enumerate(scans):
        slope, offset = np.exp(2 * generator.standard_normal()), 100 * generator.standard_normal()
        scans[i] = scan.transformed(slope, offset)
    assert difference(made(range(5)), found) < 1e-9


def test_a_weight_is_a_number_of_repetitions_and_zero_leaves_a_scan_out():
    a, b, c = cohort(3)
    found = reference([a, b, c], weights=[2, 1, 0], names=["a", "b", "c"])
    assert found.mixture == reference([b, a, a]).mixture
    assert found == reference([b, a], weights=[1, 2], names=["b", "a"])
    assert found.scans == 2
    assert found.provenance["names"] == ["a", "b"]
    assert found.provenance["weights"] == [2.0, 1.0]
    assert difference(reference([a, b], weights=[0.02, 0.01]), found) < 1e-9


@pytest.mark.parametrize(
    ("scans", "options", "message"),
    [
        ([], {}, "weights must be one or more"),
        ([STANDARD, PLANE], {}, "mixtures must all have the same number"),
        (
            [GaussianMixture([1.0], [[0.0] * 5], [np.eye(5)])],
            {},
            "mixtures must have at most 4 channels here, not 5",
        ),
        ([STANDARD], {"average": "median"}, "average must be 'density' or 'quantile'"),
        ([PLANE], {"average": "quantile"}, "mixtures must have at most 1 channels"),
        ([STANDARD] * 2, {"weights": [0.0, 0.0]}, "weights must .*nor all zero"),
        ([STANDARD] * 2, {"weights": [1e308, 1e308]}, "weights must .*finite sum"),
    ],
)
def test_what_cannot_be_averaged_is_refused(scans, options, message):
    with pytest.raises(InvalidValueError, match=message):
        reference(scans, **options)
