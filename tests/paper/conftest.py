"""The real cohort; tests are skipped where it is not installed."""

from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(scope="session")
def cohort(cohort_folder: Path) -> Callable[[str], NDArray[np.int16]]:
    """Return a function that reads the intensities inside the brain mask of a subject."""

    def brain(subject: str) -> NDArray[np.int16]:
        (image,) = (cohort_folder / subject / "anat").glob("*_T1w.nii.gz")
        (mask,) = (cohort_folder / subject / "anat").glob("*_desc-brain_mask.nii.gz")
        voxels = np.asanyarray(nibabel.load(image).dataobj)
        return voxels[np.asanyarray(nibabel.load(mask).dataobj) > 0]

    return brain
