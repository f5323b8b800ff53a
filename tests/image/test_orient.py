"""Volumes for display: upright, in slices of square pixels, and small."""

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phantoms import UPRIGHT, UPRIGHT_SPACING, coordinates, save_oriented

from ndflow.image.mask import Nonzero
from ndflow.image.preview import fullest, slice_at, small_volume, upright
from ndflow.image.read import read_volume


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "PIR", "SAL", "ASR", "IRP"])
def test_volumes_of_any_orientation_are_turned_upright(tmp_path: Path, codes: str) -> None:
    volume = read_volume(save_oriented(tmp_path / "x.nii.gz", coordinates(), codes))
    picture, spacing = upright(volume, Nonzero(volume))
    np.testing.assert_array_equal(picture, np.where(coordinates() > 0, coordinates(), np.nan))
    assert spacing == pytest.approx(UPRIGHT_SPACING)


def test_only_finite_voxels_inside_the_mask_are_shown() -> None:
    values = np.arange(27.0).reshape(3, 3, 3)
    values[0, 0, 0] = np.inf
    inside = values > 5
    picture, _ = upright(read_volume(values), inside.reshape(-1, order="F"))
    np.testing.assert_array_equal(np.isfinite(picture), inside & np.isfinite(values))


def test_the_fullest_slice_has_most_voxels_inside() -> None:
    picture = np.full((4, 5, 6), np.nan)
    picture[1, 2, 3] = picture[1, 4, 3] = picture[1, 2, 5] = 7.0
    assert [fullest(picture, axis) for axis in range(3)] == [1, 2, 3]


def test_a_slice_of_an_upright_volume_has_square_pixels(tmp_path: Path) -> None:
    volume = read_volume(save_oriented(tmp_path / "x.nii.gz", coordinates(), "PIR"))
    picture, spacing = upright(volume, Nonzero(volume))
    axial = slice_at(picture, spacing, 2, fullest(picture, 2))
    assert axial.shape == (round(UPRIGHT[1] * 1.5), UPRIGHT[0])


def test_front_and_right_are_at_the_top_and_the_right_of_an_axial_slice() -> None:
    x, y, z = np.indices(UPRIGHT).astype(float)
    assert (np.diff(slice_at(x, (1.0, 1.0, 1.0), 2, 3), axis=1) == 1).all()
    assert (np.diff(slice_at(y, (1.0, 1.0, 1.0), 2, 3), axis=0) == -1).all()
    assert (slice_at(z, (1.0, 1.0, 1.0), 2, 3) == 3).all()


# ── small volumes ────────────────────────────────────────────────────────────────────────────────


def opened(data: bytes) -> nibabel.Nifti1Image:
    return nibabel.Nifti1Image.from_bytes(gzip.decompress(data))


@given(
    st.tuples(*[st.integers(1, 130)] * 3).filter(lambda shape: np.prod(shape) < 200_000),
    st.integers(0, 99),
)
def test_a_small_volume_is_small_and_as_large_in_millimetres(
    shape: tuple[int, int, int], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    before = np.where(generator.random(shape) < 0.5, generator.normal(size=shape), np.nan)
    before.flat[0] = 0.3
    one, other = (opened(small_volume(part, UPRIGHT_SPACING)) for part in (before, np.exp(before)))
    assert one.shape == other.shape
    np.testing.assert_array_equal(one.affine, other.affine)
    assert max(one.shape) <= 56
    assert min(old / new for old, new in zip(shape, one.shape, strict=True)) <= max(
        1, 2 * max(shape) / 56
    )
    # The same extent in millimetres, up to part of a voxel, and the same axes.
    steps = np.diag(one.affine)[:3]
    np.testing.assert_array_equal(one.affine[:3, :3], np.diag(steps))
    size = steps * one.shape
    assert (size >= np.array(UPRIGHT_SPACING) * shape - 1e-3).all()
    assert (size - steps < np.array(UPRIGHT_SPACING) * shape).all()


def test_a_volume_that_is_small_already_keeps_its_voxels() -> None:
    picture = np.where(coordinates() > 0, coordinates(), np.nan)
    small = opened(small_volume(picture, UPRIGHT_SPACING))
    data = np.asarray(small.dataobj)
    assert data.dtype == np.uint8
    np.testing.assert_array_equal(data > 0, np.isfinite(picture))
    assert (data.min(), data.max()) == (0, 255)
    order = np.argsort(picture[np.isfinite(picture)])
    assert (np.diff(data[np.isfinite(picture)][order].astype(int)) >= 0).all()
    assert small.header.get_zooms() == pytest.approx(UPRIGHT_SPACING)


def test_a_large_volume_is_averaged_over_blocks() -> None:
    picture = np.full((112, 40, 40), np.nan)
    picture[10:20, 10:20, 10:20] = 1.0
    picture[20:30, 10:20, 10:20] = 2.0
    picture[10, 10, 10] = np.nan
    data = np.asarray(opened(small_volume(picture, (1.0, 1.0, 1.0))).dataobj)
    assert data.shape == (56, 20, 20)
    expected = np.zeros(data.shape)
    expected[5:10, 5:10, 5:10], expected[10:15, 5:10, 5:10] = 1, 255
    expected[5, 5, 5] = 7 / 8
    np.testing.assert_array_equal(data, np.rint(expected))


@pytest.mark.parametrize("value", [0.0, -3.0, 1e300])
def test_a_constant_volume_can_be_shown(value: float) -> None:
    picture = np.full((4, 4, 4), np.nan)
    picture[1:3, 1:3, 1:3] = value
    data = np.asarray(opened(small_volume(picture, UPRIGHT_SPACING)).dataobj)
    np.testing.assert_array_equal(data > 0, np.isfinite(picture))


def test_the_same_volume_gives_the_same_bytes() -> None:
    picture = np.where(coordinates() > 0, coordinates(), np.nan)
    assert small_volume(picture, UPRIGHT_SPACING) == small_volume(picture.copy(), UPRIGHT_SPACING)


def test_all_thick_slices_are_kept() -> None:
    picture = np.ones((512, 512, 20))
    assert opened(small_volume(picture, (0.5, 0.5, 6.0))).shape == (52, 52, 20)
