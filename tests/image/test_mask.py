"""Masks: which voxels are inside, whether a mask belongs to an image, and those that are found."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Header, Nifti1Image
from numpy.typing import NDArray

from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.image import mask as masks
from ndflow.image.mask import (
    Nonzero,
    foreground,
    found_for,
    holds_found_brain,
    mark_found_brain,
    to_be_found,
)
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
        with pytest.raises(FileError, match=r"voxels away from the image|orientation is invalid"):
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


# ── masks that are to be found ────────────────────────────────────────────────────────────────────


def test_two_words_stand_for_masks_that_are_to_be_found() -> None:
    assert to_be_found("auto")
    assert to_be_found("brain")
    for mask in (None, "nonzero", "./brain", "brain.nii.gz", np.ones((2, 2, 2)), ["brain"]):
        assert not to_be_found(mask)


def test_scans_without_a_mask_get_one_of_three() -> None:
    assert [found_for(word) for word in ("nonzero", "auto", "brain")] == [None, "auto", "brain"]
    with pytest.raises(InvalidValueError, match="one of brain, auto, nonzero, not 'head'"):
        found_for("head")  # type: ignore[arg-type]


def test_the_header_of_a_mask_says_that_deepbet_found_it() -> None:
    header = Nifti1Header()  # type: ignore[no-untyped-call]
    assert not holds_found_brain(header)
    mark_found_brain(header, "1.0.2")
    assert holds_found_brain(header)
    assert header["descrip"].item() == b"ndflow brain mask, deepbet 1.0.2"
    assert not holds_found_brain(MGHHeader())  # type: ignore[no-untyped-call]


# ── the foreground ────────────────────────────────────────────────────────────────────────────────


N = 48


def radius() -> NDArray[np.float64]:
    grid = (np.indices((N, N, N)) - (N - 1) / 2) / (N / 2)
    return np.asarray(np.sqrt((grid**2).sum(axis=0)))


def anatomy() -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a head of scalp, bone, CSF, GM and WM, and the masks of the head and of its brain."""
    r = radius()
    head = np.select(
        [r < 0.3, r < 0.5, r < 0.55, r < 0.62, r < 0.75], [1000.0, 700, 250, 60, 1500], 0.0
    )
    return head, r < 0.75, r < 0.55


def rician(clean: NDArray[np.float64], sd: float, seed: int = 0) -> NDArray[np.float64]:
    real, imaginary = np.random.default_rng(seed).normal(0, sd, (2, *clean.shape))
    return np.asarray(np.hypot(clean + real, imaginary))


def dice(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    return float(2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b)))


CHANGES = {
    "plain": lambda x: x,
    "integers": lambda x: np.rint(x).astype(np.int16),
    "few levels": lambda x: np.rint(x / 16).astype(np.uint8),
    "negative": lambda x: x - 1000,
    "standardised": lambda x: (x - x.mean()) / x.std(),
    "unit range": lambda x: (x / x.max()).astype(np.float32),
    "partly padded": lambda x: np.where(np.arange(N) < 5, 0.0, x),
    "partly NaN": lambda x: np.where(np.arange(N) < 5, np.nan, x),
    "one huge voxel": lambda x: np.where(np.arange(N**3).reshape(x.shape) == 5, 1e30, x),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sd", [10, 30, 60])
def test_a_head_is_found_in_noise(change: str, sd: float) -> None:
    clean, head, brain = anatomy()
    found = foreground(CHANGES[change](rician(clean, sd)))
    assert found.dtype == bool
    assert dice(found, head) > 0.95
    assert found[brain].mean() > 0.99


def test_a_brain_is_kept_when_bone_separates_it_from_a_larger_scalp() -> None:
    clean, _, brain = anatomy()
    r = radius()
    clean[(r >= 0.75) & (r < 0.95)] = 1500
    clean[:, :, : N // 2 - 12] = 0  # open below, so that the brain is not a hole in the scalp
    brain[:, :, : N // 2 - 12] = False
    assert foreground(rician(clean, 10))[brain].mean() > 0.97


@pytest.mark.parametrize("background", [0.0, -5.0, -1000.0, 4095.0])
@pytest.mark.parametrize("scale", ["raw", "standardised"])
def test_a_brain_without_background_is_kept_whole(background: float, scale: str) -> None:
    clean, _, brain = anatomy()
    values = rician(clean, 40)
    if scale == "standardised":
        values = (values - values[brain].mean()) / values[brain].std()
    found = foreground(np.where(brain, values, background))
    assert dice(found, brain) > 0.995


def test_holes_are_filled() -> None:
    clean, _, brain = anatomy()
    r = radius()
    clean[r < 0.15] = 0
    found = foreground(rician(clean, 10))
    assert found[r < 0.15].all()
    assert found[brain].mean() > 0.99


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((N, N, N)),
        np.full((N, N, N), 7),
        np.full((N, N, N), np.nan),
        rician(np.zeros((N, N, N)), 20),
        np.random.default_rng(1).normal(size=(N, N, N)),
        np.where(np.arange(N**3).reshape(N, N, N) == N**3 // 2, 1.0, 0.0),
        np.where(np.random.default_rng(2).random((N, N, N)) < 0.01, 1.0 + radius(), 0.0),
    ],
    ids=["zeros", "constant", "NaN", "noise", "normal", "one voxel", "specks"],
)
def test_an_image_without_foreground_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(DegenerateDataError, match=r"no foreground found.*give a mask"):
        foreground(values)


def test_real_scans_without_background_are_kept_whole(cohort_folder: Path) -> None:
    for scan in sorted(cohort_folder.glob("sub-*/anat/*_T1w.nii.gz"))[::15]:
        volume = read_volume(scan)
        assert dice(foreground(volume.stored).reshape(-1, order="F"), Nonzero(volume)[:]) > 0.998
