"""`ndflow.normalise` and `ndflow.apply`: from Python, with files, nibabel images and arrays."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHImage
from nibabel.nifti1 import Nifti1Image
from nibabel.nifti2 import Nifti2Image
from numpy.typing import NDArray
from one_scan import CLOSE, OTHER, SCAN, SOURCE, TARGET, TARGET_SD, fitted
from phantoms import AFFINE, SHAPE, radii, save

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.subject.records import MapRecord

INSIDE = SCAN != 0
FITS = [fitted(voxels) for voxels in (SCAN, OTHER)]


def values(image: Any) -> NDArray[Any]:
    return image if isinstance(image, np.ndarray) else np.asanyarray(image.dataobj)


def apart(one: Any, two: Any) -> float:
    """The largest difference inside the head, in standard deviations of the target."""
    return float(np.abs(values(one)[INSIDE] - values(two)[INSIDE]).max() / TARGET_SD)


# ── what goes in, and what comes out ─────────────────────────────────────────────────────────────

FORMS = {
    "path": lambda folder: save(folder / "in.nii.gz", SCAN),
    "text": lambda folder: str(save(folder / "in.nii.gz", SCAN)),
    "loaded": lambda folder: nibabel.load(save(folder / "in.nii.gz", SCAN)),
    "NIfTI-1": lambda _: Nifti1Image(SCAN, AFFINE),
    "NIfTI-2": lambda _: Nifti2Image(SCAN, AFFINE),
    "MGH": lambda _: MGHImage(SCAN, AFFINE),
    "array": lambda _: SCAN,
    "array in C order": lambda _: np.ascontiguousarray(SCAN),
    "array in Fortran order": lambda _: np.asfortranarray(SCAN),
    "array that cannot be written to": lambda _: np.broadcast_to(SCAN, SHAPE),
}
ARRAYS = [form for form in FORMS if form.startswith("array")]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_image_gives_the_same_voxels(tmp_path: Path, form: str) -> None:
    given = FORMS[form](tmp_path)
    result = ndflow.normalise(given, TARGET)
    assert isinstance(result, ndflow.Result)
    expected = ndflow.normalise(SCAN, TARGET).image
    assert values(result.image).dtype == np.float32
    assert np.array_equal(values(result.image), expected)
    assert result.mixture == SOURCE
    assert result.warnings == ()
    if form in ARRAYS:
        assert isinstance(result.image, np.ndarray)
        return
    kind = type(given) if hasattr(given, "dataobj") else Nifti1Image
    assert type(result.image) is kind
    assert np.array_equal(result.image.affine, AFFINE)
    assert result.image.get_data_dtype().name == "float32"


def test_a_returned_image_keeps_its_header_and_can_be_saved(tmp_path: Path) -> None:
    image = Nifti1Image(SCAN[..., np.newaxis], None)
    image.header.set_sform(AFFINE, 4)
    image.header.set_qform(AFFINE, 1)
    image.header["descrip"], image.header["cal_max"] = b"a T1", 900
    result = ndflow.normalise(image, TARGET).image
    assert result.shape == (*SHAPE, 1)
    nibabel.save(result, tmp_path / "saved.nii.gz")
    saved = nibabel.load(tmp_path / "saved.nii.gz")
    assert (int(saved.header["sform_code"]), int(saved.header["qform_code"])) == (4, 1)
    assert saved.header["descrip"].item() == b"a T1"
    assert saved.header["cal_max"] == 0
    assert np.array_equal(values(saved), values(result))


@pytest.mark.parametrize("form", FORMS)
def test_a_written_image_is_the_one_that_would_be_returned(tmp_path: Path, form: str) -> None:
    given, output = FORMS[form](tmp_path), tmp_path / "out.nii.gz"
    written = ndflow.normalise(given, TARGET, output=output)
    returned = ndflow.normalise(given, TARGET)
    assert written.image is None
    assert np.array_equal(values(nibabel.load(output)), values(returned.image))
    record = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(output.read_bytes()).hexdigest()
    assert written.record.outputs == {"out.nii.gz": digest}
    assert replace(written.record, outputs=None) == returned.record
    plain = json.loads(json.dumps(written.record.to_dict()))
    assert {name: record[name] for name in plain} == plain
    assert "command" not in record
    assert MapRecord.read(tmp_path / "out.json").to_dict() == written.record.to_dict()
    assert written.output == output
    assert ndflow.load(tmp_path / "out.json") == written.imap == returned.imap


# ── several images ───────────────────────────────────────────────────────────────────────────────


def test_a_list_of_images_gives_a_list_of_results(tmp_path: Path) -> None:
    scan, other = save(tmp_path / "scan.nii.gz", SCAN), save(tmp_path / "other.nii.gz", OTHER)
    masks = [None, (radii() < 0.8).astype(np.uint8)]
    results = ndflow.normalise([scan, OTHER], TARGET, mask=masks, dtype="float64")
    expected = [
        ndflow.normalise(image, TARGET, mask=mask, dtype="float64")
        for image, mask in zip([scan, OTHER], masks, strict=True)
    ]
    assert [one.record for one in results] == [one.record for one in expected]
    for one, single in zip(results, expected, strict=True):
        assert np.array_equal(values(one.image), values(single.image))
    assert ndflow.normalise([], TARGET) == []
    (found,) = ndflow.normalise([scan], TARGET, mask="auto")  # for each of them
    assert found.record == ndflow.normalise(scan, TARGET, mask="auto").record
    written = ndflow.normalise([scan, other], TARGET, output=tmp_path / "out")
    assert [one.output for one in written] == [
        tmp_path / "out" / name for name in ("scan.nii.gz", "other.nii.gz")
    ]
    assert np.array_equal(
        values(nibabel.load(tmp_path / "out" / "scan.nii.gz")),
        values(ndflow.normalise(scan, TARGET).image),
    )


# ── targets ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("to", ["array", "image", "path", "mixture", "fit"])
def test_every_form_of_a_target_is_the_same(tmp_path: Path, to: str) -> None:
    given = {
        "array": OTHER,
        "image": Nifti1Image(OTHER, AFFINE),
        "path": save(tmp_path / "to.nii.gz", OTHER),
        "mixture": TARGET,
        "fit": FITS[1],
    }[to]
    result = ndflow.normalise(SCAN, given)
    assert np.array_equal(result.image, ndflow.normalise(SCAN, TARGET).image)
    assert result.record.target is not None
    assert result.record.target.mixture == result.target == TARGET


def test_masks_come_in_every_form_too(tmp_path: Path) -> None:
    inside = radii() < 0.8
    mask = inside.astype(np.uint8)
    forms = [inside, mask, Nifti1Image(mask, AFFINE), save(tmp_path / "m.nii.gz", mask)]
    for form in forms:
        result = ndflow.normalise(Nifti1Image(SCAN, AFFINE), OTHER, mask=form, to_mask=inside)
        assert result.mixture == ndflow.fit(ndflow.histogram(SCAN, inside)).mixture
        assert result.target == ndflow.fit(ndflow.histogram(OTHER, inside)).mixture
        lesioned = ndflow.normalise(SCAN, TARGET, exclude=form)
        assert lesioned.mixture == ndflow.fit(ndflow.histogram(SCAN, INSIDE & ~inside)).mixture


def test_a_map_from_outside_the_package_would_do_as_well() -> None:
    result = ndflow.normalise(SCAN, TARGET, preset="paper")
    assert apart(result.image, result.imap(SCAN)) < 1e-6
    assert apart(result.image, ndflow.normalising_map(SOURCE, TARGET)(SCAN)) < CLOSE


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 4, 4, 2), np.float32), "2 volumes"),
        (np.zeros((4, 0, 4), np.float32), "no voxels"),
        (SCAN.astype(complex), "complex128"),
        (SCAN.astype(str), "float32"),
    ],
)
def test_arrays_that_are_no_image_are_refused(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        ndflow.normalise(array, TARGET)
    with pytest.raises(InvalidValueError, match=message):
        ndflow.normalise(SCAN, array)


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    output = tmp_path / "out.nii.gz"
    output.write_bytes(b"mine")
    with pytest.raises(FileError, match="exists already"):
        ndflow.normalise(SCAN, TARGET, output=output)
    with pytest.raises(FileError, match="exists already"):
        ndflow.apply(SCAN, ndflow.Affine(2.0, 1.0), output=output)
    assert output.read_bytes() == b"mine"
    with pytest.raises(FileError, match="exists, and was not written by ndflow"):
        ndflow.normalise(SCAN, TARGET, output=output, force=True)
    assert output.read_bytes() == b"mine"
    output.write_bytes(b"")  # nothing to lose
    for _ in range(2):
        ndflow.normalise(SCAN, TARGET, output=output, force=True)
    assert nibabel.load(output).shape == SHAPE


# ── the choices ──────────────────────────────────────────────────────────────────────────────────


def test_options_reach_the_fit_and_the_match() -> None:
    how: dict[str, Any] = {"objective": "l2", "regularisation": 1e-2, "solver": "rk4"}
    result = ndflow.normalise(SCAN, TARGET, effective_count=300, **how)
    source = fitted(SCAN, effective_count=300).mixture
    assert result.mixture == source != SOURCE
    expected = ndflow.normalising_map(source, TARGET, **how)(SCAN)
    assert apart(result.image, expected) < CLOSE
    for one in how:  # each of them makes a difference
        rest = {name: part for name, part in how.items() if name != one}
        assert ndflow.normalise(SCAN, TARGET, effective_count=300, **rest).imap != result.imap


# ── apply ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stored", [True, False])
def test_a_map_is_applied_to_every_form_of_an_image(
    tmp_path: Path, form: str, stored: bool
) -> None:
    imap: Any = ndflow.Affine(2.0, 100.0)
    if stored:
        ndflow.save(tmp_path / "map.json", imap)
    result = ndflow.apply(FORMS[form](tmp_path), tmp_path / "map.json" if stored else imap)
    assert isinstance(result.image, np.ndarray) == (form in ARRAYS)
    assert np.array_equal(values(result.image), np.where(INSIDE, 2.0 * SCAN + 100, 0))
    assert result.mixture is None
    assert result.imap == imap


def test_a_map_takes_an_image_there_and_back(tmp_path: Path) -> None:
    there = ndflow.normalise(SCAN, OTHER, dtype="float64")
    back = ndflow.apply(there.image, there.imap, inverse=True, dtype="float64").image
    assert np.abs(back - SCAN).max() < 1e-6
    again = ndflow.apply(SCAN, there.imap, dtype="float64").image
    assert np.array_equal(again, there.image)
    written = ndflow.normalise(SCAN, OTHER, output=tmp_path / "a.nii.gz")
    assert ndflow.load(tmp_path / "a.json") == written.imap == there.imap


def test_apply_has_masks_and_settings_too(tmp_path: Path) -> None:
    inside = radii() < 0.8
    imap = ndflow.Affine(0.5, 1.0)
    result = ndflow.apply(
        SCAN, imap, mask=inside, outside="zero", dtype="int16", output=tmp_path / "o.nii"
    )
    image = nibabel.load(tmp_path / "o.nii")
    assert image.get_data_dtype() == np.int16
    assert np.array_equal(values(image), np.where(inside, np.rint(0.5 * SCAN + 1), 0))
    assert result.record.setting("outside") == "zero"
    assert result.image is None


def test_a_map_of_two_channels_is_refused() -> None:
    with pytest.raises(FileError, match="2 channels"):
        ndflow.apply(SCAN, ndflow.Affine(np.eye(2), np.zeros(2)))


def test_an_image_of_nibabel_is_not_replaced_by_its_own_result(tmp_path: Path) -> None:
    scan = save(tmp_path / "scan.nii.gz", SCAN)
    before = scan.read_bytes()
    with pytest.raises(FileError, match="one of the inputs"):
        ndflow.normalise(nibabel.load(scan), TARGET, output=scan, force=True)
    with pytest.raises(FileError, match="one of the inputs"):
        ndflow.normalise(SCAN, TARGET, mask=nibabel.load(scan), output=scan, force=True)
    assert scan.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nyul", "freeze": ("3",)}, "^freeze is not an option of the method 'nyul'"),
        ({"freeze": iter(["bright"])}, "the rule 'bright' is not understood"),
        ({"freeze": "3"}, "freeze must be a list of words"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"proportions": "tissue"}, "needs tissue probability maps"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        ndflow.normalise("no_such_scan.nii.gz", to="no_such_target.nii.gz", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": ["a.nii.gz"]}, "mask: give a list with one for each of the images"),
        ({"mask": "a.nii.gz"}, "mask: give a list with one for each of the images"),
        ({"exclude": SCAN}, "exclude: give a list with one for each of the images"),
        ({"output": "out"}, "with an output, each image must be a path"),
        ({"joint": True}, "joint: there is one image only"),
    ],
)
def test_a_list_of_images_has_lists_of_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=message):
        ndflow.normalise([SCAN, OTHER], TARGET, **options)
    assert not [*tmp_path.iterdir()]


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(FileError, match="shape"):
        ndflow.normalise(SCAN, TARGET, mask=INSIDE[1:])


def test_a_change_of_units_changes_nothing() -> None:
    plain = ndflow.normalise(SCAN, TARGET).image
    scaled = ndflow.normalise(np.where(INSIDE, 4.0 * SCAN + 8, 0), TARGET).image
    assert apart(plain, scaled) < 0.01
