"""Voxels that are not finite, huge, constant or at the limits of their type."""

import json
from typing import Any

import numpy as np
import pytest
from bad_input import HEAD, INSIDE, MAP, Desk, few, model
from numpy.typing import NDArray
from phantoms import SHAPE, nifti, voxels_of

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize("masked", [False, True])
def test_voxels_that_are_not_finite_are_kept_counted_and_not_fitted(
    desk: Desk, masked: bool
) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 6:9] = np.nan, np.inf, -np.inf
    odd[0, 0, :2] = np.nan, np.inf  # in the air
    strange = ~np.isfinite(odd)
    mask = desk.put("mask.nii", nifti(INSIDE.astype(np.uint8)))
    options = ("--mask", mask) if masked else ()
    result, record, said = desk.normalised(odd, *options)
    assert np.array_equal(result[strange], odd[strange], equal_nan=True)
    assert record["voxels"]["not_finite"] == 5
    assert record["voxels"]["fitted"] == np.count_nonzero(INSIDE) - 3
    (line,) = said
    assert line.startswith(f"warning: {desk.folder / 'good.nii'}: 5 voxels NaN or infinite")
    assert line.removeprefix("warning: ") in record["warnings"]
    without, other, _ = desk.normalised(np.where(strange, np.float32(0), odd))
    assert record["mixture"] == other["mixture"]
    assert np.array_equal(result[~strange], without[~strange])
    # In a type without NaN they are counted as clipped.
    result, record, said = desk.normalised(odd, "--dtype", "int16", *options)
    assert record["clipped"] == 5
    assert result[12, 14, 6:9].tolist() == [0, 32767, -32768]
    assert any("5 voxels did not fit the type int16" in line for line in said)


def test_voxels_that_are_not_finite_are_not_mapped(desk: Desk) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 6:9] = np.nan, np.inf, -np.inf
    path = desk.put("odd.nii", nifti(odd))
    falling = desk.put("falling.json", json.dumps(model("map", map=MAP | {"matrix": [[-2.0]]})))
    assert desk.run("apply", path, "--map", falling, "-o", desk.out).code == 0
    expected = np.where(np.isfinite(odd), np.where(odd != 0, 5 - 2 * odd, 0), odd)
    assert np.array_equal(voxels_of(desk.out, None), expected, equal_nan=True)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.where(INSIDE, 7, 0).astype(np.int16), "all voxels .* have the value 7; .*mask"),
        (np.full(SHAPE, -0.25, np.float32), "all voxels .* have the value -0.25; .*mask"),
        (np.zeros(SHAPE, np.int16), "no voxel.*; at least 100 .*mask"),
        (np.full(SHAPE, np.nan, np.float32), "no voxel.*; at least 100 .*mask"),
        (np.where(HEAD > 700, 7, 3 * INSIDE).astype(np.uint8), "two values only.*right file"),
        (few(99), "99 voxels are finite and not 0.*; at least 100 .*mask"),
        (np.maximum(few(400), 5), "9[0-9]% of the voxels .* have the value 5.*background.*--mask"),
    ],
    ids=["constant", "constant float", "zero", "NaN", "two values", "few voxels", "background"],
)
def test_an_image_that_cannot_be_fitted_is_refused(
    desk: Desk, image: NDArray[Any], message: str
) -> None:
    desk.refused_scan(nifti(image), message)
    path = desk.put("bad.nii", nifti(image))
    desk.refused(path, message, "fit", path, "-o", desk.folder / "out" / "x.json")
    desk.refused(path, message, "reference", path, "-o", desk.folder / "out" / "x.json")
    desk.refused(path, message, "normalise", desk.scan, "--to", path, "-o", desk.out)


def test_a_hundred_foreground_voxels_are_enough(desk: Desk) -> None:
    image = few(120)
    result, record, _ = desk.normalised(image)
    assert record["voxels"]["fitted"] == 120
    assert np.array_equal(result == 0, image == 0)
    assert (np.diff(result[image > 0][np.argsort(image[image > 0])]) > 0).all()


@pytest.mark.parametrize(
    ("factor", "offset"),
    [(1 / 2048, 0.0), (1.0, -2000.0), (1.0, -699.5), (1e-9, 0.0), (1e9, -9.995e11)],
    ids=["from 0 to 1", "negative", "of both signs", "tiny", "large"],
)
def test_units_do_not_matter(desk: Desk, factor: float, offset: float) -> None:
    plain, record, _ = desk.normalised(HEAD)
    other = np.where(INSIDE, factor * HEAD + offset, 0).astype(np.float32)
    result, changed, said = desk.normalised(other)
    assert said == []
    assert changed["voxels"] == record["voxels"]
    assert np.abs(result - plain).max() < 0.02  # of a range of 100, and from float32 with 24 bits
    assert (result[~INSIDE] == 0).all()
    after, expected = (made["match"]["divergence"]["after"] for made in (changed, record))
    assert after == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("huge", [1e30, -1e30])
def test_a_huge_voxel_changes_nothing_but_itself(desk: Desk, huge: float) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 10] = 0
    plain, _, _ = desk.normalised(odd)
    odd[12, 14, 10] = huge
    result, record, _ = desk.normalised(odd)
    assert record["voxels"]["outliers"] == 1
    assert record["clipped"] == 0
    assert np.isfinite(result).all()
    assert result[12, 14, 10] * np.sign(huge) == np.abs(result).max() > 1e25
    result[12, 14, 10] = 0
    assert np.abs(result - plain).max() < 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_finite_voxel_never_becomes_infinite(desk: Desk, dtype: str) -> None:
    odd = np.where(INSIDE, 1e-3 * HEAD, 0)  # so that the slope of the map is more than 1
    odd[12, 14, 10] = 1.7e308
    result, record, said = desk.normalised(odd, "--dtype", dtype)
    most: Any = np.finfo(dtype) if "float" in dtype else np.iinfo(dtype)
    assert result[12, 14, 10] == most.max
    if dtype == "float64":  # the value was clipped before, when mapped
        return
    assert record["clipped"] == 1
    assert any(
        f"1 voxel did not fit the type {dtype}" in line.replace("voxels", "voxel") for line in said
    )


# ── integers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", INTEGERS)
def test_extreme_integers_do_not_wrap_around(desk: Desk, dtype: str) -> None:
    limits = np.iinfo(dtype)
    small = np.rint(HEAD / 10).astype(dtype)
    plain, _, _ = desk.normalised(small)
    odd = small.copy()
    lowest, highest = (12, 14, 9), (12, 14, 10)
    odd[lowest], odd[highest] = limits.min, limits.max
    result, _, _ = desk.normalised(odd)
    rest = odd == small
    assert np.abs(result - plain)[rest].max() < 1.0  # of 100: the fit has two other voxels
    assert result[highest] == result.max() > plain.max()
    assert result[lowest] == result.min() if limits.min < 0 else result[lowest] == 0
    order = np.argsort(odd[INSIDE & (odd != 0)], kind="stable")
    assert (np.diff(result[INSIDE & (odd != 0)][order]) >= 0).all()


@pytest.mark.parametrize("start", [2**53, 2**62, 2**63 - 2**24, -(2**62), 2**64 - 2**24])
def test_large_integers_lose_no_visible_precision(desk: Desk, start: int) -> None:
    dtype = "int64" if start < 2**63 - 2**30 else "uint64"
    step = max(2, abs(start) >> 51)
    large = np.array([start + step * int(v) for v in HEAD.flat], dtype).reshape(SHAPE)
    inside = desk.put("mask.nii", nifti(INSIDE.astype(np.uint8)))
    plain, _, _ = desk.normalised(HEAD, "--mask", inside, "--set", "outside=zero")
    result, _, _ = desk.normalised(large, "--mask", inside, "--set", "outside=zero")
    assert np.abs(result - plain).max() < 0.1


@pytest.mark.parametrize("dtype", INTEGERS)
def test_values_beyond_an_integer_type_are_clipped_and_counted(desk: Desk, dtype: str) -> None:
    limits = np.iinfo(dtype)
    reach = float(limits.max)
    ends = ("--range", -0.7 * reach, 1.5 * reach)
    exact, _, _ = desk.normalised(HEAD, *ends, "--dtype", "float64")
    result, record, said = desk.normalised(HEAD, *ends, "--dtype", dtype)
    assert result.dtype == dtype
    rounded = [round(value) for value in exact.ravel().tolist()]
    beyond = sum(not limits.min <= value <= limits.max for value in rounded)
    assert beyond > 100
    assert record["clipped"] == beyond
    assert any(f"{beyond:,} voxels did not fit the type {dtype}" in line for line in said)
    expected = [min(max(value, int(limits.min)), int(limits.max)) for value in rounded]
    assert result.ravel().tolist() == expected
    order = np.argsort(exact[INSIDE])
    assert (result[INSIDE][order][1:] >= result[INSIDE][order][:-1]).all()


@pytest.mark.parametrize(
    ("dtype", "factor", "expected", "clipped"),
    [
        ("int64", 2.0**62, [-(2**63), -(2**63), -(2**62), 2**62, 2**63 - 1, 2**63 - 1], 3),
        ("uint64", 2.0**63, [0, 0, 0, 2**63, 2**64 - 1, 2**64 - 1], 5),
    ],
)
def test_values_at_the_limits_of_64_bits_are_clipped_and_counted(
    desk: Desk, dtype: str, factor: float, expected: list[int], clipped: int
) -> None:
    # The largest 64-bit integer, converted to a double, becomes one larger.
    path = desk.put("few.nii", nifti(np.array([-3, -2, -1, 1, 2, 3], np.int8).reshape(6, 1, 1)))
    steep = json.dumps(model("map", map={"type": "Affine", "matrix": [[factor]], "offset": [0]}))
    command = ("apply", path, "--map", desk.put("steep.json", steep), "-o", desk.out)
    ran = desk.run(*command, "--dtype", dtype)
    assert ran.code == 0
    assert voxels_of(desk.out, None).ravel().tolist() == expected
    assert f"{clipped} voxels did not fit" in ran.err
