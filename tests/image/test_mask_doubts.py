"""What is measured about a mask, against closed forms, and when that makes it doubtful."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray
from scipy import ndimage, stats

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
    assert (found.zeros, found.largest, found.noise) == (0, 1, 0)
    assert found.cut < 0.1
    deep = depth(size)
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    assert measured(values, deep > 0, size).rim == pytest.approx(0.4, abs=0.08)
    assert measured(values, deep > 7, size).rim == 1


def values_of(deep: NDArray[np.float64]) -> NDArray[np.int16]:
    """Return a brain with a dark rim."""
    return np.where(deep > 5, 1000, 400).astype(np.int16)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_the_rim_is_on_all_sides(axis: int, step: int) -> None:
    values = np.where(DEEP > 5, 1000, 400).astype(np.int16)
    np.moveaxis(values, axis, 0)[::step][:35] = 1000  # dark on the other side only
    assert measured(values, DEEP > 0).rim == pytest.approx(0.7, abs=0.04)


def test_where_the_brain_is_cut_off_it_has_no_rim_and_ends_flat() -> None:
    deep = DEEP[35:]  # half of it; the cut would be a third of the rim
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    found = measured(values, deep > 0)
    assert found.rim == pytest.approx(0.4, abs=0.05)
    assert found.cut == 1
    for lacking in (6, 10, 30):  # mm of a ball of 60 mm, wherever the image ends
        inside = DEEP > 0
        inside[: (10 + lacking) // 2] = False
        ends = 1 - (1 - (lacking + 1) / 60) ** 2  # in the middle of the first slice that is left
        assert measured(values_of(DEEP), inside).cut == pytest.approx(ends, abs=0.02)


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


# ── what sites are judged by ──────────────────────────────────────────────────────────────────────


def test_rise_is_a_share_of_pairs_that_increasing_maps_leave_as_it_is() -> None:
    generator = np.random.default_rng(0)
    values = np.where(DEEP > 4, 60, 40) + 15 * generator.standard_normal(DEEP.shape)
    values = np.clip(values, 1, None).astype(np.float32)
    rise = measured(values, DEEP > 0).rise
    rim, deep = (values[where] for where in ((DEEP > 0) & (DEEP < 4), DEEP > 8))
    exact = stats.mannwhitneyu(deep, rim).statistic / (deep.size * rim.size)
    assert rise == pytest.approx(exact, abs=0.02)
    assert measured(np.exp(values / 20), DEEP > 0).rise == rise
    assert measured(200 - values, DEEP > 0).rise == pytest.approx(1 - rise, abs=1e-6)
    assert measured(-values, DEEP > 0).rise == pytest.approx(1 - rise, abs=1e-6)
    assert measured(np.where(DEEP > 0, 7, 0).astype(np.int16), DEEP > 0).rise == 0.5


def test_dark_voxels_and_clefts_are_counted() -> None:
    values = np.where(DEEP > 12, 1000, 300).astype(np.int16)
    assert measured(values, DEEP > 0).dark == pytest.approx(1 - (48 / 60) ** 3, abs=0.02)
    whole = measured(values, DEEP > 0).rim_share
    assert whole == pytest.approx(1 - (56 / 60) ** 3, abs=0.04)
    slabs = np.indices(DEEP.shape)[0] % 8 < 6  # 12 mm thick, 4 mm apart: two thirds are rim
    cleft = measured(values, (DEEP > 0) & slabs).rim_share
    assert cleft == pytest.approx(2 / 3, abs=0.1)


@pytest.mark.parametrize("flipped", [0, 1, 2])
def test_a_mask_that_was_flipped_left_to_right_would_fit_better_if_it_were_flipped_back(
    flipped: int,
) -> None:
    """Along the axis that is left to right by the affine, whichever of the array it is."""
    deep = np.pad(DEEP, [(0, 4) if axis == flipped else (0, 0) for axis in range(3)], mode="edge")
    values = np.where(deep > 0, values_of(deep), 0).astype(np.int16)  # off the middle by 4 mm
    axes = np.roll(np.eye(3), flipped, axis=1) * 2.0
    volume = read_volume(Nifti1Image(values, np.block([[axes, np.zeros((3, 1))], [0, 0, 0, 1]])))

    def mirrored(inside: NDArray[np.bool_]) -> float:
        return measure_mask(volume, inside.reshape(-1, order="F")).mirrored or 0.0

    right = mirrored(deep > 0)
    assert right < -0.02
    assert mirrored(np.flip(deep > 0, flipped)) == pytest.approx(-right, abs=1e-3)
    for axis in {0, 1, 2} - {flipped}:
        assert mirrored(np.flip(deep > 0, axis)) == pytest.approx(right, abs=1e-3)


def test_a_smooth_field_in_the_bright_tissue_is_measured_and_tissues_are_not() -> None:
    generator = np.random.default_rng(1)
    x, y, _ = np.meshgrid(*(np.linspace(-1, 1, n) for n in DEEP.shape), indexing="ij")
    tissue = np.where(ndimage.gaussian_filter(generator.standard_normal(DEEP.shape), 2) > 0, 1, 0.7)
    plain = tissue * (1000 + 20 * generator.standard_normal(DEEP.shape))
    assert (measured(plain, DEEP > 0).shading or 1) < 0.01
    log_field = 0.3 * x + 0.2 * y**2
    deep = DEEP > 8
    shaded = measured(plain * np.exp(log_field), DEEP > 0).shading
    assert shaded == pytest.approx(log_field[deep].std(), rel=0.1)


def test_integers_that_have_overflowed_differ_from_their_neighbours() -> None:
    brain = np.where(DEEP > 0, 20_000 + 12_000 * (DEEP > 20) + 2000 * (DEEP > 40), 0)
    generator = np.random.default_rng(2)
    brain = brain + np.where(DEEP > 0, generator.integers(-900, 900, DEEP.shape), 0)
    assert measured(brain.astype(np.int32).clip(0, 32_767).astype(np.int16), DEEP > 0).overflow == 0
    assert (measured(brain.astype(np.int64).astype(np.int16), DEEP > 0).overflow or 0) > 0.002
    assert measured(brain.astype(np.float32), DEEP > 0).overflow is None


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────

BRAIN = MaskFigures(0.15, 0.0, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62)
GIVEN, FOUND, NONE = {"given": True}, {"given": True, "found": True}, {"given": False}

# What is doubtful, where the mask comes from, what was measured, and what is just not doubtful.
CASES: list[tuple[str, dict[str, bool], dict[str, Any], dict[str, Any]]] = [
    ("whole head", NONE, {"volume": 2001.0}, {"volume": 2000.0}),
    ("whole head", NONE, {"volume": 8000.0, "cut": 0.9, "rim": 0.05}, {}),
    ("whole head", NONE, {"cut": 0.16}, {"cut": 0.15}),
    ("whole head", NONE, {"noise": 0.11}, {"noise": 0.1}),
    ("mask too wide", GIVEN, {"volume": 2001.0}, {"volume": 2000.0}),
    ("mask too wide", GIVEN, {"rim": 0.49}, {"rim": 0.5, "noise": 0.9}),
    ("no mask", NONE, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too wide", FOUND, {"rim": 0.39}, {"rim": 0.4}),
    ("mask too small", GIVEN, {"volume": 599.0}, {"volume": 600.0}),
    ("mask too small", GIVEN, {"volume": 50.0}, {"volume": 50.0, "field_of_view": 1999.0}),
    ("brain cut off", GIVEN, {"cut": 0.16}, {"cut": 0.15}),
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
