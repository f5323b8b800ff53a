"""Masks: which voxels are inside, and whether a mask belongs to an image."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.image import mask as masks
from ndflow.image.mask import Nonzero
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume

SHAPE = (12, 10, 9)
AFFINE = np.diag([2.0, 1.0, 3.0, 1.0])
INSIDE = np.random.default_rng(0).random(SHAPE) < 0.5


def read_mask(source: Any, like: Volume, **options: int) -> tuple[NDArray[np.bool_], list[str]]:
    mask = masks.read_mask(source, **options)
    warnings = mask.on(like)
    return mask.inside, warnings


@pytest.fixture
def image() -> Volume:
    return read_volume(Nifti1Image(np.ones(SHAPE, np.int16), AFFINE))


def saved(folder: Path, values: NDArray[Any], affine: NDArray[Any] = AFFINE) -> Path:
    path = folder / "mask.nii.gz"
    nibabel.save(Nifti1Image(values, affine), path)
    return path


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_masks_of_zeros_and_ones_are_read_in_any_type(
    tmp_path: Path, image: Volume, dtype: str
) -> None:
    inside, warnings = read_mask(saved(tmp_path, INSIDE.astype(dtype)), image)
    assert inside.dtype == bool
    assert np.array_equal(inside, INSIDE)
    assert warnings == []


def test_a_mask_may_be_an_array_or_a_nibabel_image(image: Volume) -> None:
    for source in (INSIDE, INSIDE.astype(float), Nifti1Image(INSIDE.astype(np.uint8), AFFINE)):
        assert np.array_equal(read_mask(source, image)[0], INSIDE)
    # A bare array has no place in space, so any mask of its shape fits.
    bare = read_volume(np.ones(SHAPE))
    far = Nifti1Image(INSIDE.astype(np.uint8), 7 * AFFINE)
    assert np.array_equal(read_mask(far, bare)[0], INSIDE)


def test_axes_of_length_one_are_ignored(image: Volume) -> None:
    inside, _ = read_mask(INSIDE[..., None], image)
    assert inside.shape == SHAPE
    longer = read_volume(np.ones((*SHAPE, 1)))
    assert np.array_equal(read_mask(INSIDE, longer)[0], INSIDE)


def test_probabilities_are_thresholded_at_one_half(image: Volume) -> None:
    values = np.random.default_rng(1).random(SHAPE)
    values[0, 0, 0] = 0.5
    inside, (warning,) = read_mask(values, image)
    assert np.array_equal(inside, values > 0.5)
    assert "above 0.5" in warning


def test_probabilities_may_be_stored_as_scaled_bytes(tmp_path: Path, image: Volume) -> None:
    steps = np.random.default_rng(2).integers(0, 256, SHAPE).astype(np.uint8)
    steps[0, 0, 0] = 255  # with the slope rounded by the header, slightly more than 1
    scaled = Nifti1Image(steps, AFFINE)
    scaled.header.set_slope_inter(1 / 255, 0)
    path = tmp_path / "p.nii"
    nibabel.save(scaled, path)
    scaled_volume = read_volume(path)
    assert scaled_volume.slope != 1
    inside, warnings = read_mask(path, image)
    assert np.array_equal(inside, scaled_volume.stored / 255 > 0.5)
    assert len(warnings) == 1


def test_all_labels_are_inside_with_a_warning(image: Volume) -> None:
    labels = np.random.default_rng(3).integers(-1, 5, SHAPE)
    inside, (warning,) = read_mask(labels, image)
    assert np.array_equal(inside, labels != 0)
    assert "other values than 0 and 1" in warning
    assert "the mask" in warning


def test_nan_is_outside_with_a_warning(image: Volume) -> None:
    values = INSIDE.astype(float)
    values[:2] = np.nan
    values[2, 0] = np.inf
    inside, (warning,) = read_mask(values, image)
    assert np.array_equal(inside, INSIDE & np.isfinite(values))
    assert f"{2 * 90 + 9} voxels are not finite" in warning


@pytest.mark.parametrize("count", [0, 1, 99])
def test_a_mask_with_too_few_voxels_is_refused(tmp_path: Path, image: Volume, count: int) -> None:
    values = np.zeros(SHAPE, np.uint8)
    values.flat[:count] = 1
    path = saved(tmp_path, values)
    with pytest.raises(FileError, match=f"{count} voxels only" if count else "an empty mask"):
        read_mask(path, image)
    inside, _ = read_mask(path, image, fewest=0)  # as for a mask of voxels to exclude
    assert np.count_nonzero(inside) == count
    values.flat[99] = values.flat[:99] = 1
    assert np.count_nonzero(read_mask(values, image)[0]) == 100


def test_a_mask_of_another_shape_is_refused(tmp_path: Path, image: Volume) -> None:
    with pytest.raises(FileError, match=r"\(10, 12, 9\), but .* is \(12, 10, 9\).*resample"):
        read_mask(saved(tmp_path, np.ones((10, 12, 9), np.uint8)), image)


def moved(*, shift: float = 0.0, turn: float = 0.0) -> NDArray[np.float64]:
    affine = AFFINE.copy()
    affine[1, 3] += shift
    affine[1, 0] += turn  # over the 11 voxels of the first axis
    return affine


@pytest.mark.parametrize(
    ("affine", "verdict"),
    [
        (moved(shift=0.009), "silent"),
        (moved(turn=0.009 / 11), "silent"),
        (moved(shift=0.02), "warned"),
        (moved(turn=0.3 / 11), "warned"),
        (moved(shift=-0.49), "warned"),
        (moved(shift=0.51), "refused"),
        (moved(turn=0.6 / 11), "refused"),
        (np.diag([-2.0, 1, 3, 1]), "refused"),
        (np.diag([2.0, 1, 3, 1]) * [[1], [1], [np.nan], [1]], "refused"),
    ],
)
def test_the_distance_between_mask_and_image_is_judged(
    tmp_path: Path, image: Volume, affine: NDArray[Any], verdict: str
) -> None:
    header = nibabel.Nifti1Header()
    header.set_data_shape(SHAPE)
    header.set_data_dtype(np.uint8)
    header["sform_code"] = 1
    header["srow_x"], header["srow_y"], header["srow_z"] = affine[:3]
    header["vox_offset"] = 352
    path = tmp_path / "mask.nii"
    content = header.binaryblock + bytes(4) + INSIDE.astype(np.uint8).tobytes(order="F")
    path.write_bytes(content)
    if verdict == "refused":
        with pytest.raises(
            FileError, match=r"voxels away from the image|orientation is not finite"
        ):
            read_mask(path, image)
        return
    inside, warnings = read_mask(path, image)
    assert np.array_equal(inside, INSIDE)
    assert [("voxels away" in warning) for warning in warnings] == [True] * (verdict == "warned")


def test_nonzero_is_finite_and_not_zero() -> None:
    values = np.random.default_rng(4).integers(-2, 3, SHAPE).astype(np.float32)
    values[0, 0, :3] = np.nan, np.inf, 1e-40
    expected = np.isfinite(values) & (values != 0)
    assert np.array_equal(Nonzero(read_volume(values))[:], expected.reshape(-1, order="F"))
    integers = np.random.default_rng(5).integers(-2, 3, SHAPE).astype(np.int16)
    assert np.array_equal(Nonzero(read_volume(integers))[:], (integers != 0).reshape(-1, order="F"))


def test_nonzero_applies_the_scaling(tmp_path: Path) -> None:
    stored = np.random.default_rng(6).integers(0, 21, SHAPE).astype(np.uint16)
    scaled = Nifti1Image(stored, AFFINE)
    scaled.header.set_slope_inter(0.1, -1)  # in 32 bits, 10 · 0.1 − 1 is not exactly 0
    nibabel.save(scaled, tmp_path / "x.nii")
    volume = read_volume(tmp_path / "x.nii")
    assert np.array_equal(Nonzero(volume)[:], volume.flat != 10)
