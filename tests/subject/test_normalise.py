"""`ndflow.normalise` and `ndflow.apply` from Python, and what becomes of their results."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHImage
from nibabel.nifti1 import Nifti1Image
from nibabel.nifti2 import Nifti2Image
from numpy.typing import NDArray
from one_scan import OTHER, SCAN, SOURCE, TARGET, TARGET_SD
from phantoms import AFFINE, SHAPE, radii, save
from studies import sha256

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.subject.records import MapRecord

INSIDE = SCAN != 0
RESULT = ndflow.normalise(SCAN, TARGET)


def values(image: Any) -> NDArray[Any]:
    return image if isinstance(image, np.ndarray) else np.asanyarray(image.dataobj)


# ── what goes in, and what comes out ─────────────────────────────────────────────────────────────

FORMS = {
    "path": lambda folder: save(folder / "in.nii.gz", SCAN),
    "loaded": lambda folder: nibabel.load(save(folder / "in.nii.gz", SCAN)),
    "NIfTI-2": lambda _: Nifti2Image(SCAN, AFFINE),
    "MGH": lambda _: MGHImage(SCAN, AFFINE),
    "array in Fortran order": lambda _: np.asfortranarray(SCAN),
    "array that cannot be written to": lambda _: np.broadcast_to(SCAN, SHAPE),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_image_gives_the_same_result(tmp_path: Path, form: str) -> None:
    given, output = FORMS[form](tmp_path), tmp_path / "out.nii.gz"
    returned = ndflow.normalise(given, TARGET)
    assert values(returned.image).dtype == np.float32
    assert np.array_equal(values(returned.image), RESULT.image)
    assert returned.mixture == SOURCE
    assert returned.warnings == ()
    if form.startswith("array"):
        assert isinstance(returned.image, np.ndarray)
    else:
        assert type(returned.image) is (Nifti2Image if form == "NIfTI-2" else Nifti1Image)
        assert np.array_equal(returned.image.affine, AFFINE)
    written = ndflow.normalise(given, TARGET, output=output)
    assert (written.image, written.output) == (None, output)
    assert np.array_equal(values(nibabel.load(output)), RESULT.image)
    assert written.record.outputs == {"out.nii.gz": sha256(output)}
    assert replace(written.record, outputs=None) == returned.record
    assert MapRecord.read(tmp_path / "out.json").to_dict() == written.record.to_dict()
    assert ndflow.load(tmp_path / "out.json") == written.imap == returned.imap


def test_masks_come_in_every_form_too(tmp_path: Path) -> None:
    inside = radii() < 0.8
    mask = inside.astype(np.uint8)
    forms = [inside, mask, Nifti1Image(mask, AFFINE), save(tmp_path / "m.nii.gz", mask)]
    source, target, rest = (
        ndflow.fit(ndflow.histogram(voxels, where)).mixture
        for voxels, where in ((SCAN, inside), (OTHER, inside), (SCAN, INSIDE & ~inside))
    )
    for form in forms:
        result = ndflow.normalise(Nifti1Image(SCAN, AFFINE), OTHER, mask=form, to_mask=inside)
        assert (result.mixture, result.record.target.mixture) == (source, target)
        assert ndflow.normalise(SCAN, TARGET, exclude=form).mixture == rest
    with pytest.raises(FileError, match="shape"):
        ndflow.normalise(SCAN, TARGET, mask=INSIDE[1:])


def test_a_scan_of_another_contrast_is_unlike_the_reference() -> None:
    reference = ndflow.reference([SOURCE, TARGET])
    labels = np.where(SCAN > 900, 900, 0) + SCAN % 30
    for image, unlike in ((SCAN, False), (labels * INSIDE, True)):
        kinds = [doubt.kind for doubt in ndflow.normalise(image, reference).doubts]
        assert ("unlike the reference" in kinds) == unlike


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_replaced_without_force_and_inputs_never(tmp_path: Path) -> None:
    scan, output = save(tmp_path / "scan.nii.gz", SCAN), tmp_path / "out.nii.gz"
    output.write_bytes(b"mine")
    for force, message in ((False, "exists already"), (True, "was not written by ndflow")):
        with pytest.raises(FileError, match=message):
            ndflow.normalise(SCAN, TARGET, output=output, force=force)
    assert output.read_bytes() == b"mine"
    output.write_bytes(b"")  # nothing to lose
    for _ in range(2):
        ndflow.normalise(SCAN, TARGET, output=output, force=True)
    assert nibabel.load(output).shape == SHAPE
    before = scan.read_bytes()
    for parts in ({"image": nibabel.load(scan)}, {"image": SCAN, "mask": nibabel.load(scan)}):
        with pytest.raises(FileError, match="one of the inputs"):
            ndflow.normalise(to=TARGET, output=scan, force=True, **parts)
    assert scan.read_bytes() == before


# ── apply ────────────────────────────────────────────────────────────────────────────────────────


def test_a_map_takes_an_image_there_and_back() -> None:
    there = ndflow.normalise(SCAN, OTHER, dtype="float64")
    back = ndflow.apply(there.image, there.imap, inverse=True, dtype="float64").image
    assert np.abs(back - SCAN).max() < 1e-6
    again = ndflow.apply(SCAN, there.imap, dtype="float64").image
    assert np.array_equal(again, there.image)


def test_voxels_beyond_the_scan_of_a_map_are_doubted() -> None:
    def kinds(image: Any, imap: Any, mask: Any = None, **options: Any) -> list[str]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "map.json"
            imap.write(path)
            return [one.kind for one in ndflow.apply(image, path, mask=mask, **options).doubts]

    beyond, masked = ["beyond the map"], ndflow.normalise(SCAN, TARGET, mask=INSIDE)
    alone = MapRecord(RESULT.imap)
    around = SCAN + 10 * ~INSIDE  # air, without a mask
    for record in (RESULT.record, masked.record, alone):
        assert kinds(SCAN, record) == []
        assert kinds(2 * SCAN, record) == beyond
        assert kinds(SCAN // 4, record, INSIDE) == beyond
    assert kinds(around, masked.record) == []
    assert kinds(around, masked.record, INSIDE) == []
    assert kinds(SCAN // 8, masked.record) == beyond
    assert kinds(around, RESULT.record) == beyond
    assert kinds(2 * SCAN, RESULT.record, inverse=True, other_image=True) == []


# ── results ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"dtype": "uint8", "range": (20, 250)}])
def test_a_saved_result_is_the_one_that_would_be_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    scan = SCAN.copy()
    scan[0, 0, 0] = 30_000  # outside the mask; no integer holds what becomes of it
    path = save(tmp_path / "in.nii.gz", scan)
    how = {"mask": (SCAN != 0).astype(np.uint8), **options}
    written = ndflow.normalise(path, TARGET, output=tmp_path / "out.nii.gz", **how)
    result = ndflow.normalise(path, TARGET, **how)
    with pytest.raises(FileError, match="one of the inputs"):
        result.save(path, force=True)
    saved = result.save(tmp_path / "saved.nii.gz")
    assert sha256(tmp_path / "saved.nii.gz") == sha256(tmp_path / "out.nii.gz")
    own, other = (replace(one.record, warnings=(), outputs=None) for one in (saved, written))
    assert own == other
    assert MapRecord.read(tmp_path / "saved.json").to_dict() == saved.record.to_dict()
    assert saved.record.clipped == ("dtype" in options)
    assert len(saved.warnings) == len(written.warnings) == ("dtype" in options)
    with pytest.raises(FileError, match="exists"):
        result.save(tmp_path / "saved.nii.gz")
    with pytest.raises(InvalidValueError, match=r"it is in .*saved\.nii\.gz"):
        saved.save(tmp_path / "again.nii.gz")


def test_a_notebook_shows_one_line_and_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    html = RESULT._repr_html_()
    line, _, figure = html.partition("</p>")
    assert line == "<p>" + repr(RESULT).replace("<", "&lt;").replace(">", "&gt;")
    assert ElementTree.fromstring(figure[figure.index("<svg") :]).tag.endswith("svg")
    assert RESULT._repr_html_() == html  # the same bytes each time
    applied = ndflow.apply(SCAN, RESULT.imap)
    assert "<svg" not in applied._repr_html_()
    with pytest.raises(InvalidValueError, match="no density was estimated"):
        applied.plot()
    monkeypatch.setattr("ndflow.subject.normalise.find_spec", lambda _: None)
    assert "<svg" not in RESULT._repr_html_()


def test_a_plot_draws_the_densities_and_the_map() -> None:
    pytest.importorskip("matplotlib")
    result = ndflow.normalise(SCAN, OTHER, method="nyul")
    drawn = {
        line.get_label(): np.array(line.get_data(), dtype=float)
        for axes in result.plot().axes
        for line in axes.get_lines()
    }
    for label, curve in (("map", result.imap), ("mixture", SOURCE.pdf), ("target", TARGET.pdf)):
        x, y = drawn[label]
        np.testing.assert_allclose(y, curve(x), rtol=1e-9, atol=1e-9 * TARGET_SD)
