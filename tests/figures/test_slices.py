"""The figure of slices before and after normalisation."""

import re
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from ndflow.errors import InvalidValueError
from ndflow.figures.export import svg
from ndflow.figures.slices import slices_figure

SHAPES = ((50, 40), (30, 40), (30, 50))
WINDOW = (-2.0, 2.0)


def pictures(scale: float = 1.0, seed: int = 0, shapes=SHAPES) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [scale * generator.normal(size=shape) for shape in shapes]


def strips(figure: Figure) -> list[np.ma.MaskedArray]:
    return [axes.images[0].get_array() for axes in figure.axes]


def test_slices_are_side_by_side_with_before_above_after():
    old, new = pictures(), pictures(seed=1)
    figure = slices_figure(old, new, "a scan", WINDOW)
    assert [axes.get_ylabel() for axes in figure.axes] == ["before", "after"]
    assert figure.axes[0].get_title() == "a scan"
    assert [text.get_text() for text in figure.axes[0].texts] == ["axial", "coronal", "sagittal"]
    upper, lower = (axes.get_position() for axes in figure.axes)
    assert upper.y0 > lower.y1
    for strip, given_ in zip(strips(figure), (old, new), strict=True):
        at = 0
        for picture in given_:
            columns = picture.shape[1]
            at = next(c for c in range(at, strip.shape[1]) if not strip[:, c].mask.all())
            part = strip[:, at : at + columns].compressed()
            np.testing.assert_allclose(part, picture.ravel())  # no pixel lost or moved
            at += columns


def test_each_view_has_its_name_centred_above_it():
    figure = slices_figure(pictures(), pictures(), "x", WINDOW)
    filled = ~strips(figure)[0].mask.all(axis=0)
    starts = np.flatnonzero(np.diff(filled.astype(int)) == 1) + 1
    ends = np.flatnonzero(np.diff(filled.astype(int)) == -1)
    places = [text.get_position()[0] for text in figure.axes[0].texts]
    np.testing.assert_allclose(places, 0.5 * (starts + ends))


def test_before_has_its_own_grey_window_and_after_the_one_given():
    old = pictures(100.0)
    before, after = (
        axes.images[0].get_clim() for axes in slices_figure(old, pictures(), "x", WINDOW).axes
    )
    assert after == WINDOW
    values = np.concatenate([picture.ravel() for picture in old])
    shares = [np.mean(values < end) for end in before]
    np.testing.assert_allclose(shares, [0.01, 0.995], atol=2 / values.size)


def test_the_outside_is_black_and_empty_margins_are_cropped():
    old = [np.pad(p, 9, constant_values=np.nan) for p in pictures()]
    for picture in old:
        picture[20:23, 20:23] = np.nan
    figure = slices_figure(old, old, "x", WINDOW)
    plain = slices_figure(pictures(), pictures(), "x", WINDOW)
    for strip, whole in zip(strips(figure), strips(plain), strict=True):
        assert strip.shape == whole.shape
        assert strip.mask.sum() == whole.mask.sum() + 3 * 9
    image = figure.axes[0].images[0]
    shown = image.to_rgba(strips(figure)[0])[strips(figure)[0].mask]
    assert {tuple(pixel) for pixel in shown.tolist()} == {(0.0, 0.0, 0.0, 1.0)}


def test_pixels_that_exist_only_after_are_kept():
    old, new = pictures(), pictures()
    old[0] = np.pad(old[0], 3, constant_values=np.nan)
    new[0] = np.pad(new[0], 3, constant_values=1.0)
    after = strips(slices_figure(old, new, "x", WINDOW))[1]
    assert after.count() == sum(picture.size for picture in new)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(0, 50))
def test_large_slices_are_averaged_over_blocks(factor: int, seed: int):
    small = pictures(seed=seed, shapes=((96, 80), (70, 80), (70, 96)))
    large = [np.kron(picture, np.ones((factor, factor))) for picture in small]
    if factor == 2:  # changes that cancel within each block
        large = [p + np.tile([[1, -1], [-1, 1]], np.array(p.shape) // 2) for p in large]
    figure = slices_figure(large, large, "x", WINDOW)
    plain = slices_figure(small, small, "x", WINDOW)
    np.testing.assert_allclose(strips(figure)[1], strips(plain)[1], atol=1e-12)


def test_large_slices_are_reduced_at_the_same_scale():
    shapes = ((300, 200), (150, 200), (150, 300))
    strip = strips(slices_figure(pictures(shapes=shapes), pictures(shapes=shapes), "x", WINDOW))[0]
    inside = ~strip.mask
    starts = np.flatnonzero(np.diff(inside.any(axis=0).astype(int)) == 1) + 1
    ends = np.flatnonzero(np.diff(inside.any(axis=0).astype(int)) == -1) + 1
    np.testing.assert_array_equal(ends - starts, [64, 64, 96])
    heights = [inside[:, at].sum() for at in starts]
    np.testing.assert_array_equal(heights, [96, 48, 48])


def test_a_pixel_mostly_outside_stays_outside_and_others_average_the_inside_only():
    large = np.full((192, 192), 5.0)
    large[:2, 2:4] = [[np.nan, np.nan], [np.nan, 7.0]]
    large[:2, 4:6] = [[1.0, np.nan], [3.0, np.nan]]
    strip = strips(slices_figure([large] * 3, [large] * 3, "x", WINDOW))[0]
    top, left = (int(np.flatnonzero((~strip.mask).any(axis=axis))[0]) for axis in (1, 0))
    assert strip[top, left] == pytest.approx(5)
    assert strip.mask[top, left + 1]
    assert strip[top, left + 2] == pytest.approx(2)


def test_the_file_is_small_and_reproducible_and_stores_each_strip_once():
    i, j = np.mgrid[-1:1:250j, -1:1:250j]
    noise = np.random.default_rng(0).normal(scale=0.05, size=i.shape)
    brain = np.where(np.hypot(i, 1.2 * j) < 1, np.sin(9 * i) * np.cos(7 * j) + noise, np.nan)
    drawing = svg(slices_figure([brain] * 3, [brain] * 3, "x", (-1.0, 1.0)))
    assert drawing == svg(slices_figure([brain] * 3, [brain] * 3, "x", (-1.0, 1.0)))
    assert len(drawing) < 60_000
    stored = re.findall(rb'base64,\s*([^"]*)"', drawing)
    assert len(stored) == 2
    for data in stored:
        picture = Image.open(BytesIO(b64decode(data)))
        assert picture.height <= 110
        assert len(picture.convert("L").getcolors()) <= 32


def test_constant_and_tiny_slices_can_be_drawn():
    flat = [np.ones((5, 5))] * 3
    assert svg(slices_figure(flat, flat, "", WINDOW)).count(b"<image") == 2
    tiny = [np.ones((1, 1)), np.ones((1, 400)), np.ones((400, 1))]
    assert svg(slices_figure(tiny, tiny, "x", WINDOW)).count(b"<image") == 2


@pytest.mark.parametrize(
    ("old", "new", "window", "message"),
    [
        (pictures()[:2], pictures(), WINDOW, "before must hold the 3 slices"),
        (pictures(), [], WINDOW, "after must hold the 3 slices"),
        (
            [np.ones(5), *pictures()[1:]],
            pictures(),
            WINDOW,
            "axial slice before must be a 2D image",
        ),
        (pictures(), [*pictures()[:2], np.full((3, 3), np.nan)], WINDOW, "sagittal slice after"),
        (pictures(), pictures()[::-1], WINDOW, "axial slice must have the same shape"),
        (pictures(), pictures(), (1.0, 1.0), "window must be increasing"),
        (pictures(), pictures(), (0.0, np.inf), "window must be finite"),
    ],
)
def test_invalid_slices_and_windows_are_refused(old, new, window, message: str):
    with pytest.raises(InvalidValueError, match=message):
        slices_figure(old, new, "x", window)
