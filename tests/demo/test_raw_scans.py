"""The scans of the tutorial: raw, and in two tables."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import typed

from ndflow.demo import run as raw_scans
from ndflow.study.table import read_table

SITES = ["Ashford", "Brindle", "Corley"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes, with fewer and coarser scans."""
    made = tmp_path_factory.mktemp("raw") / "scans"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_scans, "_SUBJECTS", 2)
        patch.setattr(raw_scans, "_RESOLUTION", 8.0)
        typed("demo", made, "--raw")
    return made


def shading(path: str) -> float:
    """Return by which factor the brighter half of a brain, front or back, exceeds the other."""
    voxels = np.asarray(nib.load(path).dataobj, float)
    halves = np.split(voxels, [voxels.shape[1] // 2], axis=1)
    dark, bright = sorted(np.median(half[half > 0]) for half in halves)
    return float(bright / dark)


def test_two_tables_list_scans_without_masks_and_tissues(folder: Path) -> None:
    study, later = (read_table(folder / name).subjects for name in ("study.tsv", "later.tsv"))
    assert [scan.site for scan in study] == [site for site in SITES for _ in range(2)]
    assert [scan.site for scan in later] == SITES
    assert len({scan.person for scan in (*study, *later)}) == 9
    for scan in (*study, *later):
        assert scan.mask is None
        assert not any(scan.tissues)
        assert {*scan.covariates} == {"age", "sex"}
        assert nib.load(scan.path).get_data_dtype() == np.int16
        assert Path(scan.path).parent.name == scan.site


def test_they_are_shaded(folder: Path) -> None:
    # Those of the demonstration have 1.04 at most, at this resolution.
    assert max(shading(scan.path) for scan in read_table(folder / "study.tsv").subjects) > 1.15


def test_a_folder_that_is_not_empty_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("demo", folder, "--raw", code=2)
    assert "not empty" in capsys.readouterr().err
