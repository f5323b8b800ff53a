"""Lesion detection on real scans: it works on scanners that it knows, and says so on others."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import ndflow
from ndflow.population import HealthyCeiling, LesionFinding, find_lesions, learn_ceiling

Voxels = NDArray[np.int16]
TRAINING = [f"sub-NSK{n:03d}" for n in range(1, 13)] + [f"sub-UCLA{n:03d}" for n in range(1, 11)]
KNOWN = ("sub-NSK013", "sub-NSK014", "sub-UCLA011", "sub-UCLA012")
UNKNOWN = ("sub-HH001", "sub-HH006", "sub-HH011", "sub-HH016", "sub-HH021", "sub-HH026")


class Learned(NamedTuple):
    reference: ndflow.GaussianMixture
    ceiling: HealthyCeiling

    def look(self, voxels: Voxels) -> LesionFinding:
        own = ndflow.fit(ndflow.histogram(voxels)).mixture
        return find_lesions(own, self.reference, self.ceiling)


@pytest.fixture(scope="module")
def learned(cohort: Callable[[str], Voxels]) -> Learned:
    mixtures = [ndflow.fit(ndflow.histogram(cohort(name))).mixture for name in TRAINING]
    reference = ndflow.reference(mixtures).mixture
    return Learned(reference, learn_ceiling(mixtures, reference))


def with_bright_lesion(voxels: Voxels, share: float) -> Voxels:
    """Return a brain of which some WM is as much brighter as WM is brighter than GM."""
    generator = np.random.default_rng(0)
    grey, white = np.quantile(voxels, [0.4, 0.85])
    tissue = np.flatnonzero(np.abs(voxels - white) < 0.2 * (white - grey))
    where = generator.choice(tissue, round(share * voxels.size), replace=False)
    ill = voxels.copy()
    ill[where] = np.rint(generator.normal(2 * white - grey, 0.2 * (white - grey), where.size))
    return ill


@pytest.mark.parametrize("name", KNOWN)
def test_a_bright_lesion_is_found_on_scanners_that_the_reference_knows(
    learned: Learned, cohort: Callable[[str], Voxels], name: str
) -> None:
    assert learned.look(cohort(name)).mass == 0
    found = learned.look(with_bright_lesion(cohort(name), 0.03))
    assert not found.unlike
    assert found.mass == pytest.approx(0.03, abs=0.015)


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_found_on_scanners_that_it_does_not_know_and_it_says_so(
    learned: Learned, cohort: Callable[[str], Voxels], name: str
) -> None:
    for voxels in (cohort(name), with_bright_lesion(cohort(name), 0.03)):
        found = learned.look(voxels)
        assert (found.mass, found.indices, found.unlike) == (0.0, (), True)
