"""The picture for quality control: outlines where borders are, and what is shown when."""

import io
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.orientations import axcodes2ornt, inv_ornt_aff, ornt_transform
from PIL import Image
from scipy import ndimage

from ndflow.image.read import read_volume
from ndflow.preparation.picture import OUTLINES, preparation_picture
from ndflow.preparation.volume import Measures, PreparedVolume

SHAPE = (330, 24, 20)  # voxels of 0.5 mm, as large as the pixels of a picture
GAP = 6
RAS = np.diag([0.5, 0.5, 0.5, 1.0])


def _ellipsoid(shrink: float = 1.0) -> Any:
    grid = np.indices(SHAPE) + 0.5
    half = np.array(SHAPE)[:, None, None, None] / 2
    return (((grid - half) / (half - 2) / shrink) ** 2).sum(axis=0) < 1


BRAIN = _ellipsoid()
WHITE = _ellipsoid(0.5)
GREY = _ellipsoid(0.8) & ~WHITE
TISSUES = np.stack([BRAIN & ~GREY & ~WHITE, GREY, WHITE]).astype(np.float32)
LESION = np.zeros(SHAPE, bool)
LESION[200:220, 10:14, 6:9] = True
VALUES = np.random.default_rng(0).normal(100, 10, SHAPE).astype(np.float32)


def _picture(
    *,
    tissues: Any = TISSUES,
    field: Any = (0.9, 1.1),
    lesion: Any = None,
    values: Any = VALUES,
    affine: Any = RAS,
    brain: Any = BRAIN,
) -> Any:
    """Return the colours of all pixels."""
    volume = read_volume(nibabel.Nifti1Image(values, affine))
    known = np.isfinite(values)
    corrected = np.where(known, values, 0) / 1.1
    measures = Measures(100.0, field=field)
    content = preparation_picture(
        volume, PreparedVolume(corrected, brain & known, tissues, measures), lesion
    )
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def _where(picture: Any, name: str) -> Any:
    colour = [int(OUTLINES[name][at : at + 2], 16) for at in (1, 3, 5)]
    return (picture == colour).all(axis=-1)


def _panel(picture: Any, row: int, axis: int) -> Any:
    """Return one of the slices, with axes as the volume has them."""
    x, y, z = SHAPE
    sizes = [(y, z), (x, z), (x, y)]  # sagittal, coronal, axial
    height = max(high for _, high in sizes)
    left = sum(wide + GAP for wide, _ in sizes[:axis])
    wide, high = sizes[axis]
    top = row * (height + GAP) + (height - high) // 2
    return picture[top : top + high, left : left + wide][::-1].swapaxes(0, 1)


def _outline(inside: Any) -> Any:
    return inside & ~ndimage.binary_erosion(inside, border_value=1)


def _fullest(region: Any, axis: int) -> Any:
    """Return the first of the slices with the most voxels."""
    counts = [region.take(place, axis).sum() for place in range(region.shape[axis])]
    return counts.index(max(counts))


@pytest.mark.parametrize("axis", range(3))
def test_outlines_are_where_the_borders_are(axis: int) -> None:
    picture = _picture()
    place = _fullest(BRAIN, axis)
    regions = {"mask": (0, BRAIN), "GM": (1, GREY | WHITE), "WM": (1, WHITE)}
    for name, (row, region) in regions.items():
        expected = _outline(region.take(place, axis))
        found = _where(_panel(picture, row, axis), name)
        assert expected.any()
        np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("axis", range(3))
def test_the_slices_lead_through_a_lesion(axis: int) -> None:
    picture = _picture(lesion=LESION)
    plane = LESION.take(_fullest(LESION, axis), axis)
    for row in range(2):
        found = _where(_panel(picture, row, axis), "lesion")
        np.testing.assert_array_equal(found, _outline(plane))


@pytest.mark.parametrize("codes", ["LAS", "PIR", "SAL"])
def test_any_orientation_gives_the_same_picture(codes: str) -> None:
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(codes))

    def turned(array: Any) -> Any:
        return nibabel.orientations.apply_orientation(array, turn)

    affine = RAS @ inv_ornt_aff(turn, SHAPE)
    other = _picture(
        values=turned(VALUES),
        brain=turned(BRAIN),
        tissues=np.stack([turned(part) for part in TISSUES]),
        affine=affine,
        lesion=turned(LESION),
    )
    np.testing.assert_array_equal(other, _picture(lesion=LESION))


def test_a_border_of_coarse_voxels_is_where_they_end() -> None:
    """A box of voxels of 4 x 3 x 5 mm, in pixels of 0.5 mm."""
    box = np.zeros((40, 70, 30), bool)
    box[10:30, 10:60, 8:25] = True
    values = np.random.default_rng(0).normal(100, 10, box.shape).astype(np.float32)
    affine = np.diag([4.0, 3.0, 5.0, 1.0])
    picture = _picture(values=values, brain=box, affine=affine, tissues=None, field=None)
    drawn = _where(picture, "mask")
    rows, columns = np.nonzero(drawn[:, : (150 + 20) * 2])  # the sagittal slice: y and z
    assert columns.max() - columns.min() + 1 == 50 * 3 * 2
    assert rows.max() - rows.min() + 1 == 17 * 5 * 2
    assert columns.min() == 10 * 2  # the margin


def test_what_was_not_done_is_not_shown_and_what_is_not_finite_is_black() -> None:
    values = VALUES.copy()
    values[:20] = np.nan
    both, without = _picture(), _picture(values=values, tissues=None)
    height = (both.shape[0] - GAP) // 2
    assert _picture(field=None).shape == without.shape == both.shape
    assert _picture(field=None, tissues=None).shape[0] == height
    assert _where(without[height:], "mask").any()
    assert not _where(without, "WM").any()
    before, after = (_panel(without, row, 2).astype(int) for row in range(2))
    assert (before[:10] == 0).all()
    assert before[100:].mean() > after[100:].mean() + 5  # darker by a tenth, in the same window


def test_a_channel_has_a_row_and_a_window_of_its_own() -> None:
    """With the borders that were found in the scan."""
    moved = [("FLAIR", 5 * VALUES)]
    volume = read_volume(nibabel.Nifti1Image(VALUES, RAS))
    prepared = PreparedVolume(VALUES, BRAIN, TISSUES, Measures(100.0, field=(1.0, 1.0)))
    content = preparation_picture(volume, prepared, moved=moved)
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    for axis in range(3):
        assert np.array_equal(_panel(picture, 2, axis), _panel(picture, 1, axis))
