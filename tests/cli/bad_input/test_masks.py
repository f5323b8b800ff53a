"""Masks that do not fit their image are refused; unusual ones are used with a warning."""

import re

import numpy as np
import pytest
from bad_input import HEAD, INSIDE, Desk, few
from phantoms import AFFINE, SHAPE, nifti

PART = (INSIDE & (np.arange(SHAPE[0]) < 15)[:, None, None]).astype(np.uint8)


def moved(voxels: float) -> bytes:
    affine = AFFINE.copy()
    affine[0, 3] += 2.0 * voxels
    return nifti(PART, affine)


def scattered(count: int) -> bytes:
    return nifti((few(count) > 0).astype(np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nifti(PART[1:]), r"\(23, 28, 20\), but .* is \(24, 28, 20\); resample"),
        (nifti(PART.transpose(1, 0, 2)), r"\(28, 24, 20\), but .* is \(24, 28, 20\); resample"),
        (nifti(PART[..., None] * np.ones(3, np.uint8)), "3 volumes in one image"),
        (moved(1.0), "1 voxels away from .*; resample it .* or mend its header"),
        (moved(30.0), "30 voxels away"),
        (nifti(PART, AFFINE * [[-1], [1], [1], [1]]), "voxels away"),
        (scattered(0), "an empty mask; at least 100 voxels"),
        (scattered(1), "a mask of 1 voxels? only; at least 100 voxels"),
        (scattered(99), "a mask of 99 voxels only; at least 100 voxels"),
        (nifti(np.full(SHAPE, np.nan, np.float32)), "an empty mask; at least 100 voxels"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(desk: Desk, content: bytes, message: str) -> None:
    mask = desk.put("mask.nii", content)
    for command in (
        ("normalise", desk.scan, "--to", desk.target, "--mask", mask, "-o", desk.out),
        ("normalise", desk.scan, "--to", desk.scan, "--to-mask", mask, "-o", desk.out),
        ("fit", desk.scan, "--mask", mask, "-o", desk.folder / "out" / "x.json"),
        ("apply", desk.scan, "--map", desk.map, "--mask", mask, "-o", desk.out),
    ):
        desk.refused(mask, message, *command)


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (moved(0.004), None),
        (moved(0.1), "lies 0.1 voxels away from .*; used nevertheless"),
        (nifti(3 * PART), "other values than 0 and 1; all values but 0 count as inside"),
        (nifti(PART * np.float32(0.6) + np.float32(0.2)), "values above 0.5 count as inside"),
        (nifti(np.where(PART, 1, np.nan)), "voxels are not finite, and count as outside"),
    ],
    ids=["small drift", "drift", "labels", "probabilities", "NaN"],
)
def test_an_unusual_mask_is_used_with_a_warning(
    desk: Desk, content: bytes, warning: str | None
) -> None:
    mask = desk.put("mask.nii", nifti(PART))
    plain, record, said = desk.normalised(HEAD, "--mask", mask)
    assert said == []
    assert record["voxels"]["fitted"] == np.count_nonzero(PART)
    desk.put("mask.nii", content)
    result, other, said = desk.normalised(HEAD, "--mask", mask)
    assert np.array_equal(result, plain)
    assert other["mixture"] == record["mixture"]
    assert len(said) == len(other["warnings"]) == (warning is not None)
    assert all(re.search(f"^warning: {mask}: .*{warning}", line) for line in said)


def test_excluding_everything_is_refused(desk: Desk) -> None:
    lesion = desk.put("lesion.nii", nifti(INSIDE.astype(np.uint8)))
    desk.refused_scan(nifti(HEAD), "no voxel.*not excluded; at least 100", "--exclude", lesion)
