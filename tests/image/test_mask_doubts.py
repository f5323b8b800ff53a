"""What is measured about a mask, against closed forms, and when that makes it doubtful."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray

from ndflow.image.mask import nonzero
from ndflow.image.mask_doubts import MaskFigures, mask_doubts, measure_mask
from ndflow.image.read import read_volume

ROOM = 10.0  # mm around an ellipsoid
TWO = (2.0, 2.0, 2.0)
BALL = (60.0, 60.0, 60.0)


def depth(size: tuple[float, ...], radii: tuple[float, ...] = BALL) -> NDArray[np.float64]:
    """Return roughly how many mm each voxel lies below the surface of an ellipsoid."""
    axes = [np.arange(-r - ROOM + s / 2, r + ROOM, s) for r, s in zip(radii, size, strict=True)]
    grid = np.meshgrid(*axes, indexing="ij")
    return (1 - np.sqrt(sum((g / r) ** 2 for g, r in zip(grid, radii, strict=True)))) * min(radii)


DEEP = depth(TWO)


def measured(
    values: NDArray[np.generic],
    inside: NDArray[np.bool_] | None = None,
    size: tuple[float, ...] = TWO,
    lesion: NDArray[np.bool_] | None = None,
) -> MaskFigures:
    volume = read_volume(Nifti1Image(values, np.diag([*size, 1.0])))
    chosen = nonzero([volume]) if inside is None else inside.reshape(-1, order="F")
    return measure_mask(volume, chosen, None if lesion is None else lesion.reshape(-1, order="F"))


@pytest.mark.parametrize("size", [TWO, (1.5, 1.5, 5.0)])
def test_volume_and_rim_are_right_whatever_the_voxels(size: tuple[float, ...]) -> None:
    radii = (60.0, 70.0, 50.0)
    inside = depth(size, radii) > 0
    found = measured(inside.astype(np.int16), size=size)
    assert found.volume == pytest.approx(4 / 3 * np.pi * np.prod(radii) / 1000, rel=0.01)
    assert found.share == pytest.approx(inside.mean(), rel=0.01)
    assert found.field_of_view == pytest.approx(inside.size * np.prod(size) / 1000)
    assert (found.faces, found.zeros, found.largest, found.noise) == (0, 0, 1, 0)
    deep = depth(size)
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    assert measured(values, deep > 0, size).rim == pytest.approx(0.4, abs=0.08)
    assert measured(values, deep > 7, size).rim == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_the_rim_is_on_all_sides(axis: int, step: int) -> None:
    values = np.where(DEEP > 5, 1000, 400).astype(np.int16)
    np.moveaxis(values, axis, 0)[::step][:35] = 1000  # dark on the other side only
    assert measured(values, DEEP > 0).rim == pytest.approx(0.7, abs=0.04)


def test_where_the_mask_is_cut_off_it_has_no_rim_but_a_share_of_a_face() -> None:
    deep = DEEP[35:]  # half of it; the cut would be a third of the rim
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    found = measured(values, deep > 0)
    assert found.rim == pytest.approx(0.4, abs=0.05)
    assert found.faces == pytest.approx(np.pi * 60**2 / 140**2, rel=0.05)


def test_zeros_pieces_and_noise() -> None:
    generator = np.random.default_rng(0)
    values = np.where(generator.random(DEEP.shape) < 0.07, 0, 300).astype(np.int16)
    assert measured(values, DEEP > 0).zeros == pytest.approx(0.07, abs=0.005)
    small = np.pad(depth(TWO, (30.0,) * 3) > 0, [(5, 0), (15, 15), (15, 15)])
    both = np.concatenate([DEEP > 0, small])
    assert measured(both.astype(np.int16)).largest == pytest.approx(8 / 9, abs=0.01)
    air = np.abs(generator.normal(0, 5, DEEP.shape))
    assert measured(np.where(DEEP > 0, 500, air), DEEP > 0).noise > 0.9
    assert measured(np.where(DEEP > 0, 500, -1024.0), DEEP > 0).noise == 0


def test_what_has_no_size_no_depth_or_no_zero_can_be_measured() -> None:
    volume = read_volume((DEEP > 0).astype(np.int16))
    found = measure_mask(volume, nonzero([volume]))
    assert (found.volume, found.field_of_view, found.rim) == (None, None, None)
    assert measured(np.where(DEEP > 5, 1.0, -2.0), DEEP > 0).rim is None
    assert measured(np.where(DEEP > 5, 100, 900).astype(np.int16), DEEP > 0).rim == 1
    for shape in ((20,), (20, 20), (1, 1, 20)):
        assert measured(np.ones(shape, np.int16)).share == 1


def test_lesions_and_voxels_that_are_not_finite_do_not_matter() -> None:
    values = np.where(DEEP > 5, 1000.0, 700.0)
    plain = measured(values, DEEP > 0)
    values[::7, ::5, ::3] = np.nan
    assert measured(values, DEEP > 0).rim == pytest.approx(plain.rim, abs=0.01)
    lesion = np.indices(DEEP.shape)[0] < 35
    found = measured(np.where(lesion, 1, values), DEEP > 0, lesion=lesion)
    assert found.rim == pytest.approx(plain.rim, abs=0.02)
    assert found.volume == plain.volume


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────

BRAIN = MaskFigures(0.15, 0.0, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62)
GIVEN, FOUND, NONE = {"given": True}, {"given": True, "found": True}, {"given": False}

# What is doubtful, where the mask comes from, what was measured, and what is just not doubtful.
CASES: list[tuple[str, dict[str, bool], dict[str, Any], dict[str, Any]]] = [
    ("whole head", NONE, {"volume": 2001.0}, {"volume": 2000.0}),
    ("whole head", NONE, {"volume": 8000.0, "faces": 0.9, "rim": 0.05}, {}),
    ("whole head", NONE, {"faces": 0.11}, {"faces": 0.1}),
    ("whole head", NONE, {"noise": 0.11}, {"noise": 0.1}),
    ("mask too wide", GIVEN, {"volume": 2001.0}, {"volume": 2000.0}),
    ("mask too wide", GIVEN, {"rim": 0.49}, {"rim": 0.5, "noise": 0.9}),
    ("no mask", NONE, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too wide", FOUND, {"rim": 0.39}, {"rim": 0.4}),
    ("mask too small", GIVEN, {"volume": 599.0}, {"volume": 600.0}),
    ("mask too small", GIVEN, {"volume": 50.0}, {"volume": 50.0, "field_of_view": 1999.0}),
    ("mask touches the border", GIVEN, {"faces": 0.11}, {"faces": 0.1}),
    ("zeros inside the mask", GIVEN, {"zeros": 0.031}, {"zeros": 0.03}),
    ("mask in pieces", GIVEN, {"largest": 0.89}, {"largest": 0.9}),
]


@pytest.mark.parametrize(("kind", "source", "wrong", "right"), CASES)
def test_each_bound(
    kind: str, source: dict[str, bool], wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    (doubt,) = mask_doubts(replace(BRAIN, **wrong), **source)
    assert doubt.kind == kind
    assert mask_doubts(replace(BRAIN, **right), **source) == ()


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("sizes", [(199.0, 250.0, 0.1), ()], ids=["small", "unknown"])
def test_phantoms_are_not_judged_by_size_border_pieces_or_rim(given: bool, sizes: Any) -> None:
    assert mask_doubts(MaskFigures(0.9, 0.8, 0.0, 0.5, 0.9, *sizes), given=given) == ()
