"""Tissue probabilities in steps of 1/255, and images on the grid of a scan."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from phantoms import AFFINE, head, save

from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume
from ndflow.study.prepared_images import copy_map, in_steps, write_probabilities

SHARES = arrays(np.float32, (3, 5), elements=st.floats(0, 1, width=32))


@given(SHARES, st.floats(0, 1))
def test_probabilities_keep_their_sum_and_change_by_less_than_a_step(
    shares: np.ndarray, total: float
) -> None:
    sums = np.maximum(shares.sum(axis=0, dtype=np.float64), 1e-30)
    tissues = (shares / sums * total).astype(np.float32)
    levels = in_steps(tissues).astype(int)
    assert np.abs(levels / 255 - tissues).max() < 1 / 255 + 1e-6
    assert (np.abs(levels.sum(axis=0) - 255 * tissues.sum(axis=0, dtype=np.float64)) < 0.501).all()
    assert levels.sum(axis=0).max() <= 255


def test_the_sum_of_what_is_written_never_exceeds_1(tmp_path: Path) -> None:
    like = read_volume(save(tmp_path / "scan.nii.gz", head()))
    generator = np.random.default_rng(0)
    tissues = generator.dirichlet([1, 1, 1], like.shape).astype(np.float32)
    levels = in_steps(np.moveaxis(tissues, -1, 0))
    total = np.zeros(like.shape)
    for number, part in enumerate(levels):
        path = tmp_path / f"{number}.nii.gz"
        write_probabilities(path, like, part, keep=[])
        image = nibabel.load(path)
        assert image.get_data_dtype() == np.uint8
        assert np.array_equal(image.affine, AFFINE)
        total += image.get_fdata()
    assert 0.999 < total.min() <= total.max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_a_map_that_was_given_is_copied_as_it_is_stored(tmp_path: Path, dtype: str) -> None:
    stored = np.arange(24).reshape(2, 3, 4).astype(dtype)
    image = nibabel.Nifti1Image(stored, AFFINE)
    image.header.set_slope_inter(0.04 if dtype == "int16" else 1, 0.02 if dtype == "int16" else 0)
    nibabel.save(image, tmp_path / "map.nii")
    copy_map(tmp_path / "copy.nii.gz", read_volume(tmp_path / "map.nii"), keep=[])
    before, after = (nibabel.load(tmp_path / name) for name in ("map.nii", "copy.nii.gz"))
    assert after.get_data_dtype() == before.get_data_dtype()
    assert np.array_equal(after.get_fdata(), before.get_fdata())


def test_mgh_files_have_no_scaling(tmp_path: Path) -> None:
    like = read_volume(save(tmp_path / "scan.nii.gz", head()))
    with pytest.raises(FileError, match="no scaling"):
        write_volume(tmp_path / "a.mgz", like, [like.flat], dtype="uint8", scaling=(0.5, 0))
