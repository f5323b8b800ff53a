"""`nyul`: numpy's own percentiles, another package's map, and ties."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from every_method import LANDMARK_METHODS, join, measure
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from phantoms import AFFINE, head
from scipy import stats

import ndflow
from ndflow import Affine, GaussianMixture
from ndflow.methods.baselines import landmark_levels, percentiles, through_points
from ndflow.options import Options
from ndflow.population import Landmarks

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


def average(scans: list[tuple[Landmarks, Affine, float]]) -> Landmarks:
    return LANDMARK_METHODS["nyul"].average(scans)


# ── percentiles ───────────────────────────────────────────────────────────────────────────────────


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
    np.testing.assert_allclose(100 * landmark_levels(count), expected, rtol=1e-14)


@given(levels, st.integers(2, 60))
def test_percentiles_are_those_of_numpy_on_all_voxels(voxels: list[int], count: int) -> None:
    found = percentiles(counted(voxels), count)
    expected = np.percentile(voxels, 100 * landmark_levels(count))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("count", [2, 11, 40])
def test_below_the_landmarks_of_a_density_lie_the_same_shares(count: int) -> None:
    options = Options(method="nyul", landmarks=count)
    found = LANDMARK_METHODS["nyul"].landmarks_of_density(MIXTURE, options)
    sds = 1 / np.sqrt(MIXTURE.precisions[:, 0, 0])
    cdf = stats.norm.cdf(found[:, np.newaxis], MIXTURE.means[:, 0], sds) @ MIXTURE.weights
    np.testing.assert_allclose(cdf, landmark_levels(count), rtol=1e-9)


# ── another package's Nyúl ────────────────────────────────────────────────────────────────────────


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
    ours = average(scans)
    np.testing.assert_allclose(ours.values, theirs.standard_scale, atol=1e-6 * (high - low))
    for (own, _, _), image, voxels in zip(scans, images, FIVE, strict=True):
        # All voxels, also those beyond the landmarks, and the background far below them.
        found, expected = join(own, ours).imap(voxels), theirs.transform(image).get_data()
        np.testing.assert_allclose(found, expected, atol=1e-6 * (high - low))


# ── ties ──────────────────────────────────────────────────────────────────────────────────────────

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


@pytest.mark.parametrize("method", ["nyul", "quantile"])
@given(voxels=levels, others=levels)
def test_any_two_scans_with_two_levels_or_more_have_an_increasing_map(
    method: str, voxels: list[int], others: list[int]
) -> None:
    scans = [np.array(part) for part in (voxels, others)]
    assume(all(np.ptp(np.percentile(part, [1, 99])) > 0 for part in scans))
    own, target = (measure(method, counted(part)) for part in scans)
    imap = join(own, target).imap
    assert isinstance(imap, ndflow.transport.PiecewiseLinear)  # which only ever rises
    assert (np.diff(imap(np.arange(-60.0, 60.0))) > 0).all()
    assert target.values[0] <= imap.values[0] < imap.values[-1] <= target.values[-1]


def test_a_scan_whose_percentiles_are_all_tied_is_refused() -> None:
    with pytest.raises(ndflow.InvalidValueError, match="must rise"):
        measure("nyul", counted([7] * 500 + [8]))


def test_percentiles_of_a_scan_with_floats_are_those_of_numpy() -> None:
    voxels = np.random.default_rng(0).gamma(3.0, 50.0, 5000)
    shares = [1, *range(10, 100, 10), 99]
    np.testing.assert_allclose(
        measure("nyul", counted(voxels)).values, np.percentile(voxels, shares), rtol=1e-12
    )


@pytest.mark.parametrize("count", [2, 3, 6, 11, 41])
def test_it_is_the_same_map_for_our_average_and_any_number_of_landmarks(
    tmp_path: Path, count: int
) -> None:
    scans = []
    for voxels in map(brain, FIVE):
        aligned = Affine(1 / voxels.std(), -voxels.mean() / voxels.std())
        scans.append((measure("nyul", counted(voxels), landmarks=count), aligned, 1.0))
    ours = average(scans)
    file = tmp_path / "standard.npy"
    np.save(file, np.vstack([ours.values, 100 * landmark_levels(count)]))
    theirs = other_nyul()
    theirs.load_standard_histogram(str(file))
    for (own, _, _), image, voxels in zip(scans, packaged(FIVE), FIVE, strict=True):
        found, expected = join(own, ours).imap(voxels), theirs.transform(image).get_data()
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.ptp(ours.values))
