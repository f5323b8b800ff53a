"""The real cohort, where this machine has it."""

import os
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

BESIDE_THE_PROJECT = Path(__file__).parents[3] / "shared" / "cohort"


@pytest.fixture(scope="session")
def cohort_folder() -> Path:
    """Return where the cohort lies."""
    folder = Path(os.environ.get("NDFLOW_COHORT") or BESIDE_THE_PROJECT)
    if not folder.is_dir():
        pytest.skip("no cohort: NDFLOW_COHORT is not set, and there is none beside the project")
    return folder


@pytest.fixture(scope="session")
def cohort(cohort_folder: Path) -> Callable[[str], NDArray[np.int16]]:
    """Return a function from a subject to the intensities inside its brain mask."""

    def brain(subject: str) -> NDArray[np.int16]:
        (image,) = (cohort_folder / subject / "anat").glob("*_T1w.nii.gz")
        (mask,) = (cohort_folder / subject / "anat").glob("*_desc-brain_mask.nii.gz")
        voxels = np.asanyarray(nibabel.load(image).dataobj)
        return voxels[np.asanyarray(nibabel.load(mask).dataobj) > 0]

    return brain
