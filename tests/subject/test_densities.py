"""The density of a scan, references made of several, and the files that hold them."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from mixtures import random_mixture
from one_scan import SCAN
from phantoms import AFFINE, head, radii, save, tissue_shares
from studies import edit, sha256

import ndflow
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.subject.fit import fit_subject, fit_to_file
from ndflow.subject.records import ScanModel
from ndflow.subject.reference import average_models, read_source

# ── fits ─────────────────────────────────────────────────────────────────────────────────────────

INSIDE = SCAN != 0
COUNTED = ndflow.histogram(SCAN, INSIDE)
FITTED = ndflow.fit(COUNTED)


def test_an_image_has_the_density_of_its_histogram(tmp_path: Path) -> None:
    path = save(tmp_path / "scan.nii.gz", SCAN)
    for given in (SCAN, nibabel.Nifti1Image(SCAN, AFFINE), path):
        assert ndflow.fit(given) == FITTED
    inner, lesion = radii() < 0.8, radii() < 0.3
    expected = ndflow.fit(ndflow.histogram(SCAN, inner & ~lesion))
    assert ndflow.fit(SCAN, mask=inner, exclude=lesion) == expected
    with pytest.raises(InvalidValueError, match="a histogram has no voxels left to mask"):
        ndflow.fit(COUNTED, mask=inner)


def test_a_model_says_how_well_the_density_fits() -> None:
    model = fit_subject(Subject(SCAN), options=Options())
    assert model.mixture == FITTED.mixture
    voxels = np.sort(SCAN[INSIDE])
    levels = np.unique(voxels)
    below = np.searchsorted(voxels, levels) + np.searchsorted(voxels, levels, side="right")
    off = np.abs(FITTED.mixture.cdf(levels.astype(float)) - below / 2 / voxels.size)
    assert model.misfit == pytest.approx(off.max())
    expected = np.quantile(voxels, QUANTILE_LEVELS)
    np.testing.assert_allclose(model.quantiles, expected, atol=0.01 * np.ptp(voxels))
    assert model.settings == {"mask": "nonzero", "exclude": False, "effective_count": 1e4}


def test_a_file_says_nothing_of_names_but_has_all_hashes(tmp_path: Path) -> None:
    files = {
        name: save(tmp_path / f"secret_{name}.nii.gz", share)
        for name, share in {"image": SCAN, **tissue_shares()}.items()
    }
    maps = TissueMaps(*(str(files[name]) for name in ("csf", "gm", "wm")))
    scan, output = Subject(str(files["image"]), tissues=maps), tmp_path / "model.json"
    written = fit_to_file(scan, output, force=False, options=Options())
    assert ScanModel.read(output).content() == written.content()
    assert "secret" not in output.read_text(encoding="utf-8")
    assert written.sha256 == {name: (sha256(path),) for name, path in files.items()}
    assert written.tissues is not None


def test_a_mask_that_deepbet_found_may_hold_more_csf_than_another(tmp_path: Path) -> None:
    values = head(tissues=((450.0, 20.0), (700.0, 20.0), (1000.0, 20.0)))
    affine = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # as large as a brain
    image = save(tmp_path / "a.nii.gz", values, affine)
    mask = nibabel.Nifti1Image((values > 0).astype(np.uint8), affine)
    nibabel.save(mask, tmp_path / "given.nii.gz")
    mask.header["descrip"] = b"ndflow brain mask, deepbet 1.0.2"
    nibabel.save(mask, tmp_path / "found.nii.gz")
    for name, doubtful in (("given", True), ("found", False)):
        model = fit_subject(Subject(image, tmp_path / f"{name}.nii.gz"), options=Options())
        assert ("mask too wide" in [doubt.kind for doubt in model.doubts]) == doubtful


# ── references ───────────────────────────────────────────────────────────────────────────────────

SCANS = [head(seed, gain=1 + seed) for seed in range(3)]
FITS = [ndflow.fit(scan) for scan in SCANS]
MIXTURES = [fit.mixture for fit in FITS]
EXPECTED = ndflow.population.reference(MIXTURES)


def test_sources_of_every_form_give_the_same_reference(tmp_path: Path) -> None:
    files = [save(tmp_path / "one.nii.gz", SCANS[0]), save(tmp_path / "two.nii", SCANS[1])]
    files.append(tmp_path / "three.json")
    ndflow.save(files[2], MIXTURES[2])
    for sources in (FITS, files, [MIXTURES[0], FITS[1], SCANS[2]]):
        assert ndflow.reference(sources).mixture == EXPECTED.mixture
    output = tmp_path / "reference.json"
    made = ndflow.reference(files, channel="T1w", output=output)
    assert ndflow.load(output) == made
    assert made.provenance["names"] == ["one", "three", "two"]
    for wrong, message in (
        ({"output": output}, "exists already"),
        ({"output": files[2], "force": True}, "one of the inputs"),
    ):
        with pytest.raises(FileError, match=message):
            ndflow.reference(files, **wrong)
    with pytest.raises(FileError, match="of the kind 'reference', where 'mixture'"):
        ndflow.reference([output])


def test_landmarks_do_not_depend_on_the_order_and_follow_the_weights() -> None:
    made = [ndflow.reference(order, method="nyul") for order in (SCANS, SCANS[::-1])]
    assert all(
        (one.landmarks, one.mixture) == (made[0].landmarks, EXPECTED.mixture) for one in made
    )
    heavy = ndflow.reference(SCANS, method="nyul", weights=[0.0, 0.0, 1.0]).landmarks
    alone = ndflow.reference(SCANS[2:], method="nyul").landmarks
    np.testing.assert_allclose(heavy.values, alone.values, rtol=1e-12)
    with pytest.raises(InvalidValueError, match="weights must be 3, one per scan, not 2"):
        ndflow.reference(SCANS, weights=[1.0, 2.0])


def test_a_reference_knows_tissues_if_those_of_all_scans_are_known() -> None:
    shares = tissue_shares()
    maps = TissueMaps(shares["csf"], shares["gm"], shares["wm"])
    known = [
        read_source(Subject(scan, radii() < limit, tissues=maps), options=Options())
        for scan, limit in zip(SCANS, (0.91, 0.94, 0.99), strict=True)  # in other proportions
    ]
    models = [one.parts[""].model for one in known]
    made = average_models(models, Options())
    assert made.tissues is not None
    for order in permutations(models):
        assert average_models(order, Options()).tissues == made.tissues
    some = [*known[:2], read_source(Subject(SCANS[2]), options=Options())]
    assert average_models([one.parts[""].model for one in some], Options()).tissues is None


# ── files ────────────────────────────────────────────────────────────────────────────────────────

ONE, OTHER = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))
MODELS: dict[str, tuple[str, Any]] = {
    "mixture": ("mixture", ONE),
    "reference": ("reference", ndflow.reference([ONE, OTHER], names=["é", "b"], channel="T1w")),
    "map": ("map", ndflow.normalising_map(ONE, OTHER)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_loaded_unchanged_and_not_replaced(tmp_path: Path, name: str) -> None:
    kind, model = MODELS[name]
    path, same = tmp_path / "model.json", tmp_path / "same.json"
    ndflow.save(path, model)
    ndflow.save(same, model)
    assert ndflow.load(path) == ndflow.load(str(path)) == model
    assert path.read_bytes() == same.read_bytes()
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["format"], data["version"], data["kind"]) == ("ndflow", 2, kind)
    assert data[kind] == json.loads(json.dumps(model.to_dict()))
    with pytest.raises(FileError, match="exists already"):
        ndflow.save(path, OTHER)
    ndflow.save(path, OTHER, force=True)
    assert ndflow.load(path) == OTHER


DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "no model in it": ({"mixture": ...}, "it has no 'mixture'"),
    "another kind than it says": ({"mixture": ndflow.Affine(2.0, 1.0).to_dict()}, "not a valid"),
    "weights that are none": (
        {"mixture": ONE.to_dict() | {"weights": [-1.0, 1.0, 0.5, 0.5]}},
        "not a valid mixture: .*weights",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_models_are_refused_with_the_reason(tmp_path: Path, what: str) -> None:
    changes, reason = DAMAGE[what]
    path = tmp_path / "model.json"
    ndflow.save(path, ONE)
    edit(path, **changes)
    with pytest.raises(FileError, match=reason) as caught:
        ndflow.load(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
