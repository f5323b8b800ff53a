"""Masks of real scans: those that are right are not doubted, those that are wrong are."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import typed
from phantoms import save
from scipy import ndimage
from studies import read_json, record_of

pytestmark = pytest.mark.slow


def kinds(record: dict[str, Any]) -> list[str]:
    """Return the kinds of doubts about the mask of a scan; other checks may find more."""
    found = [doubt["kind"] for doubt in record.get("doubts", [])]
    return [kind for kind in found if "mask" in kind or kind.startswith(("whole", "unlike"))]


SUBJECTS = ("sub-HH001", "sub-NSK024", "sub-UCLA001")
HEADS = ("sub-HH027", "sub-UCLA003")


def files_of(cohort_folder: Path, subject: str) -> tuple[Path, Path]:
    anat = cohort_folder / subject / "anat"
    return anat / f"{subject}_T1w.nii.gz", anat / f"{subject}_desc-brain_mask.nii.gz"


@pytest.fixture(scope="module")
def reference(cohort_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reference of scans from two of the three sites."""
    out = tmp_path_factory.mktemp("reference") / "reference.json"
    images, masks = zip(*(files_of(cohort_folder, one) for one in SUBJECTS[1:]), strict=True)
    typed("reference", *images, "--mask", *masks, "-o", out, "-q")
    return out


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_mask_two_voxels_too_wide_is_noticed(
    cohort_folder: Path, reference: Path, tmp_path: Path, subject: str
) -> None:
    image, mask = files_of(cohort_folder, subject)
    inside = nibabel.load(mask)
    wide = ndimage.binary_dilation(np.asanyarray(inside.dataobj) > 0, iterations=2)
    wider = save(tmp_path / "wide.nii.gz", wide.astype(np.uint8), inside.affine)
    found = []
    for name, one in (("right", mask), ("wrong", wider)):
        out = tmp_path / f"{name}.nii.gz"
        typed("normalise", image, "--mask", one, "--to", reference, "-o", out, "-q")
        found.append(kinds(record_of(out)))
    assert found[0] == []
    assert "mask too wide" in found[1]


@pytest.mark.parametrize("mask", [None, "auto"])
@pytest.mark.parametrize("subject", HEADS)
def test_a_raw_head_is_named(
    cohort_folder: Path, tmp_path: Path, subject: str, mask: str | None
) -> None:
    head = cohort_folder.parent / "scans" / "heads" / f"{subject}_T1w.nii.gz"
    if not head.exists():
        pytest.skip("no whole heads beside the cohort")
    out = tmp_path / "model.json"
    typed("fit", head, *(("--mask", mask) if mask else ()), "-o", out, "-q")
    assert kinds(read_json(out)) == ["whole head"]
