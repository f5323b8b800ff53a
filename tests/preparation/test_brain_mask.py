"""What does not need the network; `tests/needs_torch` has the rest."""

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


def volume(affine: np.ndarray = LARGE, *, scale: float = 1.0) -> Volume:
    return read_volume(nibabel.Nifti1Image((head() * scale).astype(np.float64), affine))


@pytest.mark.parametrize("missing", ["deepbet", "torch"])
def test_without_deepbet_the_extra_is_named(
    missing: str, deepbet: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_deepbet()
    monkeypatch.setitem(sys.modules, missing, None)
    for work in (check_deepbet, lambda: brain_mask(volume())):
        with pytest.raises(InvalidValueError, match=f"but {missing} cannot be imported") as caught:
            work()
        assert "pip install '.[prepare]'" in str(caught.value)
        assert "CPU build of torch" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("sub-1_T2w.nii.gz", "a/sub-1_FLAIR.nii", "x_task-rest_bold.nii.gz", "s_pdw.nii"),
        *("T2.mgz", "IXI002-Guys-0828-T2.nii.gz", "sub-1_UNIT1.nii", "sub-1_inplaneT1.nii"),
    ],
)
def test_images_that_are_not_t1w_are_refused(name: str) -> None:
    with pytest.raises(FileError, match="not a T1w image by its name") as caught:
        refuse_other_contrasts(name)
    assert caught.value.path == name
    assert "--mask FILE" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "sub-1_T1w.nii.gz",
        "sub-T2w_T1w.nii",
        "T2w/sub-1_T1w.nii",
        "T1.mgz",
        "scan.nii",
        "the image",
        "sub-PD.nii",
    ],
)
def test_others_are_not(name: str) -> None:
    refuse_other_contrasts(name)


def test_what_has_no_orientation_is_refused(deepbet: StandIn) -> None:
    with pytest.raises(InvalidValueError, match="an array has no orientation"):
        brain_mask(read_volume(head()))
    flat = replace(volume(), affine=np.diag([6.0, 6.0, 0.0, 1.0]))
    with pytest.raises(FileError, match="orientation is not known"):
        brain_mask(flat)
    with pytest.raises(FileError, match="a single slice"):
        brain_mask(read_volume(nibabel.Nifti1Image(head()[:, :, :1], LARGE)))
    assert deepbet.calls == 0


@pytest.mark.parametrize(
    ("size", "message"), [(0.5, "holds [0-9]+ ml, but brains have 500"), (2.0, "to 2,200 ml")]
)
def test_what_is_not_as_large_as_a_brain_is_refused(
    size: float, message: str, deepbet: StandIn
) -> None:
    with pytest.raises(FileError, match=message) as caught:
        brain_mask(volume(LARGE @ np.diag([size, size, size, 1.0])))
    assert "--mask FILE" in caught.value.hint


def test_a_brain_that_is_cut_off_is_refused(deepbet: StandIn) -> None:
    larger = LARGE @ np.diag([1.2, 1.2, 1.2, 1.0])
    with pytest.raises(FileError, match="of a face of the image"):
        brain_mask(read_volume(nibabel.Nifti1Image(head()[12:], larger)))


def test_units_do_not_matter_and_what_is_not_finite_counts_as_0(deepbet: StandIn) -> None:
    found = brain_mask(volume())
    assert np.array_equal(brain_mask(volume(scale=1e300)), found)
    assert np.array_equal(brain_mask(volume(scale=1e-300)), found)
    holed = head().astype(np.float32)[..., None]
    holed[0], holed[-1] = np.nan, np.inf
    assert np.array_equal(brain_mask(read_volume(nibabel.Nifti1Image(holed, LARGE))), found)


def test_zeros_belong_to_the_brain_only_where_it_encloses_them(deepbet: StandIn) -> None:
    deepbet.widen()
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
    assert deepbet.threads == {"during": 1, "after": 4}


def test_what_deepbet_cannot_do_names_the_file(deepbet: StandIn, tmp_path: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(np.zeros((9, 9, 9), np.int16), LARGE), tmp_path / "z.nii")
    with pytest.raises(FileError, match="deepbet finds no brain in it") as caught:
        brain_mask(read_volume(tmp_path / "z.nii"))
    assert caught.value.path == str(tmp_path / "z.nii")
