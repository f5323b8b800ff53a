"""``ndflow apply``: a saved map on any image, and its inverse."""

import re
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import Run
from one_scan import OTHER, SCAN, TARGET
from phantoms import AFFINE, SHAPE, head, radii, save, voxels_of
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


def test_the_record_of_an_inverse_can_be_inverted_again(
    run: Run, normal: Path, tmp_path: Path
) -> None:
    back, forth = tmp_path / "back.nii.gz", tmp_path / "forth.nii.gz"
    assert (
        run("apply", normal, "--map", tmp_path / "normal.json", "--inverse", "-o", back).code == 0
    )
    assert run("apply", back, "--map", tmp_path / "back.json", "--inverse", "-o", forth).code == 0
    np.testing.assert_allclose(voxels_of(forth), voxels_of(normal), atol=1e-2)


def test_a_map_can_be_applied_to_any_image(run: Run, doubling: Path, tmp_path: Path) -> None:
    # Even one that could not be fitted: of two values, and of another shape and type.
    voxels = np.zeros((5, 4, 3), np.float32)
    voxels[2:] = 1.25
    image = save(tmp_path / "two.nii", voxels)
    assert run("apply", image, "--map", doubling, "-o", tmp_path / "out.nii").well
    result = voxels_of(tmp_path / "out.nii", None)
    assert result.dtype == np.float32
    assert np.array_equal(result, np.where(voxels, 102.5, 0))


@pytest.mark.parametrize(
    ("outside", "masked", "inverse"),
    [
        (None, True, False),
        (None, False, True),
        ("zero", True, True),
        ("zero", False, False),
        ("keep", True, False),
        ("map", True, True),
    ],
)
def test_voxels_outside_the_mask_are_treated_as_asked(
    run: Run, doubling: Path, tmp_path: Path, outside: str | None, masked: bool, inverse: bool
) -> None:
    voxels = SCAN.copy()
    voxels[12, 14, 5:15] = 0  # inside the mask
    image = save(tmp_path / "image.nii.gz", voxels)
    inside = radii() < 0.9 if masked else voxels != 0
    options: list[object] = ["--inverse"] if inverse else []
    if masked:
        options += ["--mask", save(tmp_path / "mask.nii.gz", inside.astype(np.uint8))]
    if outside:
        options += ["--set", f"outside={outside}"]
    done = run("apply", image, "--map", doubling, "-o", tmp_path / "out.nii.gz", *options)
    assert done.code == 0
    # Among integers, a 0 may be a voxel of the brain or background: only a mask can tell.
    ambiguous = inverse and not masked and outside is None
    assert bool(re.search("0 is taken for background.*give its --mask", done.err)) == ambiguous
    assert len(done.err.splitlines()) == ambiguous
    mapped = (voxels - 100) / 2 if inverse else 2.0 * voxels + 100
    expected = {
        None: np.where(inside | (voxels != 0), mapped, 0),
        "zero": np.where(inside, mapped, 0),
        "keep": np.where(inside, mapped, voxels),
        "map": mapped,
    }[outside]
    assert np.array_equal(voxels_of(tmp_path / "out.nii.gz"), expected)


def test_the_foreground_can_be_what_is_inside(run: Run, doubling: Path, tmp_path: Path) -> None:
    shape = (40, 44, 36)
    voxels = head(0, shape=shape)
    air = np.abs(np.random.default_rng(1).normal(0, 8, shape)) + 1
    noisy = np.where(voxels, voxels, air).astype(np.int16)
    image, output = save(tmp_path / "a.nii.gz", noisy), tmp_path / "b.nii.gz"
    command = ("apply", image, "--map", doubling, "-o", output, "--mask", "auto")
    assert run(*command, "--set", "outside=zero").well
    found = voxels_of(output) != 0
    assert np.mean(found == (voxels != 0)) > 0.99


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8"])
def test_the_type_of_a_voxel_can_be_chosen(
    run: Run, scan: Path, doubling: Path, tmp_path: Path, dtype: str
) -> None:
    output = tmp_path / "out.nii.gz"
    done = run("apply", scan, "--map", doubling, "-o", output, "--dtype", dtype)
    assert done.code == 0
    assert nibabel.load(output).get_data_dtype() == dtype
    expected = np.where(INSIDE, 2.0 * SCAN + 100, 0)
    clipped = np.count_nonzero(expected > 255) if dtype == "uint8" else 0
    assert np.array_equal(voxels_of(output), expected if not clipped else np.minimum(expected, 255))
    assert record_of(output)["clipped"] == clipped
    assert ("did not fit" in done.err) == bool(clipped)


def test_geometry_header_and_fourth_axis_are_kept(run: Run, doubling: Path, tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(SCAN[..., np.newaxis], None)
    image.header.set_sform(AFFINE, 3)
    image.header.set_qform(AFFINE, 2)
    image.header["descrip"], image.header["cal_max"] = b"a T1", 900
    nibabel.save(image, tmp_path / "a.nii.gz")
    command = ("apply", tmp_path / "a.nii.gz", "--map", doubling, "-o", tmp_path / "b.nii.gz")
    assert run(*command).well
    result = nibabel.load(tmp_path / "b.nii.gz")
    assert result.shape == (*SHAPE, 1)
    assert (int(result.header["sform_code"]), int(result.header["qform_code"])) == (3, 2)
    assert np.array_equal(result.affine, AFFINE)
    assert result.header["descrip"].item() == b"a T1"
    assert result.header["cal_max"] == 0


def test_nan_and_infinity_stay_what_they_are(run: Run, doubling: Path, tmp_path: Path) -> None:
    voxels = SCAN.astype(np.float32)
    voxels[12, 14, 8:11] = [np.nan, np.inf, -np.inf]
    image = save(tmp_path / "a.nii.gz", voxels)
    assert run("apply", image, "--map", doubling, "-o", tmp_path / "b.nii.gz").code == 0
    result = voxels_of(tmp_path / "b.nii.gz")
    expected = np.where(np.isfinite(voxels) & (voxels != 0), 2 * voxels + 100, voxels)
    assert np.array_equal(result, expected, equal_nan=True)


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


def test_an_image_goes_to_a_folder_under_its_own_name(
    run: Run, scan: Path, doubling: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    assert run("apply", scan, "--map", doubling, "-o", tmp_path / "out").well
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["scan.json", "scan.nii.gz"]


@pytest.mark.parametrize("kind", ["mixture", "reference", "map of two channels"])
def test_anything_but_a_map_of_one_channel_is_refused(
    run: Run, scan: Path, tmp_path: Path, kind: str
) -> None:
    mixture = ndflow.fit(ndflow.histogram(SCAN, INSIDE)).mixture
    model = {
        "mixture": mixture,
        "reference": ndflow.reference([mixture]),
        "map of two channels": ndflow.Affine(np.eye(2), np.zeros(2)),
    }[kind]
    ndflow.save(tmp_path / "model.json", model)
    done = run("apply", scan, "--map", tmp_path / "model.json", "-o", tmp_path / "out.nii.gz")
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {tmp_path / 'model.json'}: ")
    assert ("2 channels" if "two" in kind else repr(kind)) in message
    assert not (tmp_path / "out.nii.gz").exists()
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("name", ["scan.nii.gz", "doubling.nii.gz", "mask.nii.gz"])
def test_no_input_is_ever_replaced(
    run: Run, scan: Path, doubling: Path, tmp_path: Path, name: str
) -> None:
    mask = save(tmp_path / "mask.nii.gz", INSIDE.astype(np.uint8))
    kept = {path: path.read_bytes() for path in (scan, doubling, mask)}
    # The record of doubling.nii.gz would be doubling.json, the map.
    command = ("apply", scan, "--map", doubling, "--mask", mask, "-o", tmp_path / name)
    done = run(*command, "--force")
    assert done.code == 2
    (message,) = done.errors
    assert "is one of the inputs" in message
    assert {path: path.read_bytes() for path in kept} == kept
    assert sorted(tmp_path.iterdir()) == sorted(kept)


@pytest.mark.parametrize("taken", ["out.nii.gz", "out.json"])
def test_nothing_is_replaced_without_force(
    run: Run, scan: Path, doubling: Path, tmp_path: Path, taken: str
) -> None:
    (tmp_path / taken).write_bytes(b"mine")
    command = ("apply", scan, "--map", doubling, "-o", tmp_path / "out.nii.gz")
    before = sorted(tmp_path.iterdir())
    done = run(*command)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {tmp_path / taken}: exists already; ")
    assert "--force" in done.errors[0]
    assert (tmp_path / taken).read_bytes() == b"mine"
    assert sorted(tmp_path.iterdir()) == before
    done = run(*command, "--force")
    assert (done.code, (tmp_path / taken).read_bytes()) == (2, b"mine")  # it is not ours
    assert f"{tmp_path / taken}: exists, and was not written by ndflow" in done.errors[0]
    (tmp_path / taken).unlink()
    for force in ((), ("--force",)):
        assert run(*command, *force).well
    assert record_of(tmp_path / "out.nii.gz")["kind"] == "map"


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
