"""What does not need the network; `tests/needs_torch` has the rest."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
from deepbet_stand_in import StandIn
from phantoms import AFFINE, head

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume
from ndflow.preparation.brain import brain_mask, check_deepbet, refuse_other_contrasts

LARGE = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # a phantom as large as a brain


def volume(scale: float = 1.0) -> Volume:
    return read_volume(nibabel.Nifti1Image((head() * scale).astype(np.float64), LARGE))


@pytest.mark.parametrize("missing", ["deepbet", "torch"])
def test_without_deepbet_the_extra_is_named(
    missing: str, deepbet: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_deepbet()
    monkeypatch.setitem(sys.modules, missing, None)
    for work in (check_deepbet, lambda: brain_mask(volume())):
        with pytest.raises(InvalidValueError, match=f"needs {missing} .*; try") as caught:
            work()
        assert "pip install '.[prepare]'" in str(caught.value)
        assert "CPU build of torch" in str(caught.value)


def test_units_do_not_matter_and_what_is_not_finite_counts_as_0(deepbet: StandIn) -> None:
    found = brain_mask(volume())
    assert np.array_equal(brain_mask(volume(scale=1e300)), found)
    assert np.array_equal(brain_mask(volume(scale=1e-300)), found)
    holed = head().astype(np.float32)[..., None]
    holed[0], holed[-1] = np.nan, np.inf
    assert np.array_equal(brain_mask(read_volume(nibabel.Nifti1Image(holed, LARGE))), found)


def test_zeros_belong_to_the_brain_only_where_it_encloses_them(deepbet: StandIn) -> None:
    (deepbet.folder / "wide").touch()  # it takes nearly everything for the brain
    values = head()
    values[11:13, 13:15, 9:11] = 0  # a ventricle
    inside = brain_mask(read_volume(nibabel.Nifti1Image(values, LARGE)))
    assert inside[11:13, 13:15, 9:11].all()
    assert np.array_equal(inside, head() > 0)


def test_what_deepbet_prints_and_changes_is_not_noticed(
    deepbet: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    brain_mask(volume())
    assert capsys.readouterr() == ("", "")
    assert deepbet.threads == [1]
    assert importlib.import_module("torch").get_num_threads() == 4


OTHERS = ("sub-1_T2w.nii.gz", "x_task-rest_bold.nii.gz", "s_pdw.nii", "T2.mgz", "sub-1_UNIT1.nii")
T1W = ("sub-1_T1w.nii.gz", "sub-T2w_T1w.nii", "T2w/sub-1_T1w.nii", "T1.mgz", "scan.nii")


def test_images_that_are_not_t1w_by_their_names_are_refused() -> None:
    for name in T1W:
        refuse_other_contrasts(name)
    for name in OTHERS:
        with pytest.raises(FileError, match=r"not a T1w image by its name.*--mask FILE") as caught:
            refuse_other_contrasts(name)
        assert caught.value.path == name


def test_what_has_no_orientation_is_refused_before_the_network_runs(deepbet: StandIn) -> None:
    flat = replace(volume(), affine=np.diag([6.0, 6.0, 0.0, 1.0]))
    slice_ = read_volume(nibabel.Nifti1Image(head()[:, :, :1], LARGE))
    with pytest.raises(InvalidValueError, match="an array has no orientation"):
        brain_mask(read_volume(head()))
    for scan, message in ((flat, "orientation is not known"), (slice_, "a single slice")):
        with pytest.raises(FileError, match=message):
            brain_mask(scan)
    assert deepbet.calls == 0


@pytest.mark.parametrize(
    ("values", "size", "message"),
    [
        (head(), 0.5, "holds [0-9]+ ml, but brains have 500.*--mask FILE"),
        (head(), 2.0, "to 2,200 ml"),
        (head()[12:], 1.2, "cut off"),
        (np.zeros((9, 9, 9), np.int16), 1.0, "z.nii: deepbet finds no brain in it"),
    ],
)
def test_what_is_no_whole_brain_is_refused(
    values: np.ndarray, size: float, message: str, deepbet: StandIn, tmp_path: Path
) -> None:
    affine = LARGE @ np.diag([size, size, size, 1.0])
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "z.nii")
    with pytest.raises(FileError, match=message):
        brain_mask(read_volume(tmp_path / "z.nii"))
