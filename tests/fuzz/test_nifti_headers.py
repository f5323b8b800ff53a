"""NIfTI-1 and NIfTI-2 headers, mutated bit by bit, byte by byte and field by field."""

from pathlib import Path
from random import Random

import nibabel
import numpy as np
from fuzz.conftest import Fuzz
from fuzz.headers import HARMLESS, damaged, nifti, nifti_meaning, odd_field
from fuzz.images import check_image, passed, stored


def mutated(random: Random, folder: Path) -> bool:
    content, size, order = nifti(random)
    harmless = True
    for _ in range(random.choice([0, 1, 1, 1, 1, 2, 3])):
        if random.random() < 0.5 and len(content) >= size:
            harmless &= odd_field(random, content, size, order) in HARMLESS
        else:
            damaged(random, content, size)
            harmless = False
    path = stored(folder / random.choice(["x.nii", "x.nii.gz"]), bytes(content))
    image = passed(random, path)
    if image is None:
        assert not harmless, "refused, though nothing is wrong with it"
        return False
    kind = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}[size]
    header = kind(bytes(content[:size]), order, check=False)
    sizes = np.abs(header["pixdim"][1:4])
    header["pixdim"][1:4] = np.where(sizes == 0, 1, sizes)  # as nibabel and FSL mend them
    check_image(image, nifti_meaning(bytes(content)), header.get_best_affine())
    return True


def test_nifti_headers(fuzz: Fuzz) -> None:
    fuzz(mutated, 400)
