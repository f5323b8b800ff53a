"""`quantile`: whole distributions, exact far into both tails."""

from typing import Any

import numpy as np
from every_method import LANDMARK_METHODS, join, measure
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from phantoms import head
from scipy import stats

import ndflow
from ndflow import GaussianMixture
from ndflow.options import Options
from ndflow.population import Landmarks

MIXTURE = GaussianMixture([0.2, 0.5, 0.3], [-1.0, 0.2, 2.0], [4.0, 9.0, 1.0])
SCORES = np.linspace(-4, 4, 801)
BETWEEN_POINTS = float(np.diff(stats.norm.cdf([-0.005, 0.005]))[0])  # most mass between two of 801
levels = st.lists(st.integers(-40, 40), min_size=1, max_size=200)


def counted(voxels: Any) -> ndflow.Histogram:
    return ndflow.histogram(np.asarray(voxels))


def mixture_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution function by hand, not by the mixture's own."""
    sds = 1 / np.sqrt(MIXTURE.precisions[:, 0, 0])
    return stats.norm.cdf(x[:, np.newaxis], MIXTURE.means[:, 0], sds) @ MIXTURE.weights


def of_density() -> Landmarks:
    method = LANDMARK_METHODS["quantile"]
    found = method.landmarks_of_density(MIXTURE, Options(method="quantile"))
    assert found is not None
    return Landmarks("quantile", found)


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
    values = measure("quantile", counted(voxels)).values
    np.testing.assert_allclose(spread_cdf(values, voxels), stats.norm.cdf(SCORES), atol=1e-12)


def test_that_of_a_density_is_exact_far_into_both_tails() -> None:
    values = of_density().values
    np.testing.assert_allclose(mixture_cdf(values), stats.norm.cdf(SCORES), rtol=1e-9)


def between(own: NDArray[Any], target: NDArray[Any]) -> ndflow.IntensityMap:
    return join(measure("quantile", counted(own)), measure("quantile", counted(target))).imap


def test_it_pushes_the_voxels_of_a_scan_onto_those_of_another() -> None:
    generator = np.random.default_rng(0)
    own = np.concatenate([generator.normal(0, 1, 3000), generator.normal(5, 0.5, 5000)])
    target = generator.gamma(2.0, 30.0, 6000)
    assert stats.ks_2samp(own, target).statistic > 0.5
    assert stats.ks_2samp(between(own, target)(own), target).statistic < BETWEEN_POINTS


def test_it_pushes_the_voxels_of_a_scan_onto_a_density() -> None:
    voxels = np.random.default_rng(1).gamma(2.0, 30.0, 6000)
    mapped = join(measure("quantile", counted(voxels)), of_density()).imap(voxels)
    assert stats.kstest(mapped, lambda x: mixture_cdf(np.asarray(x))).statistic < BETWEEN_POINTS


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


def test_a_curved_change_of_a_real_looking_scan_is_found() -> None:
    own = head(0)[head(0) != 0].astype(float)
    inside = own[(own > np.quantile(own, 0.001)) & (own < np.quantile(own, 0.999))]
    for curve in (np.sqrt, np.log, np.square):
        error = between(own, curve(own))(inside) - curve(inside)
        assert np.abs(error).max() < 0.01 * curve(own).std()
