"""Tissue targets on real scans: the findings of the study hold on a subset."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import ndflow
from ndflow.evaluation.tissues import quartiles
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.subject.fit import fit_subject

pytestmark = pytest.mark.slow

SUBJECTS = [f"{site}{n:03d}" for site in ("HH", "NSK", "UCLA") for n in (1, 2, 3, 4)]


class Known(NamedTuple):
    mixture: ndflow.GaussianMixture
    tissues: ndflow.population.Tissues
    quartiles: NDArray[np.float64]  # (tissues, 3), before normalisation


@pytest.fixture(scope="module")
def known(cohort_folder: Path) -> list[Known]:
    found = []
    for subject in SUBJECTS:
        folder = cohort_folder / f"sub-{subject}" / "anat"
        stem = f"sub-{subject}"
        mask = folder / f"{stem}_desc-brain_mask.nii.gz"
        image = folder / f"{stem}_T1w.nii.gz"
        maps = TissueMaps(*(folder / f"{stem}_label-{t}_probseg.nii.gz" for t in TISSUES))
        made = fit_subject(Subject(image, mask, tissues=maps), tissues=True, options=Options())
        inside = values(mask) > 0
        own = [quartiles(values(image)[inside], values(name)[inside]) for name in maps]
        assert made.tissues is not None
        found.append(Known(made.mixture, made.tissues, np.array(own)))
    return found


def values(path: Any) -> NDArray[np.float64]:
    volume = read_volume(path)
    return np.asarray(volume.values(volume.flat), np.float64)


def sd_over_scans(known: list[Known], targets: list[ndflow.GaussianMixture]) -> float:
    """Return the standard deviation over scans of tissue quartiles, averaged over quartiles."""
    how: dict[str, Any] = {"objective": "cramer", "regularisation": 1e-4}
    moved = [
        ndflow.normalising_map(scan.mixture, target, **how)(scan.quartiles.ravel())
        for scan, target in zip(known, targets, strict=True)
    ]
    return float(np.std(moved, axis=0, ddof=1).mean())


def test_in_their_own_proportions_tissues_are_twice_as_alike(known: list[Known]) -> None:
    average, own = [], []
    for place in range(len(known)):
        others = [scan for other, scan in enumerate(known) if other % 4 != place % 4]
        average.append(ndflow.reference([scan.mixture for scan in others]).mixture)
        model = ndflow.population.tissue_model([scan.tissues for scan in others])
        own.append(model.target(known[place].tissues.proportions))
    assert sd_over_scans(known, own) < 0.5 * sd_over_scans(known, average)
