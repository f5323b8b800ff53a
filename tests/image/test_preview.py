"""Previews: the slices that a reader expects, in any orientation, before and after."""

import gzip
import io
import re
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from nibabel.orientations import axcodes2ornt, inv_ornt_aff, ornt_transform
from phantoms import UPRIGHT, UPRIGHT_SPACING, coordinates, save_oriented
from PIL import Image

from ndflow.errors import FileError
from ndflow.image.mask import Nonzero
from ndflow.image.preview import (
    Preview,
    encode_png,
    fullest,
    outline_of,
    preview_bytes,
    preview_of,
    read_preview,
    slice_at,
    small_volume,
    upright,
)
from ndflow.image.read import read_volume
from ndflow.transport import Affine

SHAPE = (21, 25, 17)
DOUBLED = Affine(np.array([[2.0]]), np.array([10.0]))


def head() -> tuple[np.ndarray, np.ndarray]:
    """A bright box in a dark one: values rise to the right, more to the front, most upwards."""
    x, y, z = np.indices(SHAPE)
    values = np.float32(100 + x + 30 * y + 900 * z)
    inside = np.zeros(SHAPE, bool)
    inside[4:15, 3:20, 5:12] = True
    return values, inside


def preview(values: np.ndarray, inside: np.ndarray, affine: np.ndarray | None = None) -> Preview:
    affine = np.eye(4) if affine is None else affine
    volume = read_volume(nibabel.Nifti1Image(values, affine))
    return preview_of(volume, inside.reshape(-1, order="F"), DOUBLED)


def panels(greys: np.ndarray, widths: tuple[int, ...]) -> list[np.ndarray]:
    """Return each slice, without what is empty around it."""
    found, start = [], 0
    for width in widths:
        plane = greys[:, start : start + width]
        rows, columns = (np.flatnonzero((plane > 0).any(axis=axis)) for axis in (1, 0))
        found.append(plane[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
        start += width + 2
    assert start - 2 == greys.shape[1]
    return found


def test_slices_are_axial_coronal_and_sagittal_upright_and_cropped_to_the_mask() -> None:
    values, inside = head()
    found = preview(values, inside)
    axial, coronal, sagittal = panels(found.before, found.widths)
    # Rows from top to bottom: the front of an axial slice, and up in the others, is at the top.
    assert (axial.shape, coronal.shape, sagittal.shape) == ((17, 11), (7, 11), (7, 17))
    for plane in (axial, coronal, sagittal):
        assert (np.diff(plane.astype(int), axis=0) <= 0).all()
        assert (np.diff(plane.astype(int), axis=1) >= 0).all()
        assert plane[0, -1] > plane[-1, 0]


@pytest.mark.parametrize("axes", ["LPS", "SRA", "PIR", "ASL"])
def test_the_preview_is_the_same_however_the_voxels_are_stored(axes: str) -> None:
    values, inside = head()
    affine = np.diag([1.0, 2.0, 1.5, 1.0])
    expected = preview(values, inside, affine)
    change = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(axes))
    turned = nibabel.Nifti1Image(values, affine).as_reoriented(change)
    mask = nibabel.Nifti1Image(inside.astype(np.uint8), affine).as_reoriented(change)
    stored = np.ascontiguousarray(turned.get_fdata(dtype=np.float32))
    np.testing.assert_allclose(turned.affine, affine @ inv_ornt_aff(change, SHAPE))
    found = preview(stored, np.asarray(mask.dataobj).astype(bool), turned.affine)
    assert found.widths == expected.widths
    np.testing.assert_array_equal(found.before, expected.before)
    np.testing.assert_array_equal(found.after, expected.after)


def test_pixels_are_square_whatever_the_voxels_are() -> None:
    values, inside = head()
    found = preview(values, inside, np.diag([1.0, 2.0, 3.0, 1.0]))
    shapes = [plane.shape for plane in panels(found.before, found.widths)]
    assert shapes == [(34, 11), (21, 11), (11, 17)]  # the last in units of 2 mm: 7 · 3 / 2


def test_greys_are_intensities_in_the_window_and_the_result_is_mapped() -> None:
    values, inside = head()
    found = preview(values, inside)
    for greys, window, truth in (
        (found.before, found.before_window, values),
        (found.after, found.after_window, 10 + 2 * values),
    ):
        low, high = window
        axial = panels(greys, found.widths)[0]
        shown = low + (high - low) * (axial - 1.0) / 254
        off = [
            np.abs(shown - np.clip(truth[4:15, 3:20, z].T[::-1], low, high)).max()
            for z in range(SHAPE[2])
        ]
        assert min(off) < (high - low) / 254
        assert 7 <= np.argmin(off) <= 10
    assert found.after_window == pytest.approx([10 + 2 * end for end in found.before_window])


def test_without_a_mask_slices_go_through_the_head_not_through_the_noise() -> None:
    values = np.random.default_rng(0).uniform(1, 5, SHAPE).astype(np.float32)
    values[6:14, 12:20, 9:15] += 1000
    found = preview(values, values > 0)
    for plane in panels(found.before, found.widths):
        assert np.mean(plane > 200) > 0.05


def test_a_slice_is_never_empty_however_few_voxels_are_inside() -> None:
    values = np.ones((120, 120, 120), np.float32)
    inside = np.zeros(values.shape, bool)
    inside[7, 13, 101] = inside[111, 3, 9] = True  # between the two there is nothing
    found = preview(values, inside)
    assert all((plane > 0).any() for plane in panels(found.before, found.widths))


def test_voxels_that_are_all_alike_or_not_finite_have_a_preview_too() -> None:
    values, inside = head()
    for odd in (np.full(SHAPE, 7.0, np.float32), np.full(SHAPE, np.nan, np.float32)):
        found = preview(odd, inside)
        assert found.before_window[0] < found.before_window[1]
        assert found.before.shape == found.after.shape
    values[8, 8, 8] = np.inf
    assert np.isfinite(preview(values, inside).before_window).all()


def test_a_preview_is_read_as_it_was_written_and_damage_is_named(tmp_path: Path) -> None:
    found = preview(*head())
    path = tmp_path / "a.png"
    path.write_bytes(preview_bytes(found))
    again = read_preview(path)
    np.testing.assert_array_equal(again.before, found.before)
    np.testing.assert_array_equal(again.after, found.after)
    assert (again.before_window, again.after_window) == (found.before_window, found.after_window)
    assert again.widths == found.widths
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileError, match=r"a\.png"):
        read_preview(path)
    with pytest.raises(FileError, match=r"b\.png"):
        read_preview(tmp_path / "b.png")
    for widths in ([], [0, 5], [1e400], [10**6]):
        note = {"before": [0, 1], "after": [0, 1], "widths": widths}
        path.write_bytes(encode_png(np.ones((4, 9), np.uint8), note))
        with pytest.raises(FileError, match=r"a\.png"):
            read_preview(path)


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 1), (1, 20, 30), (20, 1, 30), (40, 1, 1)])
def test_an_image_of_one_slice_has_a_preview_of_it(shape: tuple[int, ...]) -> None:
    values = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    found = preview(values, values > 0)
    assert len(found.widths) == 1
    assert np.count_nonzero(found.before) == values.size
    assert found.axial(found.after).any()


@pytest.mark.parametrize(
    "affine",
    [np.zeros((4, 4)), np.diag([1.0, 1.0, 0.0, 1.0]), np.diag([1e-4, 1, 1, 1])],
    ids=["zero", "singular", "needles"],
)
def test_an_affine_that_cannot_be_right_costs_no_more_than_the_shape(affine: np.ndarray) -> None:
    values, inside = head()
    volume = replace(read_volume(values), affine=affine)
    found = preview_of(volume, inside.reshape(-1, order="F"), DOUBLED)
    assert max(found.before.shape) < 2000
    assert found.before.any()


# ── lesions ──────────────────────────────────────────────────────────────────────────────────────


def filled(path: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a path encloses, by counting the upright edges to the left of each pixel."""
    crossed = np.zeros((shape[0], shape[1] + 1), int)
    for at, row, length in re.findall(r"M(\d+) (\d+)v(\d+)", path):
        crossed[int(row) : int(row) + int(length), int(at)] += 1
    return np.cumsum(crossed, axis=1)[:, :-1] % 2 == 1


@given(arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 9))))
def test_an_outline_encloses_the_region_and_nothing_else(region: np.ndarray) -> None:
    path = outline_of(region)
    assert np.array_equal(filled(path, region.shape), region)
    turned = re.sub(
        r"M(\d+) (\d+)([hv])", lambda m: f"M{m[2]} {m[1]}{'vh'['hv'.index(m[3])]}", path
    )
    assert np.array_equal(filled(turned, region.T.shape), region.T)


@pytest.mark.parametrize("axes", ["RAS", "LPS", "SRA"])
def test_slices_go_through_the_lesion_and_outline_it(axes: str, tmp_path: Path) -> None:
    values, inside = head()
    lesion = np.zeros(SHAPE, bool)
    lesion[5:8, 4:9, 10:14] = True  # part of it lies outside the mask
    values[lesion] = 1e5
    affine = np.diag([1.0, 2.0, 1.5, 1.0])
    change = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(axes))

    def turned(data: np.ndarray) -> nibabel.Nifti1Image:
        return nibabel.Nifti1Image(data.astype(np.float32), affine).as_reoriented(change)

    flat = [
        turned(part).get_fdata().astype(bool).reshape(-1, order="F") for part in (inside, lesion)
    ]
    found = preview_of(read_volume(turned(values)), flat[0], DOUBLED, flat[1])
    shown = filled(found.lesion, found.before.shape)
    assert np.array_equal(shown, found.before == 255)
    for plane in panels(np.where(shown, 9, 0), found.widths):
        assert plane.all()  # each of the three slices shows a rectangle
    (tmp_path / "p.png").write_bytes(preview_bytes(found))
    assert read_preview(tmp_path / "p.png").lesion == found.lesion


def test_a_lesion_outside_the_mask_changes_nothing() -> None:
    values, inside = head()
    lesion = ~inside.reshape(-1, order="F")
    volume = read_volume(nibabel.Nifti1Image(values, np.eye(4)))
    found = preview_of(volume, inside.reshape(-1, order="F"), DOUBLED, lesion)
    assert found.lesion == ""
    assert np.array_equal(found.before, preview(values, inside).before)


def test_an_outline_that_is_no_path_is_refused(tmp_path: Path) -> None:
    note = {"before": [0, 1], "after": [0, 1], "widths": [4], "lesion": '"/><script>'}
    (tmp_path / "p.png").write_bytes(encode_png(np.ones((4, 4), np.uint8), note))
    with pytest.raises(FileError, match="not a preview, or damaged"):
        read_preview(tmp_path / "p.png")


# ── upright volumes ───────────────────────────────────────────────────────────────────────────────


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


# ── PNG ───────────────────────────────────────────────────────────────────────────────────────────


GREYS = np.random.default_rng(0).integers(0, 256, (7, 11), np.uint8)


def test_another_library_reads_the_greys_and_that_0_is_transparent() -> None:
    image = Image.open(io.BytesIO(encode_png(GREYS, {"a": [1, 2]})))
    assert (image.mode, image.size) == ("L", (11, 7))
    np.testing.assert_array_equal(np.asarray(image), GREYS)
    assert image.info["transparency"] == 0
    assert image.text["ndflow"] == '{"a": [1, 2]}'
    alpha = np.asarray(image.convert("RGBA"))[..., 3]
    np.testing.assert_array_equal(alpha == 0, GREYS == 0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (40, 300)])
def test_another_library_reads_the_colours(shape: tuple[int, int]) -> None:
    numbers = np.random.default_rng(1).integers(0, 3, shape, np.uint8)
    content = encode_png(numbers, {"a": 1}, ["#000000", "#D55E00", "#0102ff"])
    image = Image.open(io.BytesIO(content))
    colours = np.array([[0, 0, 0], [0xD5, 0x5E, 0], [1, 2, 255]])
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), colours[numbers])
    assert image.text["ndflow"] == '{"a": 1}'


def test_every_damaged_byte_is_noticed_and_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "there.png"
    content = preview_bytes(Preview(GREYS, GREYS, (0.0, 1.0), (0.0, 1.0), (11,)))
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"there\.png"):
            read_preview(path)
    for length in range(len(content) - 12):  # without its last chunk it is still all there
        path.write_bytes(content[:length])
        with pytest.raises(FileError):
            read_preview(path)


def test_a_picture_of_another_program_is_refused(tmp_path: Path) -> None:
    Image.fromarray(GREYS).save(tmp_path / "other.png")
    with pytest.raises(FileError, match=r"other\.png"):
        read_preview(tmp_path / "other.png")
