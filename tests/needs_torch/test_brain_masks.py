"""Brain masks by the network itself, on real heads where there are some."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from nibabel.orientations import axcodes2ornt, inv_ornt_aff, ornt_transform
from numpy.typing import NDArray

from ndflow.image.read import read_volume
from ndflow.preparation.brain import brain_mask

BoolArray = NDArray[np.bool_]


def dice(one: BoolArray, other: BoolArray) -> float:
    return float(2 * np.count_nonzero(one & other) / (one.sum() + other.sum()))


@pytest.fixture(scope="module")
def head(heads: Path) -> Path:
    return heads / "sub-HH027_T1w.nii.gz"


@pytest.fixture(scope="module")
def found(head: Path) -> BoolArray:
    """The brain in a head of 2 mm."""
    return brain_mask(read_volume(head))


@pytest.mark.parametrize("person", ["sub-HH030", "sub-UCLA003"])
def test_they_agree_with_masks_of_others(person: str, cohort_folder: Path) -> None:
    (image,) = cohort_folder.glob(f"{person}/**/{person}_T1w.nii.gz")
    (other,) = cohort_folder.glob(f"{person}/**/{person}_desc-brain_mask.nii.gz")
    truth = np.asarray(nibabel.load(other).dataobj) > 0
    assert dice(brain_mask(read_volume(image)), truth) > 0.94


def test_the_same_image_gives_the_same_mask_and_nothing_else_changes(
    head: Path, found: BoolArray, capfd: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_num_threads()
    again = brain_mask(read_volume(head))
    assert again.dtype == bool
    assert again.shape == read_volume(head).spatial_shape
    assert np.array_equal(again, found)
    assert torch.get_num_threads() == before
    assert capfd.readouterr() == ("", "")


def test_the_mask_follows_the_axes(head: Path, found: BoolArray) -> None:
    image = nibabel.load(head)
    values = np.asarray(image.dataobj)
    turn = ornt_transform(nibabel.io_orientation(image.affine), axcodes2ornt("SAL"))
    turned = nibabel.apply_orientation(values, turn)
    affine = image.affine @ inv_ornt_aff(turn, values.shape)
    oblique = np.eye(4)
    oblique[:3, :3] = [[0.96, 0.28, 0.0], [-0.28, 0.96, 0.0], [0.0, 0.0, 1.0]]  # about 16 degrees
    other = nibabel.Nifti1Image(turned[..., None].astype(np.float32), oblique @ affine)
    expected = nibabel.apply_orientation(found, turn)
    assert not np.array_equal(turned.shape, values.shape) or not np.array_equal(turned, values)
    assert dice(brain_mask(read_volume(other)), expected) > 0.999
