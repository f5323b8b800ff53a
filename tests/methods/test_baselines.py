"""The methods to compare with: against numpy, another package, and optimisers of their own."""

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from every_method import LANDMARK_METHODS, join, measure
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mixtures import moved, random_mixture
from numpy.typing import NDArray
from phantoms import AFFINE, head
from scipy import optimize, stats

import ndflow
from ndflow import Affine, GaussianMixture
from ndflow.methods.base import DensityModel, method_of
from ndflow.methods.baselines import (
    class_means,
    landmark_levels,
    percentiles,
    through_classes,
    through_points,
)
from ndflow.options import Options
from ndflow.population import Landmarks
from ndflow.transport import align, match

MIXTURE = GaussianMixture([0.25, 0.75], [-1.0, 3.0], [4.0, 1.0])
levels = st.lists(st.integers(-40, 40), min_size=1, max_size=200)
seeds = st.integers(0, 10**6)


def counted(voxels: Any) -> ndflow.Histogram:
    return ndflow.histogram(np.asarray(voxels))


def of_density(method: str, **chosen: Any) -> NDArray[np.float64]:
    options = Options(method=method, **chosen)
    found = LANDMARK_METHODS[method].landmarks_of_density(MIXTURE, options)
    assert found is not None
    return found


def mixture_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution function by hand, not by the mixture's own."""
    sds = 1 / np.sqrt(MIXTURE.precisions[:, 0, 0])
    return stats.norm.cdf(x[:, np.newaxis], MIXTURE.means[:, 0], sds) @ MIXTURE.weights


# ── affine and z-score ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_affine_is_the_alignment_and_its_divergence_where_a_match_would_start(
    objective: Any,
) -> None:
    own, target = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))
    options, source = Options(method="affine", objective=objective), own.transformed(300.0, 700.0)
    solution = method_of(options).solve(DensityModel(source), DensityModel(target), options)
    expected = align(source, target)
    assert solution.imap == solution.affine == expected
    after = moved(source, expected)
    started = match(after, target, objective=objective).divergences[0]
    assert solution.divergence is not None
    assert solution.divergence.before == solution.divergence.after
    assert solution.divergence.before == pytest.approx(started, rel=1e-9)
    np.testing.assert_allclose(after.mean(), target.mean(), atol=1e-12)
    np.testing.assert_allclose(after.covariance(), target.covariance(), rtol=1e-12)


def test_a_scan_becomes_its_z_scores() -> None:
    scan = head(0)
    voxels = scan[scan != 0]
    reference = ndflow.reference([scan, 3 * scan], method="zscore")
    result = ndflow.normalise(scan, reference, method="zscore").image[scan != 0]
    np.testing.assert_allclose(result, (voxels - voxels.mean()) / voxels.std(), atol=1e-5)
    # Mean ¾·3 − ¼, variance ¼·¼ + ¾·1 + ¼·¾·4².
    np.testing.assert_allclose(of_density("zscore"), [2.0, 2.0 + np.sqrt(3.8125)])


# ── Nyúl ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2, [1, 99]), (3, [1, 50, 99]), (4, [1, 10, 90, 99]), (7, [1, 10, 30, 50, 70, 90, 99])],
)
def test_landmarks_are_the_1st_to_the_99th_percentile(count: int, expected: list[int]) -> None:
    np.testing.assert_allclose(100 * landmark_levels(count), expected, rtol=1e-14)
    shares = mixture_cdf(of_density("nyul", landmarks=count))
    np.testing.assert_allclose(shares, landmark_levels(count), rtol=1e-9)


@given(levels, st.integers(2, 60), seeds)
def test_percentiles_are_those_of_numpy_on_all_voxels(
    voxels: list[int], count: int, seed: int
) -> None:
    floats = np.random.default_rng(seed).gamma(3.0, 50.0, 500)
    for given_voxels in (voxels, floats):
        expected = np.percentile(given_voxels, 100 * landmark_levels(count))
        found = percentiles(counted(given_voxels), count)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


FIVE = [
    head(0),
    head(1, gain=3.1),
    head(2, gain=0.4),
    head(3, tissues=((250.0, 90.0), (520.0, 40.0), (900.0, 70.0))),
    head(4, tissues=((500.0, 30.0), (610.0, 90.0), (700.0, 20.0))),
]


@pytest.mark.parametrize("count", [2, 3, 11, 41])
def test_it_is_the_map_of_another_package(tmp_path: Path, count: int) -> None:
    adapters = pytest.importorskip("intensity_normalization.adapters.images")
    module = pytest.importorskip("intensity_normalization.normalizers.population.nyul")
    images = [adapters.create_image(nibabel.Nifti1Image(image, AFFINE)) for image in FIVE]
    low, high = -1.5, 2.5
    scans = []
    for image in FIVE:  # brought to a range by its outer percentiles before it is averaged
        voxels = image[image != 0]
        first, last = np.percentile(voxels, [1, 99])
        factor = (high - low) / (last - first)
        own = measure("nyul", counted(voxels), landmarks=count)
        scans.append((own, Affine(factor, low - factor * first), 1.0))
    ours = LANDMARK_METHODS["nyul"].average(scans)
    theirs = module.NyulNormalizer(output_min_value=low, output_max_value=high)
    if count == 11:
        theirs.fit_population(images)
        np.testing.assert_allclose(ours.values, theirs.standard_scale, atol=1e-6 * (high - low))
    else:
        np.save(tmp_path / "s.npy", np.vstack([ours.values, 100 * landmark_levels(count)]))
        theirs.load_standard_histogram(str(tmp_path / "s.npy"))
    for (own, _, _), image, voxels in zip(scans, images, FIVE, strict=True):
        # All voxels, also those beyond the landmarks, and the background far below them.
        found, expected = join(own, ours).imap(voxels), theirs.transform(image).get_data()
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.ptp(ours.values))


rising = st.lists(st.integers(-9, 9), min_size=2, max_size=12)


@given(rising, rising)
def test_equal_landmarks_are_one_point_at_their_mean(own: list[int], target: list[int]) -> None:
    size = min(len(own), len(target))
    own, target = sorted(own[:size]), sorted(target[:size])
    assume(own[0] < own[-1] and target[0] < target[-1])
    by_own: dict[Fraction, list[Fraction]] = {}
    for x, y in zip(own, target, strict=True):
        by_own.setdefault(Fraction(x), []).append(Fraction(y))
    by_target: dict[Fraction, list[Fraction]] = {}
    for x, ys in by_own.items():
        by_target.setdefault(sum(ys, Fraction()) / len(ys), []).append(x)
    imap = through_points(np.array(own, float), np.array(target, float))
    knots = [float(sum(xs, Fraction()) / len(xs)) for xs in by_target.values()]
    np.testing.assert_allclose(imap.knots, knots, atol=1e-12)
    np.testing.assert_allclose(imap.values, [float(y) for y in by_target], atol=1e-12)


# ── quantile ─────────────────────────────────────────────────────────────────────────────────────

SCORES = np.linspace(-4, 4, 801)


def spread_cdf(x: NDArray[np.float64], voxels: list[int]) -> NDArray[np.float64]:
    """The share below x where each voxel is spread evenly up to half-way to its neighbours."""
    distinct = sorted(set(voxels))
    ends = [2 * distinct[0] - distinct[1], *distinct, 2 * distinct[-1] - distinct[-2]]
    half_way = {
        level: ((before + level) / 2, (level + after) / 2)
        for before, level, after in zip(ends, distinct, ends[2:], strict=False)
    }
    shares = [np.clip((x - a) / (b - a), 0, 1) for a, b in map(half_way.__getitem__, voxels)]
    return np.mean(shares, axis=0)


@given(levels)
def test_the_whole_distribution_has_each_voxel_spread_half_way(voxels: list[int]) -> None:
    assume(len(set(voxels)) > 1)
    values = measure("quantile", counted(voxels)).values
    np.testing.assert_allclose(spread_cdf(values, voxels), stats.norm.cdf(SCORES), atol=1e-12)
    of_mixture = mixture_cdf(of_density("quantile"))
    np.testing.assert_allclose(of_mixture, stats.norm.cdf(SCORES), rtol=1e-9)


# ── Hellier: classes ─────────────────────────────────────────────────────────────────────────────


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


class Stated:
    """What the classes should make as large as possible, written down from its description.

    In units of zero mean and unit standard deviation. Half as many voxels as there are, spread
    evenly over five Gaussians of the standard deviation 1/5 at the quantiles 10, 30, … 90 %, are
    known to belong to a class; the integral over each of them is by Gauss–Hermite quadrature.
    """

    def __init__(self, voxels: NDArray[np.int64]) -> None:
        self.x = (voxels - voxels.mean()) / voxels.std()
        found, counts = np.unique(self.x, return_counts=True)
        upto = np.cumsum(counts) / voxels.size
        self.starts = np.interp([0.1, 0.3, 0.5, 0.7, 0.9], upto, found)
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


@pytest.mark.parametrize("seed", range(2))
def test_classes_are_the_optimum_that_a_general_optimiser_finds(seed: int) -> None:
    voxels = scan(seed, 600)
    stated = Stated(voxels)
    found = optimize.minimize(stated, stated.start, method="BFGS", options={"gtol": 1e-7})
    expected = voxels.mean() + voxels.std() * np.sort(found.x[5:10])
    means = class_means(ndflow.histogram(voxels))
    np.testing.assert_allclose(means, expected, atol=2e-3 * voxels.std())


@settings(max_examples=25)
@given(seeds, st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_classes_go_along_with_the_units_whatever_a_few_voxels_are(
    seed: int, slope: float, inter: float
) -> None:
    voxels = scan(seed)
    means = class_means(ndflow.histogram(voxels))
    others = class_means(ndflow.histogram(voxels, slope=slope, inter=inter))
    np.testing.assert_allclose(others, slope * means + inter, atol=1e-3 * slope * voxels.std())
    damaged = np.append(voxels, [30_000, 30_000, -30_000])
    np.testing.assert_allclose(class_means(ndflow.histogram(damaged)), means, atol=0.01)


@pytest.mark.parametrize("share", [0.35, 0.45])
def test_where_one_level_holds_many_voxels_the_map_is_made_without_a_warning(share: float) -> None:
    # Two or three classes begin at the least level, and so never part.
    many, rest = int(3000 * share), 3000 - int(3000 * share)
    noise = np.random.default_rng(0).integers(1, 300, rest)
    clipped = np.concatenate([np.zeros(many, int), noise])
    own, target = (measure("hellier", ndflow.histogram(x)) for x in (clipped, scan(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of numpy, about a fit without a solution
        joined = join(own, target)
    assert (np.diff(joined.imap(np.linspace(-100, 500, 1000))) > 0).all()
    assert joined.converged == np.allclose(joined.imap(own.values), target.values, rtol=1e-6)


# ── Hellier: polynomials ─────────────────────────────────────────────────────────────────────────

# Targets for which the polynomial of that degree is the highest that rises, by a wide margin.
CLEARLY = 0.3  # rising: a share of the mean slope; one that falls has less than none


def least_squares(degree: int, own: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Coefficients of the polynomial, where the landmarks lie between 0 and 1."""
    unit = (own - own[0]) / (own[-1] - own[0])
    return np.linalg.lstsq(np.vander(unit, degree + 1), target, rcond=None)[0]


def least_slope(degree: int, own: NDArray[Any], target: NDArray[Any]) -> float:
    """Its least slope, as a share of the mean slope, on a grid."""
    coefficients = least_squares(degree, own, target)
    rise = np.polyval(coefficients, 1) - np.polyval(coefficients, 0)
    least = np.polyval(np.polyder(coefficients), np.linspace(0, 1, 20_001)).min()
    return float(least / rise) if rise > 0 else -np.inf


def polynomial(degree: int, own: NDArray[Any], target: NDArray[Any], x: Any) -> Any:
    """That polynomial itself, going on straight."""
    coefficients = least_squares(degree, own, target)
    where = (x - own[0]) / (own[-1] - own[0])
    inside = np.clip(where, 0, 1)
    beyond = np.polyval(np.polyder(coefficients), inside) * (where - inside)
    return np.polyval(coefficients, inside) + beyond


@settings(max_examples=50)
@given(seeds, st.floats(0.0, 1.5), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_it_always_rises_and_is_the_polynomial_of_that_degree_in_any_units(
    seed: int, wildness: float, factor: float, shift: float
) -> None:
    generator = np.random.default_rng(seed)
    steps = np.exp(wildness * generator.standard_normal((2, 5)))
    own, target = np.cumsum(steps, axis=1) * np.array([[100.0], [1.0]])
    slopes = {degree: least_slope(degree, own, target) for degree in (4, 3, 2)}
    expected_degree = next((d for d, slope in slopes.items() if slope > 0), 1)
    assume(slopes.get(expected_degree, 1.0) > CLEARLY)
    imap, degree = through_classes(own, target)
    scaled, same = through_classes(factor * (own + shift), target)
    assert degree == same == expected_degree
    joined = join(Landmarks("hellier", own), Landmarks("hellier", target))
    assert joined.converged == (degree == 4)
    x = np.linspace(own[0] - 300, own[-1] + 300, 2000)
    assert (np.diff(imap(x)) > 0).all()
    expected = polynomial(degree, own, target, x)
    np.testing.assert_allclose(imap(x), expected, atol=1e-4 * np.ptp(target))
    np.testing.assert_allclose(scaled(factor * (x + shift)), imap(x), atol=1e-5 * np.ptp(target))
