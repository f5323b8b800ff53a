"""Previews: the slices that a reader expects, in any orientation, before and after."""

import gzip
import io
import re
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from nibabel.orientations import axcodes2ornt, ornt_transform
from PIL import Image

from ndflow.errors import FileError
from ndflow.image.mask import nonzero
from ndflow.image.preview import (
    Preview,
    encode_png,
    outline_of,
    preview_bytes,
    preview_of,
    read_preview,
    small_volume,
    upright,
)
from ndflow.image.read import read_volume
from ndflow.transport import Affine

SHAPE = (21, 25, 17)
DOUBLED = Affine(np.array([[2.0]]), np.array([10.0]))
X, Y, Z = np.indices(SHAPE)
VALUES = np.float32(100 + X + 30 * Y + 900 * Z)  # rise to the right, to the front, and upwards
INSIDE = np.zeros(SHAPE, bool)
INSIDE[4:15, 3:20, 5:12] = True
SPACING = (1.0, 1.5, 2.5)


def preview(
    values: np.ndarray = VALUES,
    inside: np.ndarray = INSIDE,
    lesion: np.ndarray | None = None,
    sizes: tuple[float, ...] = (1.0, 1.0, 1.0),
    axes: str = "RAS",
) -> Preview:
    """Return the preview of a volume that is stored along other axes."""
    change = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(axes))

    def turned(data: np.ndarray) -> nibabel.Nifti1Image:
        image = nibabel.Nifti1Image(data.astype(np.float32), np.diag([*sizes, 1.0]))
        return image.as_reoriented(change)

    masks = [None if one is None else turned(one).dataobj for one in (inside, lesion)]
    flat = [None if one is None else (one != 0).reshape(-1, order="F") for one in masks]
    return preview_of(read_volume(turned(values)), flat[0], DOUBLED, flat[1])


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
    found = preview()
    planes = panels(found.before, found.widths)
    # Rows from top to bottom: the front of an axial slice, and up in the others, is at the top.
    assert [plane.shape for plane in planes] == [(17, 11), (7, 11), (7, 17)]
    for plane in planes:
        assert (np.diff(plane.astype(int), axis=0) <= 0).all()
        assert (np.diff(plane.astype(int), axis=1) >= 0).all()
        assert plane[0, -1] > plane[-1, 0]


@pytest.mark.parametrize("axes", ["LPS", "SRA", "PIR"])
def test_pixels_are_square_and_the_same_however_the_voxels_are_stored(axes: str) -> None:
    expected, found = (preview(sizes=(1.0, 2.0, 3.0), axes=one) for one in ("RAS", axes))
    shapes = [plane.shape for plane in panels(expected.before, expected.widths)]
    assert shapes == [(34, 11), (21, 11), (11, 17)]  # the last in units of 2 mm: 7 · 3 / 2
    assert found.widths == expected.widths
    np.testing.assert_array_equal(found.before, expected.before)
    np.testing.assert_array_equal(found.after, expected.after)


def test_greys_are_intensities_in_the_window_and_the_result_is_mapped() -> None:
    found = preview()
    for greys, (low, high), truth in (
        (found.before, found.before_window, VALUES),
        (found.after, found.after_window, 10 + 2 * VALUES),
    ):
        shown = low + (high - low) * (panels(greys, found.widths)[0] - 1.0) / 254
        planes = np.clip(truth[4:15, 3:20].transpose(2, 1, 0)[:, ::-1], low, high)
        off = np.abs(shown - planes).max(axis=(1, 2))
        assert off.min() < (high - low) / 254
        assert 7 <= np.argmin(off) <= 10
    assert found.after_window == pytest.approx([10 + 2 * end for end in found.before_window])


def test_odd_values_and_affines_have_a_preview_too() -> None:
    few = np.zeros((60, 60, 60), bool)
    few[7, 13, 51] = few[56, 3, 9] = True  # between the two there is nothing
    found = preview(np.ones(few.shape), few)
    assert all((plane > 0).any() for plane in panels(found.before, found.widths))
    for value in (7.0, np.nan):
        low, high = preview(np.full(SHAPE, value)).before_window
        assert low < high
    for diagonal in ((0, 0, 0), (1, 1, 0), (1e-4, 1, 1)):
        volume = replace(read_volume(VALUES), affine=np.diag([*diagonal, 1.0]))
        greys = preview_of(volume, INSIDE.reshape(-1, order="F"), DOUBLED).before
        assert greys.any()
        assert max(greys.shape) < 2000


@pytest.mark.parametrize("shape", [(20, 30), (20, 1, 30), (40, 1, 1)])
def test_an_image_of_one_slice_has_a_preview_of_it(shape: tuple[int, ...]) -> None:
    volume = read_volume(np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape))
    found = preview_of(volume, volume.flat > 0, DOUBLED)
    assert len(found.widths) == 1
    assert np.count_nonzero(found.before) == volume.flat.size
    assert found.axial(found.after).any()


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
    turned = re.sub(r"M(\d+) (\d+)([hv])", lambda m: f"M{m[2]} {m[1]}{'vh'[m[3] == 'v']}", path)
    assert np.array_equal(filled(turned, region.T.shape), region.T)


@pytest.mark.parametrize("axes", ["RAS", "SRA"])
def test_slices_go_through_the_lesion_and_outline_it(axes: str) -> None:
    lesion = np.zeros(SHAPE, bool)
    lesion[5:8, 4:9, 10:14] = True  # part of it lies outside the mask
    found = preview(np.where(lesion, 1e5, VALUES), lesion=lesion, sizes=(1.0, 2.0, 1.5), axes=axes)
    shown = filled(found.lesion, found.before.shape)
    assert np.array_equal(shown, found.before == 255)
    assert all(plane.all() for plane in panels(np.where(shown, 9, 0), found.widths))  # rectangles
    assert preview(lesion=~INSIDE).lesion == ""


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_is_read_as_it_was_written_and_damage_is_named(tmp_path: Path) -> None:
    found = preview(lesion=(X == 9) & (Y < 9))
    assert found.lesion
    content, path = preview_bytes(found), tmp_path / "a.png"
    path.write_bytes(content)
    again = read_preview(path)
    np.testing.assert_array_equal(again.before, found.before)
    np.testing.assert_array_equal(again.after, found.after)
    for name in ("before_window", "after_window", "widths", "lesion"):
        assert getattr(again, name) == getattr(found, name)
    other = io.BytesIO()
    Image.fromarray(found.before).save(other, "PNG")
    script = {"before": [0, 1], "after": [0, 1], "widths": [4], "lesion": '"/><script>'}
    attack = encode_png(np.ones((4, 4), np.uint8), script)
    flipped = content.replace(b"ndflow", b"ndflew")
    for damaged in (b"", content[:-40], content[:9], flipped, other.getvalue(), attack):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"a\.png: not a preview, or damaged"):
            read_preview(path)
    with pytest.raises(FileError, match=r"b\.png: no such file"):
        read_preview(tmp_path / "b.png")


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (40, 300)])
def test_another_library_reads_greys_and_colours(shape: tuple[int, int]) -> None:
    numbers = np.random.default_rng(1).integers(0, 3, shape, np.uint8)
    grey = Image.open(io.BytesIO(encode_png(numbers, {"a": [1, 2]})))
    assert grey.text["ndflow"] == '{"a": [1, 2]}'
    np.testing.assert_array_equal(np.asarray(grey), numbers)
    transparent = np.asarray(grey.convert("RGBA"))[..., 3] == 0
    np.testing.assert_array_equal(transparent, numbers == 0)
    content = encode_png(numbers, palette=["#000000", "#D55E00", "#0102ff"])
    colours = np.array([[0, 0, 0], [0xD5, 0x5E, 0], [1, 2, 255]])
    found = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    np.testing.assert_array_equal(found, colours[numbers])


# ── upright and small volumes ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PIR", "SAL"])
def test_volumes_of_any_orientation_are_turned_upright(codes: str) -> None:
    image = nibabel.Nifti1Image(np.where(INSIDE, VALUES, 0), np.diag([*SPACING, 1.0]))
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(codes))
    volume = read_volume(image.as_reoriented(turn))
    picture, spacing = upright(volume, nonzero([volume]))
    np.testing.assert_array_equal(picture, np.where(INSIDE, VALUES, np.nan))
    assert spacing == pytest.approx(SPACING)


def opened(data: bytes) -> nibabel.Nifti1Image:
    return nibabel.Nifti1Image.from_bytes(gzip.decompress(data))


@settings(max_examples=25)
@given(st.tuples(*[st.integers(1, 130)] * 3).filter(lambda shape: np.prod(shape) < 100_000))
def test_a_small_volume_is_small_and_as_large_in_millimetres(shape: tuple[int, ...]) -> None:
    small = opened(small_volume(np.random.default_rng(0).random(shape), SPACING))
    assert max(small.shape) <= 56
    steps = np.diag(small.affine)[:3]
    np.testing.assert_array_equal(small.affine[:3, :3], np.diag(steps))
    size, before = steps * small.shape, np.array(SPACING) * shape
    assert (size >= before - 1e-3).all()
    assert (size - steps < before).all()  # up to part of a voxel


def test_a_large_volume_is_averaged_over_blocks() -> None:
    picture = np.full((112, 40, 40), np.nan)
    picture[10:20, 10:20, 10:20] = 1.0
    picture[20:30, 10:20, 10:20] = 2.0
    picture[10, 10, 10] = np.nan
    cropped = opened(small_volume(picture, (1.0, 1.0, 1.0)))
    assert cropped.shape == (20, 10, 10)
    assert np.unique(cropped.get_fdata()) == pytest.approx([1 - 1 / 254, 1, 2])
    picture[0, 0, 0] = picture[-1, -1, -1] = 1.0
    data = opened(small_volume(picture, (1.0, 1.0, 1.0))).dataobj.get_unscaled()
    expected = np.zeros((56, 20, 20))
    expected[5:10, 5:10, 5:10], expected[10:15, 5:10, 5:10] = 1, 255
    expected[5, 5, 5] = 7 / 8
    np.testing.assert_array_equal(data, np.rint(expected))
    assert opened(small_volume(np.ones((52, 52, 20)), (5.0, 5.0, 6.0))).shape == (52, 52, 20)
