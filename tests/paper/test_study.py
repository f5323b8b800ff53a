"""A study of real scans of three sites: both modes bring the sites together."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import typed
from numpy.typing import NDArray

pytestmark = pytest.mark.slow

SCANS = {
    "HH": ("HH001", "HH010", "HH026"),
    "NSK": ("NSK001", "NSK005", "NSK015"),
    "UCLA": ("UCLA001", "UCLA006", "UCLA013"),
}
SHARES = np.linspace(0.0005, 0.9995, 1000)

Study = Callable[..., Path]


@pytest.fixture(scope="module")
def study(cohort_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a function that runs ``ndflow cohort`` on some sites, once."""

    @cache
    def made(sites: tuple[str, ...], *words: str) -> Path:
        folder = tmp_path_factory.mktemp("study")
        lines = ["image\tsite\tmask"]
        for site in sites:
            for name in SCANS[site]:
                start = cohort_folder / f"sub-{name}" / "anat" / f"sub-{name}"
                lines.append(f"{start}_T1w.nii.gz\t{site}\t{start}_desc-brain_mask.nii.gz")
        (folder / "t.tsv").write_text("\n".join(lines))
        typed("cohort", folder / "t.tsv", folder / "out", "-q", "-j", 2, *words)
        return folder / "out"

    return made


def quantiles(out: Path, cohort_folder: Path, site: str) -> list[NDArray[np.float64]]:
    """Return the quantiles of each brain of a site."""
    result = []
    for name in SCANS[site]:
        mask = cohort_folder / f"sub-{name}" / "anat" / f"sub-{name}_desc-brain_mask.nii.gz"
        image = nibabel.load(out / "images" / f"sub-{name}_T1w.nii.gz").get_fdata()
        result.append(np.quantile(image[nibabel.load(mask).get_fdata() > 0], SHARES))
    return result


def apart(one: list[NDArray[np.float64]], two: list[NDArray[np.float64]]) -> float:
    """Return the Wasserstein-1 distance between the average brains of two sites."""
    return float(np.abs(np.mean(one, axis=0) - np.mean(two, axis=0)).mean())


def test_both_modes_bring_sites_together(study: Study, cohort_folder: Path) -> None:
    distances = {}
    ways = {"affine": ("--method", "affine"), "individual": (), "site": ("--mode", "site")}
    for way, words in ways.items():
        out = study(tuple(SCANS), *words)
        brains = [quantiles(out, cohort_folder, site) for site in SCANS]
        distances[way] = np.mean([apart(*pair) for pair in combinations(brains, 2)])
    # All 68 scans: .130, .021 and .018.
    assert distances["individual"] < 0.3 * distances["affine"]
    assert distances["site"] < 0.3 * distances["affine"]
