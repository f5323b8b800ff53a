"""Prepared scans: their names, and how tissue probabilities are stored."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from phantoms import AFFINE, head, save, tissue_shares
from studies import SMALL

from ndflow.errors import FileError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Preparing
from ndflow.study.plan import Study
from ndflow.study.prepare_step import (
    PreparationRecord,
    PrepareStep,
    in_steps,
    scans_to_prepare,
)
from ndflow.study.steps import attempt
from ndflow.study.table import named

SHARES = arrays(np.float32, (3, 5), elements=st.floats(0, 1, width=32))


@drawn(SHARES, st.floats(0, 1))
def test_probabilities_keep_their_sum_and_change_by_less_than_a_step(
    shares: np.ndarray, total: float
) -> None:
    sums = np.maximum(shares.sum(axis=0, dtype=np.float64), 1e-30)
    tissues = (shares / sums * total).astype(np.float32)
    levels = in_steps(tissues).astype(int)
    assert np.abs(levels / 255 - tissues).max() < 1 / 255 + 1e-6
    assert (np.abs(levels.sum(axis=0) - 255 * tissues.sum(axis=0, dtype=np.float64)) < 0.501).all()
    assert levels.sum(axis=0).max() <= 255


@pytest.mark.parametrize(
    ("dtype", "slope", "whole"),
    [("uint8", 1 / 255, 1), ("float32", 1, 100)],
)
def test_maps_that_were_given_are_copied_as_they_are_stored(
    tmp_path: Path, dtype: str, slope: float, whole: float
) -> None:
    """Whatever their units; the tissues are measured, without the lesion."""
    scan = head(shape=SMALL)
    (lesion := np.zeros(SMALL, np.uint8))[:7] = 1
    given, amounts = {}, []
    for tissue, share in tissue_shares(SMALL).items():
        stored = whole * np.maximum(share, 0) / slope
        image = nibabel.Nifti1Image(stored.astype(dtype), AFFINE)
        image.header.set_slope_inter(slope, 0)
        nibabel.save(image, tmp_path / f"{tissue}.nii")
        given[tissue] = str(tmp_path / f"{tissue}.nii")
    for tissue in TissueMaps._fields:
        share = nibabel.load(given[tissue]).get_fdata() / whole
        amounts.append(share[(scan > 0) & (lesion == 0)].sum() * 8 / 1000)
    subject = Subject(
        str(save(tmp_path / "a_T1w.nii.gz", scan)),
        lesion=str(save(tmp_path / "lesion.nii", lesion)),
        tissues=TissueMaps(**given),
    )
    (raw,) = to_prepare(subject)
    preparing = Preparing(mask="nonzero", no_bias_field=True)
    step = PrepareStep.of(Study(tmp_path / "out", [raw], preparing=preparing))
    assert not attempt(step, raw).kept
    assert attempt(step, raw).kept
    for tissue, path in step.prepared(raw).tissues._asdict().items():
        before, after = nibabel.load(given[tissue]), nibabel.load(path)
        assert after.get_data_dtype() == before.get_data_dtype()
        assert np.array_equal(after.get_fdata(), before.get_fdata())
    measures = PreparationRecord.read(step.paths(raw).record).measures
    assert measures.tissues_ml == pytest.approx(amounts, rel=1e-3)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────

HERE = Path("/data")


def to_prepare(*scans: Subject) -> list[Subject]:
    return scans_to_prepare(named(scans), HERE)


def outputs(*images: str) -> list[str]:
    scans = [Subject(str(HERE / image)) for image in images]
    return [scan.output.image for scan in to_prepare(*scans)]


@pytest.mark.parametrize(
    ("image", "start", "suffix"),
    [
        ("x/sub-01_ses-b_run-2_T1w.nii", "sub-01/ses-b/anat/sub-01_ses-b_run-2", "T1w"),
        ("sub-01_desc-defaced_T1w.mgz", "sub-01/anat/sub-01", "T1w"),
        ("Müller, day 3_t1w.nii", "sub-Mullerday3/anat/sub-Mullerday3", "T1w"),
        ("IXI002-0828-PD.nii", "sub-IXI0020828/anat/sub-IXI0020828", "PDw"),
        ("T1.mgz", "sub-T1/anat/sub-T1", "T1w"),
        ("sub-PD.nii", "sub-PD/anat/sub-PD", "T1w"),
    ],
)
def test_a_name_of_bids_is_kept_and_any_other_becomes_a_label(
    image: str, start: str, suffix: str
) -> None:
    assert outputs(image) == [f"{start}_desc-preproc_{suffix}.nii.gz"]


def test_a_name_without_latin_letters_has_a_label_and_the_same_label_twice_is_refused() -> None:
    labels = {name.split("/")[0].removeprefix("sub-") for name in outputs("日本.nii", "日.nii")}
    assert len(labels) == 2
    assert all(label.isalnum() and label.isascii() for label in labels)
    with pytest.raises(FileError, match=r"same subject and visit as .*a-b.*; rename one"):
        outputs("a-b_T1w.nii.gz", "A.b.nii.gz")


def test_two_contrasts_of_one_visit_would_share_a_mask_and_are_refused() -> None:
    with pytest.raises(FileError, match=r"same subject and visit as .*T1w.*one contrast at a time"):
        outputs("sub-01_T1w.nii.gz", "sub-01_FLAIR.nii.gz")
