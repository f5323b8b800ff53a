"""``ndflow apply``: a saved map on any image, and its inverse."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import Run
from one_scan import OTHER, SCAN, TARGET
from phantoms import radii, save, voxels_of
from studies import record_of, sha256

import ndflow

INSIDE = SCAN != 0
SPAN = float(np.ptp(SCAN))


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", SCAN)


@pytest.fixture
def normal(run: Run, scan: Path, tmp_path: Path) -> Path:
    """The scan normalised to another one, with its record beside it."""
    other = save(tmp_path / "other.nii.gz", OTHER)
    assert run("normalise", scan, "--to", other, "-o", tmp_path / "normal.nii.gz").code == 0
    return tmp_path / "normal.nii.gz"


@pytest.fixture
def doubling(tmp_path: Path) -> Path:
    """A map that is easily checked: 2 x + 100."""
    ndflow.save(tmp_path / "doubling.json", ndflow.Affine(2.0, 100.0))
    return tmp_path / "doubling.json"


def test_the_map_of_a_record_gives_the_same_image_again(
    run: Run, scan: Path, normal: Path, tmp_path: Path
) -> None:
    output = tmp_path / "again.nii.gz"
    done = run("apply", scan, "--map", tmp_path / "normal.json", "-o", output)
    assert done.well
    assert output.read_bytes() == normal.read_bytes()


@pytest.mark.parametrize(("method", "to"), [("ndflow", "image"), ("affine", "reference")])
def test_the_inverse_gives_the_image_back(
    run: Run, scan: Path, tmp_path: Path, to: str, method: str
) -> None:
    target = save(tmp_path / "other.nii.gz", OTHER)
    if to == "reference":
        target = tmp_path / "reference.json"
        ndflow.save(target, ndflow.reference([TARGET]))
    there, back = tmp_path / "there.nii.gz", tmp_path / "back.nii.gz"
    command = ("normalise", scan, "--to", target, "-o", there, "--method", method)
    assert run(*command).code == 0
    assert np.abs(voxels_of(there)[INSIDE] - SCAN[INSIDE]).max() > 0.05 * SPAN
    done = run("apply", there, "--map", tmp_path / "there.json", "--inverse", "-o", back)
    assert done.well
    result = voxels_of(back)
    assert np.abs(result - SCAN).max() < 1e-3 * SPAN  # the promise
    assert np.abs(result - SCAN).max() < 1e-5 * SPAN  # only rounding to float32
    assert not result[~INSIDE].any()


def test_the_record_says_what_was_done(
    run: Run, scan: Path, doubling: Path, tmp_path: Path
) -> None:
    mask = save(tmp_path / "mask.nii.gz", (radii() < 0.9).astype(np.uint8))
    output = tmp_path / "out.nii.gz"
    words = ["apply", scan, "--map", doubling, "--inverse", "--mask", mask, "-o", output]
    assert run(*words).well
    record = record_of(output)
    assert (record["kind"], record["ndflow"]) == ("map", ndflow.__version__)
    assert record["command"] == ["ndflow", *map(str, words)]
    assert record["settings"]["inverse"] is True
    assert record["settings"]["outside"] is None
    assert record["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}]
        for what, file in {"image": scan, "map": doubling, "mask": mask}.items()
    }
    assert ndflow.load(tmp_path / "out.json") == ndflow.Affine(0.5, -50.0)


def test_inverting_an_image_with_kept_voxels_outside_is_warned_of(run: Run, inputs: Path) -> None:
    scan, mask = inputs / "scan.nii.gz", inputs / "mask.nii.gz"
    keep = ("--mask", mask, "--set", "outside=keep")
    to = ("--to", inputs / "other.nii.gz")
    assert run("normalise", scan, *to, *keep, "-o", inputs / "x.nii.gz").code == 0
    undo = ("apply", inputs / "x.nii.gz", "--map", inputs / "x.json", "--inverse", "-o")
    done = run(*undo, inputs / "y.nii.gz")
    assert done.code == 0
    assert done.err.startswith(f"warning: {inputs / 'x.json'}: was made with --set outside=keep")
    assert run(*undo, inputs / "z.nii.gz", *keep).err == ""
    back = nibabel.load(inputs / "z.nii.gz").get_fdata()
    np.testing.assert_allclose(back, SCAN, atol=0.01)
