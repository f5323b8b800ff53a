"""``--method``: commands for single scans give what a study gives."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from phantoms import voxels_of
from studies import SITES, SiteStudy, sha256

from ndflow.options import METHODS


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Three scans that look different."""
    return SiteStudy(tmp_path_factory.mktemp("methods"), SITES, per_site=1)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ndflow"])
def test_scans_are_brought_to_the_average_of_a_study_and_back(
    run: Run, study: SiteStudy, tmp_path: Path, method: str
) -> None:
    chosen = ("--method", method)
    out = study.run(method, *chosen, table=study.table("plain", columns=["image"]))
    made, image = tmp_path / "r.json", tmp_path / "s1.nii.gz"
    scans = [study.folder / row["image"] for row in study.rows]
    assert run("reference", *scans, *chosen, "-o", made).code == 0
    assert run("normalise", scans[1], "--to", made, *chosen, "-o", image).code == 0
    assert sha256(image) == sha256(out / "images" / "s1.nii.gz")
    back, words = tmp_path / "back.nii.gz", ("--map", out / "maps" / "s1.json", "--inverse")
    assert run("apply", out / "images" / "s1.nii.gz", *words, "-o", back).code == 0
    np.testing.assert_allclose(voxels_of(back), voxels_of(scans[1]), atol=0.05)
