"""``--method``: the baselines, in every command, give what numpy computes."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import head, save, voxels_of
from studies import positive

import ndflow
from ndflow.methods.base import method_of
from ndflow.options import METHODS, Options
from ndflow.transport import PiecewiseLinear

SHAPE = (14, 16, 12)
HEADS = {
    "s0": head(0, shape=SHAPE),
    "s1": head(1, shape=SHAPE, tissues=((300.0, 60.0), (660.0, 50.0), (1000.0, 40.0)), gain=2.0),
    "s2": head(2, shape=SHAPE, tissues=((350.0, 50.0), (740.0, 40.0), (1000.0, 50.0)), gain=0.5),
    "new": head(3, shape=SHAPE, tissues=((280.0, 50.0), (720.0, 50.0), (1000.0, 40.0)), gain=1.3),
}
SCANS = ["s0", "s1", "s2"]
SHARES = [1, *range(10, 100, 10), 99]
BASELINES = [name for name in METHODS if name != "ndflow"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scans, and a table of all but one of them."""
    place = tmp_path_factory.mktemp("methods")
    for name, voxels in HEADS.items():
        save(place / f"{name}.nii.gz", voxels)
    (place / "t.tsv").write_text("\n".join(["image", *(f"{name}.nii.gz" for name in SCANS), ""]))
    return place


def by_numpy(method: str, name: str) -> NDArray[np.float64]:
    """Normalise a scan to the average of the study, on the usual scale of the method."""
    brains = {scan: voxels[voxels != 0] for scan, voxels in HEADS.items()}
    counted = {scan: ndflow.histogram(brain) for scan, brain in brains.items()}
    aligned = {
        scan: ndflow.transport.align(ndflow.fit(one).mixture) for scan, one in counted.items()
    }
    own, voxels = brains[name], HEADS[name].astype(float)
    if method == "affine":
        z = aligned[name](voxels)
    elif method == "zscore":
        z = (voxels - own.mean()) / own.std()
    elif method == "nyul":
        rows = [aligned[scan](np.percentile(brains[scan], SHARES)) for scan in SCANS]
        z = PiecewiseLinear(np.percentile(own, SHARES), np.mean(rows, axis=0))(voxels)
    else:
        options = Options(method=method)
        baseline = method_of(options)
        found = {scan: baseline.measure(one, options) for scan, one in counted.items()}
        average = baseline.average((found[scan], aligned[scan], 1.0) for scan in SCANS)
        z = baseline.join(found[name].values, average.values).imap(voxels)
    return np.where(voxels == 0, 0.0, z if method == "zscore" else positive(z))


@pytest.mark.parametrize("method", BASELINES)
def test_scans_are_brought_to_the_average_of_a_study_and_back(
    run: Run, folder: Path, tmp_path: Path, method: str
) -> None:
    out, chosen = tmp_path / "out", ("--method", method)
    typed("cohort", folder / "t.tsv", out, "-q", *chosen)
    images = {name: out / "images" / f"{name}.nii.gz" for name in SCANS}
    # A reference of the same scans serves another that it has never seen.
    made, images["new"] = tmp_path / "r.json", tmp_path / "new.nii.gz"
    sources = [folder / f"{name}.nii.gz" for name in SCANS]
    assert run("reference", *sources, *chosen, "-o", made).code == 0
    words = ("normalise", folder / "new.nii.gz", "--to", made, *chosen, "-o", images["new"])
    assert run(*words).code == 0
    for name, image in images.items():
        expected = by_numpy(method, name)
        close = {"rtol": 1e-6, "atol": 1e-5 * expected.std()}  # rounding to float32
        np.testing.assert_allclose(voxels_of(image), expected, **close)
    back = tmp_path / "back.nii.gz"
    words = ("apply", images["s1"], "--map", out / "maps" / "s1.json", "--inverse", "-o", back)
    assert run(*words).code == 0
    np.testing.assert_allclose(voxels_of(back), HEADS["s1"], atol=0.02)
