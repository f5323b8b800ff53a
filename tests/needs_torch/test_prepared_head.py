"""``ndflow prepare`` of a raw head, with all steps: network, bias field, template, tissues."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import typed
from studies import read_json, read_tsv

pytest.importorskip("picsl_greedy")
pytest.importorskip("nilearn")

MADE = "sub-HH027/anat/sub-HH027"


def test_a_raw_head_is_prepared_without_a_doubt(
    heads: Path, cohort_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    typed("prepare", heads, out, "--pattern", "sub-HH027_T1w.nii.gz", "-q")
    record = read_json(out / f"{MADE}_desc-preproc_T1w.json")
    assert record["steps"] == {"mask": "brain", "bias field": "corrected", "tissues": "found"}
    assert {*record["versions"]} >= {"SimpleITK", "picsl_greedy", "deepbet", "nilearn", "torch"}
    (row,) = read_tsv(out / "preparation.tsv")
    assert row["doubts"] in ("", "n/a")
    (other,) = cohort_folder.glob("sub-HH027/**/sub-HH027_desc-brain_mask.nii.gz")
    truth = nibabel.load(other)
    volume = np.count_nonzero(truth.dataobj) * abs(np.linalg.det(truth.affine[:3, :3])) / 1000
    assert float(row["brain_ml"]) == pytest.approx(volume, rel=0.05)

    def voxels(name: str) -> np.ndarray:
        return np.asarray(nibabel.load(out / f"{MADE}_{name}.nii.gz").dataobj)

    brain, scan = voxels("desc-brain_mask") > 0, voxels("desc-preproc_T1w")
    tissues = np.stack([voxels(f"label-{one}_probseg") for one in ("CSF", "GM", "WM")])
    np.testing.assert_allclose(tissues.sum(axis=0)[brain], 1, atol=1e-5)
    csf, gm, wm = (np.average(scan, weights=part) for part in tissues)
    assert 1.3 * csf < gm < 0.9 * wm  # as in any T1w image
    typed("verify", out, "-q")
