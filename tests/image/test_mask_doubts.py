"""What is measured about a mask, against closed forms, and when that makes it doubtful."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Image
from numpy.typing import NDArray

from ndflow.image.mask import Nonzero
from ndflow.image.mask_doubts import MaskFigures, mask_doubts, measure_mask
from ndflow.image.read import read_volume

# ── figures ───────────────────────────────────────────────────────────────────────────────────────


SIZES = {"1 mm": (1.0, 1.0, 1.0), "2 mm": (2.0, 2.0, 2.0), "thick slices": (1.0, 1.0, 5.0)}
RADII = (60.0, 70.0, 50.0)  # mm
SPHERE = (60.0, 60.0, 60.0)
ROOM = 10.0  # mm around an ellipsoid


def depth(
    size: tuple[float, ...], radii: tuple[float, ...] = RADII, room: float = ROOM
) -> NDArray[np.float64]:
    """Return roughly how many mm each voxel lies below the surface of an ellipsoid."""
    axes = [np.arange(-r - room + s / 2, r + room, s) for r, s in zip(radii, size, strict=True)]
    grid = np.meshgrid(*axes, indexing="ij")
    return (1 - np.sqrt(sum((g / r) ** 2 for g, r in zip(grid, radii, strict=True)))) * min(radii)


def measured(
    values: NDArray[np.generic],
    inside: NDArray[np.bool_] | None = None,
    size: tuple[float, ...] = (2.0, 2.0, 2.0),
) -> MaskFigures:
    volume = read_volume(Nifti1Image(values, np.diag([*size, 1.0])))
    chosen = Nonzero(volume) if inside is None else inside.reshape(-1, order="F")
    return measure_mask(volume, chosen)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_an_ellipsoid_has_its_volume_whatever_the_voxels(name: str) -> None:
    size = SIZES[name]
    inside = depth(size) > 0
    found = measured(inside.astype(np.int16), size=size)
    exact = 4 / 3 * np.pi * np.prod(RADII) / 1000
    assert found.volume == pytest.approx(exact, rel=0.01)
    assert found.share == pytest.approx(inside.mean(), rel=0.01)
    assert found.field_of_view == pytest.approx(inside.size * np.prod(size) / 1000)
    assert (found.faces, found.zeros, found.largest, found.noise) == (0, 0, 1, 0)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_rim_is_the_outermost_four_millimetres(name: str) -> None:
    size = SIZES[name]
    deep = depth(size, SPHERE)
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    assert measured(values, deep > 0, size).rim == pytest.approx(0.4, abs=0.08)
    assert measured(values, deep > 7, size).rim == 1


def test_a_bright_rim_is_no_brighter_than_the_interior() -> None:
    deep = depth((2.0, 2.0, 2.0))
    assert measured(np.where(deep > 5, 100, 900).astype(np.int16), deep > 0).rim == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_the_rim_is_on_all_sides(axis: int, step: int) -> None:
    deep = depth((2.0, 2.0, 2.0), SPHERE)
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    np.moveaxis(values, axis, 0)[::step][:35] = 1000  # dark on the other side only
    assert measured(values, deep > 0).rim == pytest.approx(0.7, abs=0.04)


def test_where_the_mask_is_cut_off_it_has_no_rim() -> None:
    deep = depth((2.0, 2.0, 2.0), SPHERE)[35:]  # half of it; the cut would be a third of the rim
    values = np.where(deep > 5, 1000, 400).astype(np.int16)
    assert measured(values, deep > 0).rim == pytest.approx(0.4, abs=0.05)


def test_the_share_of_a_face_is_that_of_the_circle_in_which_a_sphere_is_cut() -> None:
    inside = depth((2.0, 2.0, 2.0), SPHERE)[15:] > 0  # 20 mm of the sphere are missing
    exact = np.pi * (60**2 - 40**2) / 140**2
    assert measured(inside.astype(np.int16)).faces == pytest.approx(exact, rel=0.05)


def test_zeros_are_counted_with_and_without_scaling() -> None:
    inside = depth((2.0, 2.0, 2.0)) > 0
    generator = np.random.default_rng(0)
    values = np.where(generator.random(inside.shape) < 0.07, 0, 300).astype(np.int16)
    assert measured(values, inside).zeros == pytest.approx(0.07, abs=0.005)
    image = Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))
    image.header.set_slope_inter(0.5, 0.0)
    volume = read_volume(Nifti1Image.from_bytes(image.to_bytes()))
    assert measure_mask(volume, inside.reshape(-1, order="F")).zeros == pytest.approx(
        0.07, abs=0.005
    )


def test_the_largest_of_two_pieces() -> None:
    one, two = depth((2.0, 2.0, 2.0), SPHERE) > 0, depth((2.0, 2.0, 2.0), (30.0,) * 3) > 0
    both = np.concatenate([one, np.zeros((5, *one.shape[1:]), bool)])
    both = np.concatenate([both, np.pad(two, [(0, 0), (15, 15), (15, 15)])])
    assert measured(both.astype(np.int16)).largest == pytest.approx(8 / 9, abs=0.01)


def test_noise_around_the_mask_is_told_from_padding() -> None:
    inside = depth((2.0, 2.0, 2.0)) > 0
    generator = np.random.default_rng(0)
    air = np.abs(generator.normal(0, 5, inside.shape))
    noisy = np.where(inside, 500, air).astype(np.float32)
    assert measured(noisy, inside).noise > 0.9
    padded = np.where(inside, noisy, -1024).astype(np.float32)
    assert measured(padded, inside).noise == 0


def test_an_array_has_no_millilitres() -> None:
    volume = read_volume((depth((2.0, 2.0, 2.0)) > 0).astype(np.int16))
    found = measure_mask(volume, Nonzero(volume))
    assert (found.volume, found.field_of_view, found.rim) == (None, None, None)
    assert found.share > 0


def test_the_rim_means_nothing_where_zero_is_not_no_signal() -> None:
    deep = depth((2.0, 2.0, 2.0))
    values = np.where(deep > 5, 1.0, -2.0).astype(np.float32)
    assert measured(values, deep > 0).rim is None


@pytest.mark.parametrize("shape", [(20,), (20, 20), (20, 20, 1), (1, 1, 20)])
def test_flat_images_can_be_measured(shape: tuple[int, ...]) -> None:
    found = measured(np.arange(1, 1 + np.prod(shape), dtype=np.int16).reshape(shape))
    assert found.share == 1


def test_voxels_that_are_not_finite_do_not_matter() -> None:
    deep = depth((2.0, 2.0, 2.0))
    values = np.where(deep > 5, 1000.0, 400.0).astype(np.float32)
    plain = measured(values, deep > 0).rim
    values[::7, ::5, ::3] = np.nan
    assert measured(values, deep > 0).rim == pytest.approx(plain, abs=0.01)


def test_a_lesion_says_nothing_about_the_rim() -> None:
    deep = depth((2.0, 2.0, 2.0))
    values = np.where(deep > 5, 1000, 700).astype(np.int16)
    lesion = np.zeros(deep.shape, bool)
    lesion[: deep.shape[0] // 2] = True
    volume = read_volume(Nifti1Image(np.where(lesion, 1, values), np.diag([2.0, 2.0, 2.0, 1.0])))
    inside, excluded = (part.reshape(-1, order="F") for part in (deep > 0, lesion))
    whole = measured(values, deep > 0)
    found = measure_mask(volume, inside, excluded)
    assert found.rim == pytest.approx(whole.rim, abs=0.02)
    assert found.volume == whole.volume
    seen = measure_mask(volume, inside).rim
    assert seen is None or seen != pytest.approx(whole.rim, abs=0.1)


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────


BRAIN = MaskFigures(0.15, 0.0, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62)

# What is doubtful, whether a mask was given, what was measured, and what is just not doubtful.
CASES: list[tuple[str, bool, dict[str, Any], dict[str, Any]]] = [
    ("whole head", False, {"volume": 2001.0}, {"volume": 2000.0}),
    ("whole head", False, {"faces": 0.11}, {"faces": 0.1}),
    ("whole head", False, {"noise": 0.11}, {"noise": 0.1}),
    ("mask too wide", True, {"volume": 2001.0}, {"volume": 2000.0}),
    ("mask too wide", True, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too wide", False, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too small", True, {"volume": 599.0}, {"volume": 600.0}),
    ("mask too small", True, {"volume": 50.0}, {"volume": 50.0, "field_of_view": 1999.0}),
    ("mask touches the border", True, {"faces": 0.11}, {"faces": 0.1}),
    ("zeros inside the mask", True, {"zeros": 0.031}, {"zeros": 0.03}),
    ("mask in pieces", True, {"largest": 0.89}, {"largest": 0.9}),
]


@pytest.mark.parametrize("given", [False, True])
def test_a_brain_is_not_doubted(given: bool) -> None:
    assert mask_doubts(BRAIN, given=given) == ()


@pytest.mark.parametrize(("kind", "given", "wrong", "right"), CASES)
def test_each_bound(kind: str, given: bool, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    (doubt,) = mask_doubts(replace(BRAIN, **wrong), given=given)
    assert doubt.kind == kind
    assert mask_doubts(replace(BRAIN, **right), given=given) == ()


def test_a_brain_that_deepbet_found_may_have_more_csf_at_its_rim() -> None:
    assert mask_doubts(replace(BRAIN, rim=0.4), given=True, found=True) == ()
    (doubt,) = mask_doubts(replace(BRAIN, rim=0.39), given=True, found=True)
    assert doubt.kind == "mask too wide"


def test_the_noise_around_a_mask_that_was_given_does_not_matter() -> None:
    assert mask_doubts(replace(BRAIN, noise=0.9), given=True) == ()


@pytest.mark.parametrize("given", [False, True])
def test_phantoms_are_not_judged_by_size_border_pieces_or_rim(given: bool) -> None:
    small = MaskFigures(0.9, 0.8, 0.0, 0.5, 0.9, 199.0, 250.0, 0.1)
    assert mask_doubts(small, given=given) == ()
    unknown = MaskFigures(0.9, 0.8, 0.0, 0.5, 0.9)
    assert mask_doubts(unknown, given=given) == ()


def test_a_head_is_called_a_head_and_nothing_else() -> None:
    head = MaskFigures(0.8, 0.9, 0.0, 0.98, 0.0, 8000.0, 10000.0, 0.05)
    (doubt,) = mask_doubts(head, given=False)
    assert doubt.kind == "whole head"
    assert "8,000 ml" in doubt.text
