"""The scanners of a finished study, read from its folder and kept in a file."""

from pathlib import Path

import numpy as np
import pytest
from studies import SiteStudy, read_json

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.integrations.study_scanners import read_scanners, scanner_units
from ndflow.scan.records import MapRecord


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    return SiteStudy(tmp_path_factory.mktemp("study"), per_site=3)


@pytest.fixture(scope="module")
def out(study: SiteStudy) -> Path:
    return study.run("out")


@pytest.fixture(scope="module")
def scanners(out: Path) -> ndflow.ScannerMaps:
    return ndflow.scanners(out)


def test_the_mean_curve_is_that_of_the_sites_found_by_finite_differences(
    study: SiteStudy, out: Path, scanners: ndflow.ScannerMaps
) -> None:
    assert (scanners.scans, scanners.sites) == (
        len(study.rows),
        len({r["site"] for r in study.rows}),
    )
    z, step = scanners.grid[5:-5], 1e-3
    sites: dict[str, list[np.ndarray]] = {}
    for row in study.rows:
        imap = MapRecord.read(out / "maps" / row["image"].replace(".nii.gz", ".json")).map
        back = imap.inverse()
        slopes = (back(500 + 125 * (z + step)) - back(500 + 125 * (z - step))) / (2 * step)
        sites.setdefault(row["site"], []).append(np.log(slopes))
    truth = np.mean([np.mean(curves, axis=0) for curves in sites.values()], axis=0)
    off = scanners.mean[5:-5] - truth
    assert np.ptp(off) < 0.02  # all but a constant, the gain


def test_the_draws_of_a_study_reach_the_contrast_of_its_sites(
    study: SiteStudy, out: Path, scanners: ndflow.ScannerMaps
) -> None:
    # The curve of a scan is the mean plus a combination of the rows: nothing of it is lost.
    imap = MapRecord.read(out / "maps" / "s0.json").map
    units = scanner_units(scanners)
    curve = ndflow.Chain((units, imap.inverse())).log_det_jacobian(scanners.grid)
    rows = np.concatenate([scanners.between, scanners.within, np.ones((1, scanners.grid.size))])
    left = np.linalg.lstsq(rows.T, curve - scanners.mean, rcond=None)[1]
    assert left.sum() < 1e-4


def test_the_units_of_the_study_make_no_difference(
    study: SiteStudy, scanners: ndflow.ScannerMaps
) -> None:
    other = ndflow.scanners(study.run("units", "--range", 0, 1))
    assert np.allclose(other.mean, scanners.mean, atol=2e-3)
    assert np.allclose(other.draw(1).values, scanners.draw(1).values, atol=0.02)


def test_scanners_survive_their_file(tmp_path: Path, scanners: ndflow.ScannerMaps) -> None:
    file = tmp_path / "scanners.json"
    ndflow.save(file, scanners)
    assert read_json(file)["kind"] == "scanners"
    assert file.stat().st_size < 100_000
    assert ndflow.load(file) == scanners
    assert read_scanners(file) == read_scanners(str(file)) == read_scanners(scanners) == scanners
    file.write_text(file.read_text().replace('"sites": ', '"sites": 1'))
    with pytest.raises(FileError, match="checksum"):
        ndflow.load(file)


def test_a_file_names_no_scan(tmp_path: Path, scanners: ndflow.ScannerMaps) -> None:
    ndflow.save(tmp_path / "scanners.json", scanners)
    text = (tmp_path / "scanners.json").read_text()
    assert "s0" not in text
    assert "nii" not in text


def test_one_site_is_a_warning(study: SiteStudy) -> None:
    rows = [row | {"site": "Bern"} for row in study.rows]
    out = study.run("one", table=study.table("one", rows))
    with pytest.warns(
        UserWarning, match="one site only; random scanners will differ as much as the scans"
    ):
        found = ndflow.scanners(out)
    assert (found.sites, len(found.between)) == (1, 0)


def test_a_study_that_cannot_show_how_scanners_differ_is_refused(study: SiteStudy) -> None:
    few = study.run("few", table=study.table("few", study.rows[:4]))
    with pytest.raises(FileError, match=r"few: 4 scans cannot show .*; at least 5"):
        ndflow.scanners(few)
    with pytest.raises(FileError, match=r"straight lines.*the method 'ndflow'"):
        ndflow.scanners(study.run("affine", "--method", "affine"))
    with pytest.raises(FileError, match="holds no study"):
        ndflow.scanners(study.folder)


def test_units_are_those_of_normalise(scanners: ndflow.ScannerMaps) -> None:
    low, high = scanners.reference.quantile([0.001, 0.999])
    assert scanner_units(scanners)([-4.0, 0.0, 1.0]).tolist() == [0.0, 500.0, 625.0]
    assert scanner_units(scanners, scale="standard")([1.5]).tolist() == [1.5]
    assert np.allclose(scanner_units(scanners, range=(0.0, 1.0))([low, high]), [0.0, 1.0])
    with pytest.raises(InvalidValueError, match="scale"):
        scanner_units(scanners, scale="target")


def test_other_files_are_refused(tmp_path: Path) -> None:
    ndflow.save(tmp_path / "map.json", ndflow.Affine(2.0, 1.0))
    with pytest.raises(FileError, match=r"map\.json: holds no scanners.*ndflow\.scanners\(OUT\)"):
        read_scanners(tmp_path / "map.json")
    with pytest.raises(
        InvalidValueError, match="scanners, where they are not ScannerMaps, must be a path"
    ):
        read_scanners(3)  # type: ignore[arg-type]
