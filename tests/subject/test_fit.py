"""The density of a scan: from a histogram or an image, and in a file of its own."""

import hashlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from one_scan import SCAN
from phantoms import AFFINE, head, radii, save, tissue_shares

import ndflow
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.subject.fit import fit_subject, fit_to_file
from ndflow.subject.records import ScanModel

INSIDE = SCAN != 0
COUNTED = ndflow.histogram(SCAN, INSIDE)
FITTED = ndflow.fit(COUNTED)


@pytest.mark.parametrize("form", ["array", "nibabel image", "path"])
def test_an_image_has_the_density_of_its_histogram(tmp_path: Path, form: str) -> None:
    given: Any = {
        "array": SCAN,
        "nibabel image": nibabel.Nifti1Image(SCAN, AFFINE),
        "path": save(tmp_path / "scan.nii.gz", SCAN),
    }[form]
    assert ndflow.fit(given) == FITTED


def test_masks_choose_the_voxels() -> None:
    inner, lesion = radii() < 0.8, radii() < 0.3
    expected = ndflow.fit(ndflow.histogram(SCAN, inner & ~lesion))
    assert ndflow.fit(SCAN, mask=inner, exclude=lesion) == expected
    for masks in ({"mask": inner}, {"exclude": lesion}):
        with pytest.raises(InvalidValueError, match="a histogram has no voxels left to mask"):
            ndflow.fit(COUNTED, **masks)


@pytest.mark.parametrize("options", [{"truncation": 0}, {"truncation": 501}, {"tolerance": -1.0}])
def test_the_image_is_not_blamed_for_an_invalid_option(options: dict[str, Any]) -> None:
    (name,) = options
    for data in (SCAN, COUNTED):
        with pytest.raises(InvalidValueError, match=f"^{name} must"):
            ndflow.fit(data, **options)


def test_an_image_without_a_density_is_named(tmp_path: Path) -> None:
    flat = save(tmp_path / "flat.nii.gz", np.full((9, 9, 9), 7, np.int16))
    with pytest.raises(FileError, match="all voxels used have the value 7") as caught:
        ndflow.fit(flat)
    assert caught.value.path == str(flat)


# ── models ───────────────────────────────────────────────────────────────────────────────────────


def model_of(scan: Subject, options: Options | None = None, **how: Any) -> ScanModel:
    return fit_subject(scan, options=options or Options(), **how)


def test_a_model_says_how_well_the_density_fits() -> None:
    model = model_of(Subject(SCAN))
    assert model.mixture == FITTED.mixture
    voxels = np.sort(SCAN[INSIDE])
    levels = np.unique(voxels)
    below = np.searchsorted(voxels, levels) + np.searchsorted(voxels, levels, side="right")
    off = np.abs(FITTED.mixture.cdf(levels.astype(float)) - below / 2 / voxels.size)
    assert model.misfit == pytest.approx(off.max())
    assert model.quantiles is not None
    expected = np.quantile(voxels, QUANTILE_LEVELS)
    np.testing.assert_allclose(model.quantiles, expected, atol=0.01 * np.ptp(voxels))
    assert model.voxels is not None
    assert (model.voxels.fitted, model.voxels.excluded) == (INSIDE.sum(), 0)
    assert model.settings == {"mask": "nonzero", "exclude": False, "effective_count": 1e4}
    assert (model.landmarks, model.tissues, model.sha256, model.fingerprint) == (None,) * 4
    assert model.warnings == ()


def test_a_file_says_nothing_of_names_but_has_all_hashes(tmp_path: Path) -> None:
    paths = {
        name: save(tmp_path / f"secret_{name}.nii.gz", share)
        for name, share in tissue_shares().items()
    }
    image = save(tmp_path / "secret.nii.gz", SCAN)
    scan = Subject(str(image), tissues=TissueMaps(*(str(paths[n]) for n in ("csf", "gm", "wm"))))
    output = tmp_path / "model.json"
    written = fit_to_file(scan, output, force=False, options=Options())
    assert ScanModel.read(output) == written
    assert "secret" not in output.read_text(encoding="utf-8")
    files = {"image": image} | paths
    assert written.sha256 == {
        name: (hashlib.sha256(path.read_bytes()).hexdigest(),) for name, path in files.items()
    }
    assert written.tissues is not None
    with pytest.raises(FileError, match="exists already"):
        fit_to_file(scan, output, force=False, options=Options())
    with pytest.raises(FileError, match=r"\.json"):
        fit_to_file(scan, tmp_path / "m.nii", force=True, options=Options())


def test_a_mask_that_deepbet_found_may_hold_more_csf_than_another(tmp_path: Path) -> None:
    values = head(tissues=((450.0, 20.0), (700.0, 20.0), (1000.0, 20.0)))
    affine = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # as large as a brain
    image = save(tmp_path / "a.nii.gz", values, affine)
    mask = nibabel.Nifti1Image((values > 0).astype(np.uint8), affine)
    nibabel.save(mask, tmp_path / "given.nii.gz")
    mask.header["descrip"] = b"ndflow brain mask, deepbet 1.0.2"
    nibabel.save(mask, tmp_path / "found.nii.gz")
    given, found = (
        model_of(Subject(image, tmp_path / f"{one}.nii.gz")) for one in ("given", "found")
    )
    assert given.mask == found.mask
    assert 0.4 < given.mask.rim < 0.5
    assert "mask too wide" in [doubt.kind for doubt in given.doubts]
    assert "mask too wide" not in [doubt.kind for doubt in found.doubts]
