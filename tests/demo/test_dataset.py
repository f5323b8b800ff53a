"""The scans of the demonstration, and how well maps recover what its scanners did."""

import csv
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from studies import contents

from ndflow.demo.dataset import DemoStudy, Truth, recovery_of, write_demo_study
from ndflow.demo.simulate import MEANS
from ndflow.demo.template import grid_over, load_anatomy
from ndflow.errors import FileError, InvalidValueError
from ndflow.study.listing.scan_table import read_scans
from ndflow.transport import Affine, Chain, IntensityMap, PiecewiseLinear

SUBJECTS = 3


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> DemoStudy:
    return write_demo_study(tmp_path_factory.mktemp("demo"), resolution=4.0, subjects=SUBJECTS)


def load(study: DemoStudy, name: str, kind: str) -> NDArray[np.float64]:
    subject = name.removesuffix("_T1w")
    path = study.table.parent / "scans" / f"{subject}_{kind}.nii.gz"
    return np.asarray(nib.load(path).dataobj)


def line(slope: float, start: float) -> Affine:
    return Affine(np.array([[slope]]), np.array([start]))


def test_the_table_lists_all_scans_of_three_sites(study: DemoStudy) -> None:
    scans = read_scans(study.table)
    assert [scan.site for scan in scans] == ["Ashford"] * 3 + ["Brindle"] * 3 + ["Corley"] * 3
    assert len({scan.subject for scan in scans}) == len(scans)
    for scan in scans:
        for file in (scan.image, scan.mask, *scan.tissues):
            assert file is not None
            assert Path(file).is_file()
        name = Path(scan.path).name.removesuffix(".nii.gz")
        assert study.truths[name].site == scan.site
    assert len(study.truths) == len(scans)
    with study.table.open(newline="") as file:
        cells = next(csv.DictReader(file, delimiter="\t"))
    assert cells["image"] == "scans/Ashford-01_T1w.nii.gz"  # relative, so that it can be moved


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


def test_tissues_look_as_the_curve_says(study: DemoStudy) -> None:
    for name, truth in study.truths.items():
        image = load(study, name, "T1w")
        for kind, mean in zip(("csf", "gm", "wm"), MEANS, strict=True):
            pure = load(study, name, kind) > 0.9
            expected = float(truth.curve(mean))
            assert np.median(image[pure]) == pytest.approx(
                expected, rel=0.2 if kind == "csf" else 0.08
            )


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


def test_one_subject_has_a_lesion(study: DemoStudy) -> None:
    ill = [name for name, truth in study.truths.items() if truth.lesion_voxels]
    assert len(ill) == 1
    share = study.truths[ill[0]].lesion_voxels / load(study, ill[0], "mask").sum()
    assert 0.01 < share < 0.02
    listed = [scan for scan in read_scans(study.table) if scan.covariates["has_lesion"] == "yes"]
    assert [f"{scan.subject}_T1w" for scan in listed] == ill


def test_the_share_of_csf_grows_with_age(study: DemoStudy) -> None:
    scans = read_scans(study.table)
    ages = [float(scan.covariates["age"]) for scan in scans]
    shares = [
        load(study, f"{scan.subject}_T1w", "csf").sum()
        / load(study, f"{scan.subject}_T1w", "mask").sum()
        for scan in scans
    ]
    assert 18 <= min(ages) < 40 < 60 < max(ages) <= 90
    assert np.corrcoef(ages, shares)[0, 1] > 0.6
    assert max(shares) > 1.15 * min(shares)


def test_at_a_millimetre_the_grid_is_that_of_the_template() -> None:
    anatomy = load_anatomy()
    grid = grid_over(anatomy, 1.0, 0.0)
    assert grid.shape == (197, 233, 189)
    assert np.array_equal(grid.affine, anatomy.affine)


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


def test_nothing_is_replaced_unless_forced(tmp_path: Path) -> None:
    write_demo_study(tmp_path, resolution=8.0, subjects=1)
    first = contents(tmp_path)
    with pytest.raises(FileError, match="exists already"):
        write_demo_study(tmp_path, resolution=8.0, subjects=1, seed=1)
    assert contents(tmp_path) == first
    write_demo_study(tmp_path, resolution=8.0, subjects=1, seed=1, force=True)
    assert contents(tmp_path)["scans.tsv"] != first["scans.tsv"]


@pytest.mark.parametrize(
    "wrong",
    [{"resolution": 0.1}, {"resolution": 9}, {"resolution": np.nan}, {"seed": -1}, {"subjects": 0}],
)
def test_impossible_sizes_of_a_study_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(wrong))):
        write_demo_study(tmp_path, **wrong)
    assert not contents(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(FileError, match="file"):
        write_demo_study(taken, resolution=8.0, subjects=1)


def test_without_nilearn_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nilearn.datasets", None)
    with pytest.raises(InvalidValueError, match=r"pip install 'ndflow\[report\]'"):
        write_demo_study(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@given(slope=st.floats(0.01, 100), start=st.floats(-100, 100))
def test_the_inverse_curves_recover_the_truth_in_any_units(
    study: DemoStudy, slope: float, start: float
) -> None:
    maps = {n: Chain((t.curve.inverse(), line(slope, start))) for n, t in study.truths.items()}
    found = recovery_of(maps, study.truths)
    assert found.per_scan.keys() == study.truths.keys()
    assert max(found.mean, found.spread, *found.per_scan.values()) < 1e-6


def test_alignment_recovers_some_of_what_the_scanners_did(study: DemoStudy) -> None:
    raw: dict[str, IntensityMap] = {name: line(1, 0) for name in study.truths}
    aligned: dict[str, IntensityMap] = {}
    for name in study.truths:
        inside = load(study, name, "T1w")[load(study, name, "mask") == 1]
        aligned[name] = line(1 / inside.std(), -inside.mean() / inside.std())
    before, after = (recovery_of(maps, study.truths) for maps in (raw, aligned))
    assert before.mean > 3 * after.mean > 0.1
    assert before.spread > 3 * after.spread > 0.1


def test_two_scans_shifted_apart_are_each_off_by_half() -> None:
    c = np.linspace(0.2, 0.9, 99)
    straight = PiecewiseLinear(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    truths = {name: Truth("A", straight, c, 0) for name in "ab"}
    found = recovery_of({"a": line(2, 0.3), "b": line(2, -0.1)}, truths)
    expected = 0.2 / (2 * c.std())
    assert found.per_scan == pytest.approx({"a": expected, "b": expected})
    assert (found.mean, found.spread) == pytest.approx((expected, expected))


def test_a_bend_shared_by_all_scans_is_an_error_but_not_variation() -> None:
    c = np.linspace(0.0, 1.0, 99)
    bend = PiecewiseLinear(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.2, 1.0]))
    straight = PiecewiseLinear(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    truths = {name: Truth("A", straight, c, 0) for name in "ab"}
    found = recovery_of({"a": bend, "b": bend}, truths)
    r = np.corrcoef(c, bend(c))[0, 1]
    # The residual of a regression, relative to what it explains.
    assert found.mean == pytest.approx(np.sqrt(1 / r**2 - 1))
    assert found.spread == pytest.approx(0, abs=1e-12)


def test_maps_of_unknown_scans_are_refused(study: DemoStudy) -> None:
    with pytest.raises(InvalidValueError, match="Nowhere-01"):
        recovery_of({"Nowhere-01": line(1, 0)}, study.truths)
    with pytest.raises(InvalidValueError, match="no scan at all"):
        recovery_of({}, study.truths)
