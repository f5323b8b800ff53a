"""A scan before and after, upright and small."""

import gzip
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nibabel.orientations import axcodes2ornt, ornt_transform
from numpy.typing import NDArray

from ndflow.compare.views import BeforeAfter, before_after, fullest, slice_at, small_volume, upright
from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.study.scan_jobs import Member

SHAPE = (9, 11, 7)  # right, forward, up
SPACING = (1.0, 1.5, 2.5)
LIMIT = 1 << 30


def known() -> NDArray[np.float64]:
    """Return an upright picture in which each voxel says where it is; 0 outside."""
    x, y, z = np.meshgrid(*(np.arange(1, length + 1) for length in SHAPE), indexing="ij")
    inside = sum(((a - (n + 1) / 2) / (n / 2)) ** 2 for a, n in zip((x, y, z), SHAPE)) < 1  # noqa: B905
    return np.where(inside, 10_000.0 * x + 100 * y + z, 0)


def write(path: Path, upright: NDArray[np.float64], codes: str) -> Path:
    """Write a picture with its axes in other orders and directions, and an affine that knows."""
    affine = np.diag([*SPACING, 1.0])
    affine[:3, 3] = (-20, -30, 5)
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(codes))
    image = nibabel.Nifti1Image(upright.astype(np.float32), affine).as_reoriented(turn)
    assert nibabel.aff2axcodes(image.affine) == tuple(codes)
    nibabel.save(image, path)
    return path


def member(folder: Path, codes: str = "RAS", mask: Path | None = None) -> Member:
    """Return a scan, and as its result twice the scan plus one inside."""
    image = write(folder / "s.nii.gz", known(), codes)
    (folder / "images").mkdir(exist_ok=True)
    (folder / "maps").mkdir(exist_ok=True)
    write(folder / "images" / "s.nii.gz", np.where(known() > 0, 2 * known() + 1, 0), codes)
    record = {"format": "ndflow", "version": 1, "kind": "map", "settings": {"mask": "nonzero"}}
    (folder / "maps" / "s.json").write_text(json.dumps(record))
    return Member("s", str(image), mask and str(mask), folder, "images/*.nii.gz", "maps/*.json")


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "PIR", "SAL", "ASR", "IRP"])
def test_pictures_stand_upright_whatever_the_orientation_of_the_file(
    tmp_path: Path, codes: str
) -> None:
    pair = before_after(member(tmp_path, codes), LIMIT)
    upright = np.where(known() > 0, known(), np.nan)
    np.testing.assert_array_equal(pair.before, upright)
    np.testing.assert_array_equal(pair.after, 2 * upright + 1)
    assert pair.spacing == pytest.approx(SPACING)


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PIR"])
def test_slices_have_up_or_front_at_the_top_and_right_or_front_at_the_right(
    tmp_path: Path, codes: str
) -> None:
    pair = before_after(member(tmp_path, codes), LIMIT)._replace(spacing=(1.0, 1.0, 1.0))
    before, after = pair.slices()
    axial, coronal, sagittal = before
    assert [plane.shape for plane in before] == [(11, 9), (7, 9), (7, 11)]

    def part(plane: NDArray[np.float64], place: int) -> NDArray[np.float64]:
        return np.where(np.isfinite(plane), np.nan_to_num(plane) // 100**place % 100, np.nan)

    # In each: (what grows to the right, what grows upwards, what is the same all over).
    for plane, across, up, through in ((axial, 2, 1, 0), (coronal, 2, 0, 1), (sagittal, 1, 0, 2)):
        rights, ups = np.diff(part(plane, across), axis=1), np.diff(part(plane, up), axis=0)
        assert set(rights[np.isfinite(rights)]) == {1}
        assert set(ups[np.isfinite(ups)]) == {-1}
        here = part(plane, through)
        assert len(set(here[np.isfinite(here)])) == 1
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(other, 2 * one + 1)


def test_pixels_are_square_whatever_the_voxels_are() -> None:
    ball = np.add.outer(
        np.add.outer(np.linspace(-1, 1, 40) ** 2, np.linspace(-1, 1, 40) ** 2),
        np.linspace(-1, 1, 10) ** 2,
    )
    picture = np.where(ball < 1, 1.0, np.nan)
    before, _ = BeforeAfter(picture, picture, (1.0, 1.0, 4.0)).slices()
    for plane in before:
        assert plane.shape == (40, 40)
        down, across = (np.isfinite(plane).any(axis=axis).sum() for axis in (1, 0))
        assert abs(int(down) - int(across)) <= 8  # two of the thick slices


def test_a_slice_is_never_empty() -> None:
    picture = np.full((20, 20, 20), np.nan)
    picture[2, 3, 4] = picture[17, 16, 15] = 1.0  # between the two there is nothing
    before, _ = BeforeAfter(picture, picture, (1.0, 1.0, 1.0)).slices()
    assert all(np.isfinite(plane).any() for plane in before)


def test_slices_go_through_the_middle_of_what_is_inside() -> None:
    picture = np.full((20, 20, 20), np.nan)
    picture[15, 3, 8] = 7.0
    before, after = BeforeAfter(picture, picture + 1, (1.0, 1.0, 1.0)).slices()
    assert [np.nanmax(plane) for plane in (*before, *after)] == [7.0] * 3 + [8.0] * 3


def test_only_what_is_inside_the_mask_is_seen(tmp_path: Path) -> None:
    half = (np.arange(SHAPE[0]) < 5)[:, None, None] * np.ones(SHAPE)
    mask = write(tmp_path / "mask.nii.gz", half, "LPS")
    pair = before_after(member(tmp_path, "LPS", mask), LIMIT)
    for picture in (pair.before, pair.after):
        np.testing.assert_array_equal(np.isfinite(picture), half == 1)


def test_a_result_that_has_gone_is_named(tmp_path: Path) -> None:
    scan = member(tmp_path)
    scan.place.image.unlink()
    with pytest.raises(FileError, match=r"images.s\.nii\.gz"):
        before_after(scan, LIMIT)


# ── small volumes ────────────────────────────────────────────────────────────────────────────────


def opened(data: bytes) -> nibabel.Nifti1Image:
    return nibabel.Nifti1Image.from_bytes(gzip.decompress(data))


@given(
    st.tuples(*[st.integers(1, 130)] * 3).filter(lambda shape: np.prod(shape) < 200_000),
    st.integers(0, 99),
)
def test_a_small_volume_is_small_and_lies_where_the_other_does(
    shape: tuple[int, int, int], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    before = np.where(generator.random(shape) < 0.5, generator.normal(size=shape), np.nan)
    before.flat[0] = 0.3
    one, other = (opened(small_volume(part, SPACING)) for part in (before, np.exp(before)))
    assert one.shape == other.shape
    np.testing.assert_array_equal(one.affine, other.affine)
    assert max(one.shape) <= 56
    assert min(old / new for old, new in zip(shape, one.shape, strict=True)) <= max(
        1, 2 * max(shape) / 56
    )
    # As large in the world as before, up to a part of a voxel, and the axes are not turned.
    steps = np.diag(one.affine)[:3]
    np.testing.assert_array_equal(one.affine[:3, :3], np.diag(steps))
    size = steps * one.shape
    assert (size >= np.array(SPACING) * shape - 1e-3).all()
    assert (size - steps < np.array(SPACING) * shape).all()


def test_a_volume_that_is_small_keeps_its_voxels_and_is_zero_outside() -> None:
    picture = np.where(known() > 0, known(), np.nan)
    small = opened(small_volume(picture, SPACING))
    data = np.asarray(small.dataobj)
    assert data.dtype == np.uint8
    np.testing.assert_array_equal(data > 0, np.isfinite(picture))
    assert (data.min(), data.max()) == (0, 255)
    order = np.argsort(picture[np.isfinite(picture)])
    assert (np.diff(data[np.isfinite(picture)][order].astype(int)) >= 0).all()
    assert small.header.get_zooms() == pytest.approx(SPACING)


def test_a_large_volume_becomes_means_of_blocks() -> None:
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
def test_a_volume_of_one_value_can_be_shown(value: float) -> None:
    picture = np.full((4, 4, 4), np.nan)
    picture[1:3, 1:3, 1:3] = value
    data = np.asarray(opened(small_volume(picture, SPACING)).dataobj)
    np.testing.assert_array_equal(data > 0, np.isfinite(picture))


def test_the_same_volume_gives_the_same_bytes() -> None:
    picture = np.where(known() > 0, known(), np.nan)
    assert small_volume(picture, SPACING) == small_volume(picture.copy(), SPACING)


def test_thick_slices_are_all_kept() -> None:
    picture = np.ones((512, 512, 20))
    assert opened(small_volume(picture, (0.5, 0.5, 6.0))).shape == (52, 52, 20)


def test_a_slice_of_an_upright_picture_has_square_pixels(tmp_path: Path) -> None:
    volume = read_volume(member(tmp_path, "PIR").image)
    picture, spacing = upright(volume, volume.flat > 0)
    assert spacing == pytest.approx(SPACING)
    axial = slice_at(picture, spacing, 2, fullest(picture, 2))
    assert axial.shape == (round(SHAPE[1] * 1.5), SHAPE[0])
