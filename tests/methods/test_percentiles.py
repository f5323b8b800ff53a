"""Percentiles as landmarks: numpy's own, another package's map, and whole distributions."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from phantoms import AFFINE, head
from scipy import stats

import ndflow
from ndflow import Affine, GaussianMixture
from ndflow.methods import percentiles
from ndflow.methods.landmarks import measure, of_density, standard

FIVE = [
    head(0),
    head(1, gain=3.1),
    head(2, gain=0.4),
    head(3, tissues=((250.0, 90.0), (520.0, 40.0), (900.0, 70.0))),
    head(4, tissues=((500.0, 30.0), (610.0, 90.0), (700.0, 20.0))),
]
MIXTURE = GaussianMixture([0.2, 0.5, 0.3], [-1.0, 0.2, 2.0], [4.0, 9.0, 1.0])
levels = st.lists(st.integers(-40, 40), min_size=1, max_size=200)


def counted(voxels: Any) -> ndflow.Histogram:
    return ndflow.histogram(np.asarray(voxels))


def brain(image: NDArray[Any]) -> NDArray[Any]:
    return image[image != 0]


def mixture_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution function by hand, and not by the mixture's own."""
    sds = 1 / np.sqrt(MIXTURE.precisions[:, 0, 0])
    return stats.norm.cdf(x[:, np.newaxis], MIXTURE.means[:, 0], sds) @ MIXTURE.weights


# ── percentiles ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, [1, 99]),
        (3, [1, 50, 99]),
        (4, [1, 10, 90, 99]),
        (5, [1, 10, 50, 90, 99]),
        (7, [1, 10, 30, 50, 70, 90, 99]),
        (11, [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99]),
    ],
)
def test_landmarks_are_the_1st_to_the_99th_percentile(count: int, expected: list[int]) -> None:
    np.testing.assert_allclose(100 * percentiles.shares(count), expected, rtol=1e-14)


@given(levels, st.integers(2, 60))
def test_percentiles_are_those_of_numpy_on_all_voxels(voxels: list[int], count: int) -> None:
    found = percentiles.percentiles(counted(voxels), count)
    expected = np.percentile(voxels, 100 * percentiles.shares(count))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


def test_percentiles_of_a_scan_with_floats_are_those_of_numpy() -> None:
    voxels = np.random.default_rng(0).gamma(3.0, 50.0, 5000)
    shares = [1, *range(10, 100, 10), 99]
    np.testing.assert_allclose(
        measure("nyul", counted(voxels)).values, np.percentile(voxels, shares), rtol=1e-12
    )


@pytest.mark.parametrize("count", [2, 11, 40])
def test_below_the_landmarks_of_a_density_lie_the_same_shares(count: int) -> None:
    found = of_density("nyul", MIXTURE, count)
    assert found is not None
    np.testing.assert_allclose(mixture_cdf(found.values), percentiles.shares(count), rtol=1e-9)


# ── another package's Nyúl ───────────────────────────────────────────────────────────────────────


def packaged(images: list[NDArray[Any]]) -> list[Any]:
    adapters = pytest.importorskip("intensity_normalization.adapters.images")
    return [adapters.create_image(nibabel.Nifti1Image(image, AFFINE)) for image in images]


def other_nyul(**options: Any) -> Any:
    module = pytest.importorskip("intensity_normalization.normalizers.population.nyul")
    return module.NyulNormalizer(**options)


def test_it_is_the_map_of_intensity_normalization_trained_on_the_same_scans() -> None:
    # There each scan is brought to a range by its outer percentiles before landmarks are averaged.
    low, high = -1.5, 2.5
    theirs = other_nyul(output_min_value=low, output_max_value=high)
    images = packaged(FIVE)
    theirs.fit_population(images)
    scans = []
    for voxels in map(brain, FIVE):
        first, last = np.percentile(voxels, [1, 99])
        factor = (high - low) / (last - first)
        scans.append((measure("nyul", counted(voxels)), Affine(factor, low - factor * first), 1.0))
    ours = standard(scans)
    np.testing.assert_allclose(ours.values, theirs.standard_scale, atol=1e-6 * (high - low))
    for (own, _, _), image, voxels in zip(scans, images, FIVE, strict=True):
        # All voxels, also those beyond the landmarks, and the background far below them.
        found, expected = own.to(ours).imap(voxels), theirs.transform(image).get_data()
        np.testing.assert_allclose(found, expected, atol=1e-6 * (high - low))


@pytest.mark.parametrize("count", [2, 3, 6, 11, 41])
def test_it_is_the_same_map_for_our_average_and_any_number_of_landmarks(
    tmp_path: Path, count: int
) -> None:
    scans = []
    for voxels in map(brain, FIVE):
        aligned = Affine(1 / voxels.std(), -voxels.mean() / voxels.std())
        scans.append((measure("nyul", counted(voxels), count), aligned, 1.0))
    ours = standard(scans)
    file = tmp_path / "standard.npy"
    np.save(file, np.vstack([ours.values, 100 * percentiles.shares(count)]))
    theirs = other_nyul()
    theirs.load_standard_histogram(str(file))
    for (own, _, _), image, voxels in zip(scans, packaged(FIVE), FIVE, strict=True):
        found, expected = own.to(ours).imap(voxels), theirs.transform(image).get_data()
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.ptp(ours.values))


BETWEEN_POINTS = float(np.diff(stats.norm.cdf([-0.005, 0.005]))[0])  # most mass between two of 801

# ── whole distributions ──────────────────────────────────────────────────────────────────────────


def spread_cdf(x: NDArray[np.float64], voxels: list[int]) -> NDArray[np.float64]:
    """The share below x where each voxel is spread evenly up to half-way to its neighbours."""
    distinct = sorted(set(voxels))
    first, last = distinct[0], distinct[-1]
    ends = [2 * first - distinct[1], *distinct, 2 * last - distinct[-2]]
    half_way = {
        level: ((before + level) / 2, (level + after) / 2)
        for before, level, after in zip(ends, distinct, ends[2:], strict=False)
    }
    shares = [np.clip((x - a) / (b - a), 0, 1) for a, b in map(half_way.__getitem__, voxels)]
    return np.mean(shares, axis=0)


@given(levels)
def test_the_whole_distribution_has_each_voxel_spread_half_way(voxels: list[int]) -> None:
    assume(len(set(voxels)) > 1)
    values = percentiles.quantiles(counted(voxels))
    scores = np.linspace(-4, 4, 801)
    np.testing.assert_allclose(spread_cdf(values, voxels), stats.norm.cdf(scores), atol=1e-12)


def test_that_of_a_density_is_exact_far_into_both_tails() -> None:
    values = percentiles.density_quantiles(MIXTURE)
    scores = np.linspace(-4, 4, 801)
    np.testing.assert_allclose(mixture_cdf(values), stats.norm.cdf(scores), rtol=1e-9)


def between(own: NDArray[Any], target: NDArray[Any]) -> ndflow.IntensityMap:
    return measure("quantile", counted(own)).to(measure("quantile", counted(target))).imap


def test_it_pushes_the_voxels_of_a_scan_onto_those_of_another() -> None:
    generator = np.random.default_rng(0)
    own = np.concatenate([generator.normal(0, 1, 3000), generator.normal(5, 0.5, 5000)])
    target = generator.gamma(2.0, 30.0, 6000)
    assert stats.ks_2samp(own, target).statistic > 0.5
    assert stats.ks_2samp(between(own, target)(own), target).statistic < BETWEEN_POINTS


def test_it_pushes_the_voxels_of_a_scan_onto_a_density() -> None:
    voxels = np.random.default_rng(1).gamma(2.0, 30.0, 6000)
    target = of_density("quantile", MIXTURE)
    assert target is not None
    mapped = measure("quantile", counted(voxels)).to(target).imap(voxels)
    assert stats.kstest(mapped, lambda x: mixture_cdf(np.asarray(x))).statistic < BETWEEN_POINTS


@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-1e4, 1e4))
def test_an_affine_change_of_the_same_scan_is_found_exactly(
    seed: int, factor: float, offset: float
) -> None:
    own = np.unique(np.random.default_rng(seed).integers(-500, 500, 300))
    own = np.repeat(own, 1 + own % 7)
    imap = between(own, factor * own + offset)
    x = np.linspace(-1000, 1000, 500)
    scale = factor * 1000 + abs(offset)
    np.testing.assert_allclose(imap(x), factor * x + offset, atol=1e-8 * scale)


@given(st.integers(3, 12), st.integers(1, 100), st.integers(0, 10**6))
def test_any_monotone_change_of_few_levels_is_found(size: int, step: int, seed: int) -> None:
    # Each level comes to lie among the targets of its own voxels, and of no others.
    generator = np.random.default_rng(seed)
    before = step * np.arange(size) - 50
    after = np.sort(generator.choice(5000, size, replace=False))
    counts = generator.integers(50, 1000, size)
    imap = between(np.repeat(before, counts), np.repeat(after, counts))
    nearest = np.abs(imap(before)[:, np.newaxis] - after).argmin(axis=1)
    np.testing.assert_array_equal(nearest, np.arange(size))


def test_a_curved_change_of_a_real_looking_scan_is_found() -> None:
    own = brain(FIVE[0]).astype(float)
    inside = own[(own > np.quantile(own, 0.001)) & (own < np.quantile(own, 0.999))]
    for curve in (np.sqrt, np.log, np.square):
        error = between(own, curve(own))(inside) - curve(inside)
        assert np.abs(error).max() < 0.01 * curve(own).std()


# ── ties ─────────────────────────────────────────────────────────────────────────────────────────

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
    imap = percentiles.through_points(np.array(own, float), np.array(target, float))
    knots = [float(sum(xs, Fraction()) / len(xs)) for xs in by_target.values()]
    np.testing.assert_allclose(imap.knots, knots, atol=1e-12)
    np.testing.assert_allclose(imap.values, [float(y) for y in by_target], atol=1e-12)


@pytest.mark.parametrize("method", ["nyul", "quantile"])
@given(voxels=levels, others=levels)
def test_any_two_scans_with_two_levels_or_more_have_an_increasing_map(
    method: str, voxels: list[int], others: list[int]
) -> None:
    scans = [np.array(part) for part in (voxels, others)]
    assume(all(np.ptp(np.percentile(part, [1, 99])) > 0 for part in scans))
    own, target = (measure(method, counted(part)) for part in scans)
    imap = own.to(target).imap
    assert isinstance(imap, ndflow.PiecewiseLinear)  # which only ever rises
    assert (np.diff(imap(np.arange(-60.0, 60.0))) > 0).all()
    assert target.values[0] <= imap.values[0] < imap.values[-1] <= target.values[-1]


def test_a_scan_whose_percentiles_are_all_tied_is_refused() -> None:
    with pytest.raises(ndflow.InvalidValueError, match="must rise"):
        measure("nyul", counted([7] * 500 + [8]))
