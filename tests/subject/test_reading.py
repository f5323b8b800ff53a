"""Scans on the way in: which voxels count, and what cannot be a scan."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from one_scan import SCAN
from phantoms import radii

import ndflow
from ndflow.density import trimmed
from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.subject.voxels import (
    Counted,
    VoxelCounts,
    Voxels,
    count_voxels,
    error_about,
    read_voxels,
)

INNER, LESION = radii() < 0.8, radii() < 0.3


def read(*parts: Any) -> tuple[Voxels, Counted]:
    subject = Subject(*parts)
    voxels = read_voxels(subject, max_bytes=Options().max_bytes)
    return voxels, count_voxels(subject, voxels)


@pytest.mark.parametrize(
    ("mask", "lesion", "counted"),
    [
        (None, None, SCAN != 0),
        (INNER, None, INNER),
        (None, LESION, (SCAN != 0) & ~LESION),
        (INNER, LESION, INNER & ~LESION),
    ],
)
def test_voxels_inside_the_mask_and_not_excluded_count(
    mask: Any, lesion: Any, counted: NDArray[np.bool_]
) -> None:
    voxels, found = read(SCAN, mask, lesion)
    assert found.histogram == ndflow.histogram(SCAN, counted)
    inside = SCAN != 0 if mask is None else mask
    assert np.array_equal(voxels.inside[:], inside.reshape(-1, order="F"))
    left_out = 0 if lesion is None else np.count_nonzero(inside & lesion)
    assert found.counts == VoxelCounts(np.count_nonzero(counted), left_out, 0, 0)
    assert voxels.warnings == found.warnings == ()


def test_voxels_far_out_and_not_finite_are_counted_apart() -> None:
    image = SCAN.astype(np.float64)
    image[12, 14, 8:12] = [np.nan, np.inf, 1e7, 1e7]
    _, found = read(image)
    used = int(trimmed(found.histogram).total)
    assert found.counts == VoxelCounts(used, 0, 2, 2)
    assert used == np.count_nonzero(SCAN) - 4
    (warning,) = found.warnings
    assert "2 voxels NaN or infinite" in warning


def test_the_foreground_is_found_where_that_is_asked_for() -> None:
    image = SCAN + np.random.default_rng(0).integers(1, 9, SCAN.shape).astype(np.int16)
    voxels, _ = read(image, "auto")
    inside = voxels.inside[:].reshape(SCAN.shape, order="F")
    assert np.mean(inside == (radii() < 1)) > 0.97


TWO_VALUES = np.where(SCAN > 500, 2, SCAN > 0).astype(np.int16)
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "one value": ((np.full((9, 9, 9), 7),), "all voxels used have the value 7"),
    "a mask": ((TWO_VALUES,), "holds two values only where it counts, like a mask"),
    "background": (
        (np.where(SCAN > 1050, SCAN, 3),),
        r"\d+% of the voxels used have the value 3: background\?",
    ),
    "a small mask": ((SCAN, radii() < 0.1), "a mask of 8 voxels only; at least 100 voxels"),
    "few voxels": (
        (np.where(radii() < 0.1, SCAN, np.nan), INNER),
        "8 voxels are finite and inside the mask; at least 100 are needed; check the mask",
    ),
    "nothing": ((0 * SCAN,), "no voxels are finite and not 0; at least 100 .*--mask"),
    "all excluded": ((SCAN, None, SCAN != 0), "no voxels are finite and not 0, and not excluded"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_a_scan_is_refused(what: str) -> None:
    parts, message = REFUSED[what]
    with pytest.raises(FileError, match=message):
        read(*parts)


def test_errors_of_the_mathematics_name_the_file() -> None:
    for error, cause, hint in (
        (DegenerateDataError("too few; give more; or less"), "too few; give more", "or less"),
        (InvalidValueError("nothing to try"), "nothing to try", ""),
    ):
        with pytest.raises(FileError) as caught, error_about("a.nii"):
            raise error
        assert (caught.value.path, caught.value.cause) == ("a.nii", cause)
        assert (caught.value.hint or "") == hint
        assert caught.value.__cause__ is error


def test_labels_are_read_with_a_warning() -> None:
    labels = np.random.default_rng(0).integers(1, 9, (12, 12, 12)).astype(np.uint8)
    (warning,) = read(labels)[1].warnings
    assert "holds 8 different values only; is it a map of labels?" in warning
