"""Masks: which voxels are inside, whether a mask belongs to an image, and those that are found."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray
from phantoms import nifti

from ndflow.errors import DegenerateDataError, FileError
from ndflow.image import mask as masks
from ndflow.image.mask import foreground, nonzero
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume

SHAPE = (12, 10, 9)
AFFINE = np.diag([2.0, 1.0, 3.0, 1.0])
GENERATOR = np.random.default_rng(0)
INSIDE = GENERATOR.random(SHAPE) < 0.5
IMAGE = read_volume(Nifti1Image(np.ones(SHAPE, np.int16), AFFINE))
CHANCES = np.where(INSIDE, GENERATOR.uniform(0.501, 1, SHAPE), GENERATOR.uniform(0, 0.5, SHAPE))
SPLINES = np.where(
    INSIDE, GENERATOR.uniform(0.501, 1.4, SHAPE), GENERATOR.uniform(-0.4, 0.5, SHAPE)
)
NOT_FINITE = INSIDE.astype(float)
NOT_FINITE[~INSIDE & (GENERATOR.random(SHAPE) < 0.5)] = np.nan
NOT_FINITE[0, 0, 0], NOT_FINITE[0, 0, 1] = np.nan, np.inf
SPARSE = INSIDE.copy()
SPARSE[0, 0, :2] = False


def read_mask(source: Any, like: Volume = IMAGE, **options: int) -> tuple[Any, list[str]]:
    mask = masks.read_mask(source, like, **options)
    return mask.inside, [*mask.warnings]


@pytest.mark.parametrize(
    ("values", "inside", "warning"),
    [
        (INSIDE, INSIDE, None),
        (INSIDE.astype(np.uint8), INSIDE, None),
        (INSIDE.astype(np.float32), INSIDE, None),
        (INSIDE[..., None].astype(np.int16), INSIDE, None),
        (CHANCES, INSIDE, "values above 0.5"),
        (SPLINES, INSIDE, "values above 0.5"),
        (INSIDE * GENERATOR.integers(2, 5, SHAPE), INSIDE, "all values but 0"),
        (INSIDE * -1.5, INSIDE, "all values but 0"),
        (NOT_FINITE, SPARSE, "not finite"),
    ],
    ids=[
        "bool",
        "bytes",
        "floats",
        "axes",
        "chances",
        "splines",
        "labels",
        "negative",
        "not finite",
    ],
)
def test_which_values_are_inside(
    values: NDArray[Any], inside: NDArray[np.bool_], warning: str | None
) -> None:
    stored = values.view(np.uint8) if values.dtype == bool else values
    for source in (values, Nifti1Image(stored, AFFINE, dtype=stored.dtype)):
        found, warnings = read_mask(source)
        assert np.array_equal(found, inside)
        assert [warning in one for one in warnings] == ([] if warning is None else [True])


@pytest.mark.parametrize("count", [0, 99])
def test_a_mask_with_too_few_voxels_is_refused(count: int) -> None:
    values = np.zeros(SHAPE, np.uint8)
    values.flat[:count] = 1
    with pytest.raises(FileError, match=f"{count} voxels only" if count else "an empty mask"):
        read_mask(values)
    assert np.count_nonzero(read_mask(values, fewest=0)[0]) == count  # of voxels to exclude
    values.flat[:100] = 1
    assert np.count_nonzero(read_mask(values)[0]) == 100


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(FileError, match=r"\(10, 12, 9\), but .* \(12, 10, 9\).*resample"):
        read_mask(np.ones((10, 12, 9), np.uint8))


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
        (moved(turn=0.3 / 11), "warned"),
        (moved(shift=-0.49), "warned"),
        (moved(shift=0.51), "refused"),
        (moved(turn=0.6 / 11), "refused"),
        (np.diag([-2.0, 1, 3, 1]), "refused"),
    ],
)
def test_the_distance_between_mask_and_image_is_judged(
    tmp_path: Path, affine: NDArray[Any], verdict: str
) -> None:
    path = tmp_path / "mask.nii"
    path.write_bytes(nifti(INSIDE.astype(np.uint8), affine))
    if verdict == "refused":
        with pytest.raises(FileError, match=r"voxels away from the image"):
            read_mask(path)
    else:
        warnings = read_mask(path)[1]
        assert ["voxels away" in warning for warning in warnings] == [True] * (verdict == "warned")
    read_mask(path, read_volume(np.ones(SHAPE)))  # a bare array has no place in space


def test_nonzero_is_finite_and_not_zero(tmp_path: Path) -> None:
    values = GENERATOR.integers(-2, 3, SHAPE).astype(np.float32)
    values[0, 0, :3] = np.nan, np.inf, 1e-40
    expected = np.isfinite(values) & (values != 0)
    assert np.array_equal(nonzero([read_volume(values)]), expected.reshape(-1, order="F"))
    stored = GENERATOR.integers(0, 21, SHAPE).astype(np.uint16)
    scaled = Nifti1Image(stored, AFFINE)
    scaled.header.set_slope_inter(0.1, -1)  # in 32 bits, 10 · 0.1 − 1 is not exactly 0
    nibabel.save(scaled, tmp_path / "x.nii")
    volume = read_volume(tmp_path / "x.nii")
    assert np.array_equal(nonzero([volume]), volume.flat != 10)


# ── the foreground ────────────────────────────────────────────────────────────────────────────────

N = 40
RADIUS = np.sqrt((((np.indices((N, N, N)) - (N - 1) / 2) / (N / 2)) ** 2).sum(axis=0))
# Scalp, bone, CSF, GM and WM.
CLEAN = np.select([r > RADIUS for r in (0.3, 0.5, 0.55, 0.62, 0.75)], [1000.0, 700, 250, 60, 1500])
HEAD, BRAIN = RADIUS < 0.75, RADIUS < 0.55


def rician(clean: NDArray[np.float64], sd: float) -> NDArray[np.float64]:
    real, imaginary = np.random.default_rng(0).normal(0, sd, (2, *clean.shape))
    return np.asarray(np.hypot(clean + real, imaginary))


def dice(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    return float(2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b)))


CHANGES = {
    "plain": lambda x: x,
    "few levels": lambda x: np.rint(x / 16).astype(np.uint8),
    "standardised": lambda x: (x - x.mean()) / x.std(),
    "partly NaN": lambda x: np.where(np.arange(N) < 5, np.nan, x),
    "one huge voxel": lambda x: np.where(np.arange(N**3).reshape(x.shape) == 5, 1e30, x),
    "a hole": lambda x: np.where(RADIUS < 0.15, 0, x),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sd", [10, 60])
def test_a_head_is_found_in_noise(change: str, sd: float) -> None:
    found = foreground(CHANGES[change](rician(CLEAN, sd)))
    assert dice(found, HEAD) > 0.95
    assert found[BRAIN].mean() > 0.99


def test_a_brain_is_kept_when_bone_separates_it_from_a_larger_scalp() -> None:
    clean, brain = CLEAN.copy(), BRAIN.copy()
    clean[(RADIUS >= 0.75) & (RADIUS < 0.95)] = 1500
    clean[:, :, : N // 4] = 0  # open below, so that the brain is not a hole in the scalp
    brain[:, :, : N // 4] = False
    assert foreground(rician(clean, 10))[brain].mean() > 0.97


@pytest.mark.parametrize("background", [0.0, -1000.0, 4095.0])
@pytest.mark.parametrize("scale", ["raw", "standardised"])
def test_a_brain_without_background_is_kept_whole(background: float, scale: str) -> None:
    values = rician(CLEAN, 40)
    if scale == "standardised":
        values = (values - values[BRAIN].mean()) / values[BRAIN].std()
    assert dice(foreground(np.where(BRAIN, values, background)), BRAIN) > 0.99


@pytest.mark.parametrize(
    "values",
    [
        np.full((N, N, N), 7),
        np.full((N, N, N), np.nan),
        rician(np.zeros((N, N, N)), 20),
        np.where(np.random.default_rng(2).random((N, N, N)) < 0.01, 1.0 + RADIUS, 0.0),
    ],
    ids=["constant", "NaN", "noise", "specks"],
)
def test_an_image_without_foreground_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(DegenerateDataError, match=r"no foreground found.*give a mask"):
        foreground(values)
