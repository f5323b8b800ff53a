"""The scans of the demonstration, and those of the tutorial."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import typed
from numpy.typing import NDArray
from studies import contents

from ndflow.demo import run as demonstration
from ndflow.demo.run import DemoStudy, write_demo_study
from ndflow.preparation.registration import load_anatomy
from ndflow.study.table import read_table


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> DemoStudy:
    return write_demo_study(tmp_path_factory.mktemp("demo"), resolution=4.0, subjects=2)


def load(study: DemoStudy, name: str, kind: str) -> NDArray[np.float64]:
    subject = name.removesuffix("_T1w")
    path = study.table.parent / "scans" / f"{subject}_{kind}.nii.gz"
    return np.asarray(nib.load(path).dataobj)


def test_scans_are_brains_whose_intensities_follow_from_the_truth(study: DemoStudy) -> None:
    template = load_anatomy().brain[::4, ::4, ::4] > 0
    for name, truth in study.truths.items():
        image, mask = load(study, name, "T1w"), load(study, name, "mask")
        assert (image.dtype, mask.dtype) == (np.int16, np.uint8)
        inside = mask == 1
        assert not image[~inside].any()
        assert image[inside].min() > 0
        dice = 2 * np.count_nonzero(inside & template) / (inside.sum() + template.sum())
        assert 0.85 < dice < 0.995
        tissues = np.array([load(study, name, kind) for kind in ("csf", "gm", "wm")])
        assert not tissues[:, ~inside].any()
        np.testing.assert_allclose(tissues[:, inside].sum(axis=0), 1, atol=1.51 / 255)
        assert (tissues[:, inside].mean(axis=1) > [0.05, 0.4, 0.2]).all()
        shown = np.percentile(image[inside], [10, 25, 50, 75, 90])
        expected = truth.curve(truth.canonical[[9, 24, 49, 74, 89]])
        np.testing.assert_allclose(shown, expected, rtol=0.1)
    scans = read_table(study.table).subjects
    ill = [scan.person for scan in scans if scan.covariates["has_lesion"] == "yes"]
    assert ill == ["Brindle-02"]


def test_the_same_seed_gives_the_same_bytes_and_another_others(tmp_path: Path) -> None:
    made = [
        write_demo_study(tmp_path / str(n), resolution=8.0, subjects=1, seed=seed).table.parent
        for n, seed in enumerate((0, 0, 1))
    ]
    first, again, other = map(contents, made)
    assert again == first
    assert not {*first.values()} & {*other.values()}


def shading(path: str) -> float:
    """Return by which factor the brighter half of a brain, front or back, exceeds the other."""
    voxels = np.asarray(nib.load(path).dataobj, float)
    halves = np.split(voxels, [voxels.shape[1] // 2], axis=1)
    dark, bright = sorted(np.median(half[half > 0]) for half in halves)
    return float(bright / dark)


def test_raw_scans_are_shaded_and_listed_in_two_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demonstration, "_SUBJECTS", 2)
    monkeypatch.setattr(demonstration, "_RESOLUTION", 8.0)
    folder = tmp_path / "raw"
    typed("demo", folder, "--raw")
    study, later = (read_table(folder / name).subjects for name in ("study.tsv", "later.tsv"))
    sites = ["Ashford", "Brindle", "Corley"]
    assert [scan.site for scan in study] == [site for site in sites for _ in range(2)]
    assert [scan.site for scan in later] == sites
    assert len({scan.person for scan in (*study, *later)}) == 9
    assert not any(scan.mask for scan in (*study, *later))
    # Those of the demonstration have 1.04 at most, at this resolution.
    assert max(shading(scan.path) for scan in study) > 1.15
    typed("demo", folder, "--raw", code=2)
    assert "not empty" in capsys.readouterr().err
