"""``--method``: every baseline in every command gives what is computed here by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import head, save, voxels_of
from studies import positive, read_json

import ndflow
from ndflow.methods.base import LandmarkMethod, method_of
from ndflow.options import METHODS, Options
from ndflow.population import Landmarks
from ndflow.transport import PiecewiseLinear

SHAPE = (14, 16, 12)
HEADS = {
    "s0": head(0, shape=SHAPE),
    "s1": head(1, shape=SHAPE, tissues=((300.0, 60.0), (660.0, 50.0), (1000.0, 40.0)), gain=2.0),
    "s2": head(2, shape=SHAPE, tissues=((350.0, 50.0), (740.0, 40.0), (1000.0, 50.0)), gain=0.5),
    "new": head(3, shape=SHAPE, tissues=((280.0, 50.0), (720.0, 50.0), (1000.0, 40.0)), gain=1.3),
}
BRAINS = {name: voxels[voxels != 0] for name, voxels in HEADS.items()}
SCANS = ["s0", "s1", "s2"]
SHARES = [1, *range(10, 100, 10), 99]
BASELINES = [name for name in METHODS if name not in ("ndflow", "affine")]
methods = pytest.mark.parametrize("method", ["affine", *BASELINES])
baselines = pytest.mark.parametrize("method", BASELINES)


class Desk:
    """Some scans, a table of three of them, and the results of the study with each method."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "scans.tsv"
        for name, voxels in HEADS.items():
            save(self.scan(name), voxels)
        rows = [f"{name}.nii.gz\t{site}" for name, site in zip(SCANS, "AAB", strict=True)]
        self.table.write_text("\n".join(["image\tsite", *rows, ""]))

    def scan(self, name: str) -> Path:
        return self.folder / f"{name}.nii.gz"

    def study(self, method: str) -> Path:
        out = self.folder / f"study-{method}"
        if not out.exists():
            typed("cohort", self.table, out, "-q", "--method", method)
        return out


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("methods"))


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────


def counted(name: str) -> ndflow.Histogram:
    return ndflow.histogram(BRAINS[name])


def mixture_of(name: str) -> ndflow.GaussianMixture:
    return ndflow.fit(counted(name)).mixture


def aligned(name: str, values: Any) -> NDArray[np.float64]:
    return ndflow.transport.align(mixture_of(name))(values)


def baseline(method: str) -> LandmarkMethod:
    found = method_of(Options(method=method))
    assert isinstance(found, LandmarkMethod)
    return found


def measure(method: str, name: str) -> Landmarks:
    return baseline(method).measure(counted(name), Options(method=method))


def average(method: str) -> Landmarks:
    return baseline(method).average(
        (measure(method, name), ndflow.transport.align(mixture_of(name)), 1.0) for name in SCANS
    )


def by_hand(method: str, name: str) -> NDArray[np.float64]:
    """Normalise a scan to the average of the study; zeros stay zero."""
    voxels, own = HEADS[name].astype(float), BRAINS[name]
    if method == "affine":
        mapped = ndflow.transport.align(mixture_of(name))(voxels)
    elif method == "zscore":
        mapped = (voxels - own.mean()) / own.std()
    elif method == "nyul":
        rows = [aligned(scan, np.percentile(BRAINS[scan], SHARES)) for scan in SCANS]
        mapped = PiecewiseLinear(np.percentile(own, SHARES), np.mean(rows, axis=0))(voxels)
    else:
        measured = measure(method, name).values
        mapped = baseline(method).join(measured, average(method).values).imap(voxels)
    return np.where(voxels == 0, 0.0, mapped)


def in_a_study(method: str, name: str) -> NDArray[np.float64]:
    """Normalise a scan to the average of the study, on the usual scale of the method."""
    z = by_hand(method, name)
    if method == "zscore":
        return z
    return np.where(HEADS[name] == 0, 0.0, positive(z))


def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Check that two images are equal up to the rounding of float32."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5 * expected.std())


# ── cohort, reference, normalise, apply ──────────────────────────────────────────────────────────


@methods
def test_a_study_is_brought_to_its_average_and_back(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    out = desk.study(method)
    for name in SCANS:
        same(voxels_of(out / "images" / f"{name}.nii.gz"), in_a_study(method, name))
    back = tmp_path / "back.nii.gz"
    words = ("apply", out / "images/s1.nii.gz", "--map", out / "maps/s1.json", "--inverse")
    assert run(*words, "-o", back).code == 0
    np.testing.assert_allclose(voxels_of(back), HEADS["s1"], atol=0.02)


@baselines
def test_a_reference_serves_a_scan_it_has_never_seen(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    made, chosen = tmp_path / "r.json", ("--method", method)
    assert run("reference", *map(desk.scan, SCANS), *chosen, "-o", made).code == 0
    saved = Landmarks.from_dict(read_json(made)["reference"]["landmarks"])
    np.testing.assert_allclose(saved.values, average(method).values, rtol=1e-9, atol=1e-9)
    done = run("normalise", desk.scan("new"), "--to", made, *chosen, "-o", tmp_path / "n.nii.gz")
    assert done.code == 0, done.err
    same(voxels_of(tmp_path / "n.nii.gz"), in_a_study(method, "new"))
