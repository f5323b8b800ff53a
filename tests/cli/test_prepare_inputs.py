"""``ndflow prepare``: what comes with a raw scan, and scans that cannot be prepared."""

import io
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run
from deepbet_stand_in import StandIn
from phantoms import AFFINE, head, nifti, save, tissue_shares, voxels_of
from PIL import Image
from studies import read_json, read_tsv, write_tsv

from ndflow.preparation.picture import OUTLINES

PLAIN = ("--no-bias-field", "--tissues", "none")
LARGE = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # a phantom as large as a brain
SHEARED = AFFINE @ np.array([[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
MADE = "sub-a/anat/sub-a_desc-preproc_T1w"


def table(folder: Path, *, times: float = 1, affine: Any = AFFINE, lesion: Any = None) -> Path:
    """Write a scan with tissue maps in these units, and the table that names them."""
    save(folder / "a.nii.gz", head(), affine)
    save(folder / "mask.nii.gz", (head() > 0).astype(np.uint8), affine)
    row = {"image": "a.nii.gz", "mask": "mask.nii.gz"}
    for tissue, share in tissue_shares().items():
        save(folder / f"{tissue}.nii.gz", (share * times).astype(np.float32), affine)
        row[tissue] = f"{tissue}.nii.gz"
    if lesion is not None:
        save(folder / "lesion.nii.gz", lesion.astype(np.uint8), affine)
        row["lesion"] = "lesion.nii.gz"
    return write_tsv(folder / "raw.tsv", [row])


def measured(out: Path) -> list[float]:
    (row,) = read_tsv(out / "preparation.tsv")
    return [float(row[name]) for name in ("csf_ml", "gm_ml", "wm_ml")]


def amounts(voxel: float, where: Any = True) -> list[float]:
    """Return the volumes of the phantom's tissues in millilitres, for voxels of a size in mm³."""
    inside = (head() > 0) & where
    shares = tissue_shares()
    return [shares[one][inside].sum() * voxel / 1000 for one in ("csf", "gm", "wm")]


def outlined(out: Path, name: str) -> int:
    picture = (out / "figures" / f"{Path(MADE).name}.png").read_bytes()
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    colour = [int(OUTLINES[name][at : at + 2], 16) for at in (1, 3, 5)]
    return int((pixels == colour).all(axis=-1).sum())


def test_volumes_are_those_of_sheared_voxels(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("prepare", table(tmp_path, affine=SHEARED), out, *PLAIN).code == 0
    assert measured(out) == pytest.approx(amounts(8.0), abs=0.06)
    (row,) = read_tsv(out / "preparation.tsv")
    assert float(row["brain_ml"]) == pytest.approx((head() > 0).sum() * 8 / 1000, abs=0.06)


@pytest.mark.parametrize("times", [100, 255])
def test_maps_in_other_units_are_understood_and_kept(times: int, run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert "add up to" not in run("prepare", table(one), one / "out", *PLAIN).err
    ran = run("prepare", table(other, times=times), other / "out", *PLAIN)
    assert ran.code == 0, ran.err
    assert f"csf.nii.gz: the tissue probability maps add up to {times} in the brain" in ran.err
    assert measured(other / "out") == pytest.approx(measured(one / "out"), abs=0.06)
    for name in ("GM", "WM"):
        assert outlined(other / "out", name) == outlined(one / "out", name) > 0
    kept = voxels_of(other / "out" / "sub-a/anat/sub-a_label-GM_probseg.nii.gz")
    assert np.array_equal(kept, voxels_of(other / "gm.nii.gz"))


def test_a_lesion_counts_for_no_tissue(run: Run, tmp_path: Path) -> None:
    lesion = np.zeros(head().shape, bool)
    lesion[:12] = True
    out = tmp_path / "out"
    assert run("prepare", table(tmp_path, lesion=lesion), out, *PLAIN).code == 0
    assert measured(out) == pytest.approx(amounts(8.0, ~lesion), abs=0.06)


def test_a_scan_without_a_place_is_refused(run: Run, tmp_path: Path) -> None:
    affine = AFFINE.copy()
    affine[2, 2] = 0
    (tmp_path / "a.nii").write_bytes(nifti(head(), affine))
    ran = run("prepare", tmp_path / "a.nii", "-o", tmp_path / "out", *PLAIN, "--mask", "nonzero")
    assert ran.code == 2
    assert "a.nii: its header does not say where its voxels are" in ran.err
    assert "bug" not in ran.err


def test_brains_are_found(run: Run, deepbet: StandIn, tmp_path: Path) -> None:
    save(tmp_path / "a.nii.gz", head(), LARGE)
    out = tmp_path / "out"
    words = ("prepare", tmp_path / "a.nii.gz", "-o", out, *PLAIN, "--mask", "brain")
    assert run(*words).code == 0
    record = read_json(out / f"{MADE}.json")
    assert record["steps"]["mask"] == "brain"
    assert record["versions"]["deepbet"] == "1.0.2"
    mask = nibabel.load(out / "sub-a/anat/sub-a_desc-brain_mask.nii.gz")
    values = head()
    assert np.array_equal(np.asarray(mask.dataobj) > 0, values > values.max() / 2)
    assert mask.header["descrip"].item() == b"ndflow brain mask, deepbet 1.0.2"
    assert run(*words).code == 0
    assert deepbet.calls == 1
