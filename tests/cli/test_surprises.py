"""What somebody would not have expected, and is spared or told."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from phantoms import head, save

import ndflow
from ndflow.errors import FileError

SCAN = head(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "scan.nii.gz", SCAN)
    save(tmp_path / "other.nii.gz", head(1, gain=2))
    save(tmp_path / "mask.nii.gz", (SCAN > 500).astype(np.uint8))
    mixture = ndflow.fit_image(tmp_path / "other.nii.gz").mixture
    ndflow.save(tmp_path / "reference.json", ndflow.reference([mixture]))
    return tmp_path


def test_an_image_of_nibabel_is_not_replaced_by_its_own_result(folder: Path) -> None:
    scan, before = folder / "scan.nii.gz", (folder / "scan.nii.gz").read_bytes()
    with pytest.raises(FileError, match="one of the inputs"):
        ndflow.normalise(nibabel.load(scan), folder / "reference.json", output=scan, force=True)
    with pytest.raises(FileError, match="one of the inputs"):
        ndflow.normalise(
            SCAN, folder / "reference.json", mask=nibabel.load(scan), output=scan, force=True
        )
    assert scan.read_bytes() == before


@pytest.mark.parametrize(
    "command", ["normalise {0}/scan.nii.gz --to {0}/reference.json -o {0}/x.nii", "fit {0}/x.nii"]
)
def test_a_record_of_the_acquisition_survives_force(run, folder: Path, command: str) -> None:
    save(folder / "x.nii", SCAN)
    acquisition = folder / "x.json"
    acquisition.write_text(json.dumps({"EchoTime": 0.003}))
    words = command.format(folder).split()
    done = run(*words, *([] if "-o" in words else ["-o", f"{folder}/"]), "--force")
    assert done.code == 2
    assert "x.json: exists, and was not written by ndflow" in done.errors[0]
    assert json.loads(acquisition.read_text()) == {"EchoTime": 0.003}


def test_whole_numbers_that_could_not_tell_tissues_apart_are_refused(run, folder: Path) -> None:
    words = ("normalise", folder / "scan.nii.gz", "--to", folder / "reference.json", "-o")
    done = run(*words, folder / "x.nii.gz", "--dtype", "int16")
    assert done.code == 2
    assert "--range 0 1000" in done.errors[0]
    assert run(*words, folder / "x.nii.gz", "--dtype", "int16", "--dry-run") == done
    assert run(*words, folder / "x.nii.gz", "--dtype", "int16", "--range", 0, 1000).code == 0
    assert len(np.unique(nibabel.load(folder / "x.nii.gz").dataobj)) > 500


def test_what_was_kept_cannot_be_undone_without_a_word(run, folder: Path) -> None:
    scan, mask = folder / "scan.nii.gz", folder / "mask.nii.gz"
    keep = ("--mask", mask, "--outside", "keep")
    to = ("--to", folder / "other.nii.gz")
    assert run("normalise", scan, *to, *keep, "-o", folder / "x.nii.gz").code == 0
    undo = ("apply", folder / "x.nii.gz", "--map", folder / "x.json", "--inverse", "-o")
    done = run(*undo, folder / "y.nii.gz")
    assert done.code == 0
    assert done.err.startswith(f"warning: {folder / 'x.json'}: was made with --outside keep")
    assert run(*undo, folder / "z.nii.gz", *keep).err == ""
    back = nibabel.load(folder / "z.nii.gz").get_fdata()
    np.testing.assert_allclose(back, SCAN, atol=0.01)


def test_some_scans_may_have_no_lesion(run, folder: Path) -> None:
    scans = (folder / "scan.nii.gz", folder / "other.nii.gz")
    words = ("fit", *scans, "-o", folder / "out", "--exclude", folder / "mask.nii.gz", "none")
    assert run(*words).code == 0
    settings = [
        json.loads((folder / "out" / f"{name}.json").read_text())["settings"]["exclude"]
        for name in ("scan", "other")
    ]
    assert settings == [True, False]
    assert run("fit", *scans, "-o", folder / "new", "--exclude", "auto", "auto").code == 2


def test_models_say_which_voxels_they_describe(run, folder: Path) -> None:
    scan, mask = folder / "scan.nii.gz", folder / "mask.nii.gz"
    kinds = {"nonzero": (), "auto": ("--mask", "auto"), "given": ("--mask", mask)}
    for kind, words in kinds.items():
        path = folder / f"{kind}.json"
        assert run("fit", scan, "-o", path, *words).code == 0
        assert json.loads(path.read_text())["settings"]["mask"] == kind
    path = folder / "r.json"
    assert run("reference", scan, folder / "auto.json", "-o", path, "--mask", "auto").code == 0
    inputs = json.loads(path.read_text())["inputs"]
    assert [part.get("mask") for part in inputs] == ["auto", None]


def test_options_that_would_do_nothing_are_refused(run, folder: Path) -> None:
    model = folder / "m.json"
    assert run("fit", folder / "scan.nii.gz", "-o", model).code == 0
    for option in (("--mask", "auto"), ("--effective-count", 50)):
        done = run("reference", model, "-o", folder / "r.json", *option)
        assert (done.code, option[0] in done.errors[0]) == (2, True)
    words = ("normalise", folder / "scan.nii.gz", "--to", model, "-o", folder / "x.nii.gz")
    assert run(*words, "--method", "affine", "--solver", "rk4").code == 2


def test_warnings_about_the_target_are_in_the_record(run, folder: Path) -> None:
    odd = head(1).astype(np.float32)
    odd[5, 5, 5] = np.nan
    target = save(folder / "odd.nii.gz", odd)
    output = folder / "x.nii.gz"
    done = run("normalise", folder / "scan.nii.gz", "--to", target, "-o", output)
    (warning,) = json.loads((folder / "x.json").read_text())["warnings"]
    assert "1 voxel NaN or infinite" in warning
    assert done.err == f"warning: {warning}\n"
