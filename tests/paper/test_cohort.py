"""Real scans of three sites: mixtures fit them, and intensity maps bring them together."""

from collections.abc import Callable
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import voxels_of
from scipy import stats

import ndflow

pytestmark = pytest.mark.slow

# HH026 is an early scan, on a scale 2.7 times that of HH001; UCLA has some 140
# levels of intensity in the whole brain, NSK ten times as many.
SCANS = ("HH001", "HH026", "NSK015", "UCLA001")
PAIRS = [(a, b) for a, b in permutations(SCANS, 2) if a[:2] != b[:2]]


class Subject(NamedTuple):
    levels: NDArray[np.float64]  # every integer from the lowest intensity to the highest
    shares: NDArray[np.float64]  # of the brain's voxels
    fit: ndflow.Fit

    @property
    def sd(self) -> float:
        return float(np.sqrt(np.cov(self.levels, aweights=self.shares, ddof=0)))


@pytest.fixture(scope="module")
def scans(cohort_folder: Path) -> dict[str, Subject]:
    result = {}
    for name in SCANS:
        start = cohort_folder / f"sub-{name}" / "anat" / f"sub-{name}"
        voxels = voxels_of(f"{start}_T1w.nii.gz", None)
        voxels = voxels[voxels_of(f"{start}_desc-brain_mask.nii.gz") > 0]
        levels = np.arange(voxels.min(), voxels.max() + 1.0)
        shares = np.bincount(voxels - voxels.min()) / voxels.size
        result[name] = Subject(levels, shares, ndflow.fit(ndflow.histogram(voxels)))
    return result


Between = Callable[[str, str, str], ndflow.IntensityMap]


@pytest.fixture(scope="module")
def between(scans: dict[str, Subject]) -> Between:
    """Return a function that makes the map from one scan to another: affine, l2 or cramer."""

    @cache
    def made(a: str, b: str, objective: str) -> ndflow.IntensityMap:
        ends = scans[a].fit.mixture, scans[b].fit.mixture
        if objective == "affine":
            return ndflow.transport.align(*ends)
        return ndflow.normalising_map(*ends, objective=objective)

    return made


def distance(y: NDArray[np.float64], source: Subject, target: Subject) -> float:
    """Wasserstein-1 distance of the mapped brain from the target's, in its standard deviations."""
    shift = stats.wasserstein_distance(y, target.levels, source.shares, target.shares)
    return float(shift) / target.sd


@pytest.mark.parametrize("name", SCANS)
def test_a_fit_describes_the_histogram(scans: dict[str, Subject], name: str) -> None:
    levels, shares, fit = scans[name]
    q = fit.mixture
    edges = np.append(levels - 0.5, levels[-1] + 0.5)
    below = stats.norm.cdf(edges[:, np.newaxis], q.means[:, 0], q.precisions[:, 0, 0] ** -0.5)
    expected = (below * q.weights).sum(axis=1)
    assert np.abs(expected[1:] - np.cumsum(shares)).max() < 0.01  # Kolmogorov-Smirnov distance
    # Total variation, level by level. Most of it is noise: with some 1,700 levels, 165,000 draws
    # from the mixture itself would be 0.04 away from it.
    outside = 1 - (expected[-1] - expected[0])
    assert 0.5 * (np.abs(np.diff(expected) - shares).sum() + outside) < 0.045


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_a_map_between_sites_beats_affine_alignment_and_is_monotone(
    scans: dict[str, Subject], between: Between, a: str, b: str, objective: str
) -> None:
    x = scans[a].levels
    reached, aligned = (
        distance(between(a, b, how)(x), scans[a], scans[b]) for how in (objective, "affine")
    )
    assert reached < aligned
    # Between the levels too: only this catches a solver that fails at one point in a thousand.
    assert (np.diff(between(a, b, objective)(np.linspace(x[0], x[-1], 20_000))) > 0).all()


def test_cramer_brings_sites_closer_than_l2_and_both_far_closer_than_affine(
    scans: dict[str, Subject], between: Between
) -> None:
    # L2 hardly sees the light tail of CSF, so some pairs keep much of their distance.
    affine, l2, cramer = (
        np.mean(
            [distance(between(a, b, how)(scans[a].levels), scans[a], scans[b]) for a, b in PAIRS]
        )
        for how in ("affine", "l2", "cramer")
    )
    assert l2 < 0.5 * affine
    assert cramer < 0.25 * affine
    assert cramer < l2
