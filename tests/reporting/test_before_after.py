"""A scan before and after, upright and small."""

from pathlib import Path

import numpy as np
import pytest
from phantoms import UPRIGHT, UPRIGHT_SPACING, coordinates, save_oriented

from ndflow.errors import FileError
from ndflow.files.stream import sha256_of
from ndflow.image.subject import Scan
from ndflow.reporting.before_after import before_after
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
