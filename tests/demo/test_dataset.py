"""The scans of the demonstration."""

import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray
from studies import contents

from ndflow.demo.run import DemoStudy, write_demo_study
from ndflow.demo.simulate import MEANS
from ndflow.errors import FileError, InvalidValueError
from ndflow.preparation.registration import load_anatomy
from ndflow.study.table import read_table

SUBJECTS = 3


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> DemoStudy:
    return write_demo_study(tmp_path_factory.mktemp("demo"), resolution=4.0, subjects=SUBJECTS)


def load(study: DemoStudy, name: str, kind: str) -> NDArray[np.float64]:
    subject = name.removesuffix("_T1w")
    path = study.table.parent / "scans" / f"{subject}_{kind}.nii.gz"
    return np.asarray(nib.load(path).dataobj)


def test_images_are_integers_inside_the_mask_and_zero_outside(study: DemoStudy) -> None:
    for name in study.truths:
        image, mask = load(study, name, "T1w"), load(study, name, "mask")
        assert (image.dtype, mask.dtype) == (np.int16, np.uint8)
        assert not image[mask == 0].any()
        assert image[mask == 1].min() > 0
        # An adult brain, in litres; the template's is 1.9.
        assert 1.6 < mask.sum() * 0.064 / 1000 < 2.2


def test_tissues_are_probabilities(study: DemoStudy) -> None:
    for name in study.truths:
        mask = load(study, name, "mask") == 1
        tissues = np.array([load(study, name, kind) for kind in ("csf", "gm", "wm")])
        assert not tissues[:, ~mask].any()
        np.testing.assert_allclose(tissues[:, mask].sum(axis=0), 1, atol=1.51 / 255)
        assert (tissues[:, mask].mean(axis=1) > [0.05, 0.4, 0.2]).all()


def test_the_same_seed_gives_the_same_bytes_and_another_others(
    study: DemoStudy, tmp_path: Path
) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    write_demo_study(again, resolution=4.0, subjects=SUBJECTS)
    write_demo_study(other, resolution=4.0, subjects=SUBJECTS, seed=1)
    first, second = contents(study.table.parent), contents(other)
    assert contents(again) == first
    assert first.keys() == second.keys()
    assert len(set(first.values()) | set(second.values())) == len(first) + len(second)


def test_the_known_percentiles_and_curve_predict_those_of_the_scan(study: DemoStudy) -> None:
    for name, truth in study.truths.items():
        inside = load(study, name, "T1w")[load(study, name, "mask") == 1]
        shown = np.percentile(inside, [10, 25, 50, 75, 90])
        expected = truth.curve(truth.canonical[[9, 24, 49, 74, 89]])
        np.testing.assert_allclose(shown, expected, rtol=0.1)


def test_sites_differ_by_more_than_gain(study: DemoStudy) -> None:
    # The position of GM between CSF and WM, which no affine map changes.
    grey = {}
    for truth in study.truths.values():
        csf, gm, wm = truth.curve(MEANS)
        grey.setdefault(truth.site, []).append((gm - csf) / (wm - csf))
    for values in grey.values():
        np.testing.assert_allclose(values, values[0])
    middle = sorted(values[0] for values in grey.values())
    assert np.diff(middle).min() > 0.05


def test_brains_lie_where_the_template_does(study: DemoStudy) -> None:
    template = load_anatomy().brain[::4, ::4, ::4] > 0
    for name in study.truths:
        mask = load(study, name, "mask") == 1
        assert mask.shape == template.shape
        dice = 2 * np.count_nonzero(mask & template) / (mask.sum() + template.sum())
        assert 0.85 < dice < 0.995


def test_an_existing_table_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "scans.tsv"
    table.write_text("image\n")
    with pytest.raises(FileError, match="exists already"):
        write_demo_study(tmp_path, resolution=8.0, subjects=1)
    assert table.read_text() == "image\n"


def test_without_nilearn_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nilearn.datasets", None)
    with pytest.raises(InvalidValueError, match=r"pip install '.\[prepare\]'"):
        write_demo_study(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_one_subject_has_a_lesion(study: DemoStudy) -> None:
    listed = [
        scan for scan in read_table(study.table).subjects if scan.covariates["has_lesion"] == "yes"
    ]
    assert [scan.person for scan in listed] == ["Brindle-02"]
