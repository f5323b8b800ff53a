"""A scan before and after, upright and small."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import UPRIGHT, UPRIGHT_SPACING, coordinates, save_oriented

from ndflow.errors import FileError
from ndflow.files.stream import sha256_of
from ndflow.image.scans import Scan
from ndflow.reporting.before_after import BeforeAfter, before_after
from ndflow.scan.records import MapRecord
from ndflow.scan.results import hashes
from ndflow.study.listing.scan_table import named_scans
from ndflow.study.plan import ResultPaths, Study
from ndflow.transport import Affine

LIMIT = 1 << 30


Files = tuple[Scan, ResultPaths, MapRecord, int]


def finished(folder: Path, codes: str = "RAS", mask: Path | None = None) -> Files:
    """Return a scan whose result is twice the scan plus one inside, and what else is needed."""
    image = save_oriented(folder / "s.nii.gz", coordinates(), codes)
    (scan,) = named_scans([Scan(str(image), mask and str(mask))])
    paths = Study(folder, [scan]).paths(scan)
    paths.image.parent.mkdir(exist_ok=True)
    after = np.where(coordinates() > 0, 2 * coordinates() + 1, 0)
    save_oriented(paths.image, after, codes)
    record = MapRecord(
        Affine(np.array([[2.0]]), np.array([1.0])),
        settings={"mask": "nonzero"},
        inputs=hashes(scan.files()),
        outputs=(sha256_of(paths.image),),
    )
    return scan, paths, record, LIMIT


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "PIR", "SAL", "ASR", "IRP"])
def test_pictures_stand_upright_whatever_the_orientation_of_the_file(
    tmp_path: Path, codes: str
) -> None:
    pair = before_after(*finished(tmp_path, codes))
    upright = np.where(coordinates() > 0, coordinates(), np.nan)
    np.testing.assert_array_equal(pair.before, upright)
    np.testing.assert_array_equal(pair.after, 2 * upright + 1)
    assert pair.spacing == pytest.approx(UPRIGHT_SPACING)


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PIR"])
def test_slices_have_up_or_front_at_the_top_and_right_or_front_at_the_right(
    tmp_path: Path, codes: str
) -> None:
    pair = before_after(*finished(tmp_path, codes))._replace(spacing=(1.0, 1.0, 1.0))
    before, after = pair.slices()
    axial, coronal, sagittal = before
    assert [plane.shape for plane in before] == [(11, 9), (7, 9), (7, 11)]

    def part(plane: NDArray[np.float64], place: int) -> NDArray[np.float64]:
        return np.where(np.isfinite(plane), np.nan_to_num(plane) // 100**place % 100, np.nan)

    # In each: (what grows to the right, what grows upwards, what is the same all over).
    for plane, across, up, through in ((axial, 2, 1, 0), (coronal, 2, 0, 1), (sagittal, 1, 0, 2)):
        rights, ups = np.diff(part(plane, across), axis=1), np.diff(part(plane, up), axis=0)
        assert set(rights[np.isfinite(rights)]) == {1}
        assert set(ups[np.isfinite(ups)]) == {-1}
        here = part(plane, through)
        assert len(set(here[np.isfinite(here)])) == 1
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(other, 2 * one + 1)


def test_pixels_are_square_whatever_the_voxels_are() -> None:
    ball = np.add.outer(
        np.add.outer(np.linspace(-1, 1, 40) ** 2, np.linspace(-1, 1, 40) ** 2),
        np.linspace(-1, 1, 10) ** 2,
    )
    picture = np.where(ball < 1, 1.0, np.nan)
    before, _ = BeforeAfter(picture, picture, (1.0, 1.0, 4.0)).slices()
    for plane in before:
        assert plane.shape == (40, 40)
        down, across = (np.isfinite(plane).any(axis=axis).sum() for axis in (1, 0))
        assert abs(int(down) - int(across)) <= 8  # two of the thick slices


def test_a_slice_is_never_empty() -> None:
    picture = np.full((20, 20, 20), np.nan)
    picture[2, 3, 4] = picture[17, 16, 15] = 1.0  # between the two there is nothing
    before, _ = BeforeAfter(picture, picture, (1.0, 1.0, 1.0)).slices()
    assert all(np.isfinite(plane).any() for plane in before)


def test_slices_go_through_the_middle_of_what_is_inside() -> None:
    picture = np.full((20, 20, 20), np.nan)
    picture[15, 3, 8] = 7.0
    before, after = BeforeAfter(picture, picture + 1, (1.0, 1.0, 1.0)).slices()
    assert [np.nanmax(plane) for plane in (*before, *after)] == [7.0] * 3 + [8.0] * 3


def test_only_what_is_inside_the_mask_is_seen(tmp_path: Path) -> None:
    half = (np.arange(UPRIGHT[0]) < 5)[:, None, None] * np.ones(UPRIGHT)
    mask = save_oriented(tmp_path / "mask.nii.gz", half, "LPS")
    pair = before_after(*finished(tmp_path, "LPS", mask))
    for picture in (pair.before, pair.after):
        np.testing.assert_array_equal(np.isfinite(picture), half == 1)


def test_a_result_that_has_gone_is_named(tmp_path: Path) -> None:
    files = finished(tmp_path)
    files[1].image.unlink()
    with pytest.raises(FileError, match=r"images.s\.nii\.gz"):
        before_after(*files)
