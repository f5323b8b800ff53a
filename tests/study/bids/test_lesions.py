"""Lesion masks: what they are called, and which scan they are of."""

from pathlib import Path

import pytest
from files_on_disc import anat, dataset

from ndflow.errors import FileError
from ndflow.study.bids_query import find_scans, lesion_entities


@pytest.mark.parametrize(
    "ending",
    [
        "label-lesion_mask",
        "label-Lesion_mask",
        "desc-lesion_mask",
        "desc-T1wlesion_mask",
        "label-L_desc-T1lesion_mask",
        "lesion_mask",
        "label-lesion_roi",
        "desc-lesion_roi",
        "lesion_roi",
        "roi",
        "T1w_label-lesion_roi",
        "T1w_lesion_mask",
        "T1w_roi",
        "mod-T1w_roi",
    ],
)
@pytest.mark.parametrize("kind", [".nii", ".nii.gz"])
def test_lesion_masks_have_many_names(tmp_path: Path, ending: str, kind: str) -> None:
    names = (f"sub-01_run-1_{ending}{kind}", "sub-01_run-1_T1w", "sub-01_run-2_T1w", "sub-02_T1w")
    root = dataset(tmp_path, *anat(*names))
    found = [scan.lesion and Path(scan.lesion).name for scan in find_scans(root)]
    assert found == [names[0], None, None]


@pytest.mark.parametrize(
    "name",
    [
        "sub-01_desc-brain_mask.nii.gz",
        "sub-01_mask.nii.gz",
        "sub-01_T1w.nii.gz",
        "sub-01_desc-lesion_T1w.nii.gz",
        "sub-01_label-hippocampus_roi.nii.gz",
        "sub-01_desc-tumour_roi.nii.gz",
        "sub-01_desc-perilesion_mask.nii.gz",
        "sub-01_desc-nonlesion_mask.nii.gz",
        "sub-01_desc-FLAIRlesion_mask.nii.gz",
        "sub-01_FLAIR_label-lesion_roi.nii.gz",
        "sub-01_mod-FLAIR_label-lesion_roi.nii.gz",
        "sub-01_label-lesion_mask.json",
        "sub-01_label-lesion_probseg.nii.gz",
        "lesion_mask.nii.gz",
    ],
)
def test_other_files_are_no_lesion_masks(name: str) -> None:
    assert lesion_entities(name, "T1w") is None


@pytest.mark.parametrize(
    ("scan", "stored", "expected"),
    [
        ("sub-01", ["sub-01"], "sub-01"),
        ("sub-01", ["sub-01_space-MNI"], None),
        ("sub-01_space-MNI", ["sub-01", "sub-01_space-MNI"], "sub-01_space-MNI"),
        ("sub-01", ["sub-01_run-1"], None),
        ("sub-01_run-1", ["sub-01", "sub-01_run-1"], "sub-01_run-1"),
        ("sub-01_ses-a", ["sub-01"], "sub-01"),
        ("sub-01_ses-a", ["sub-01_ses-b"], None),
        ("sub-01", ["sub-02"], None),
    ],
)
def test_derived_lesion_masks_are_looked_up_like_brain_masks(
    tmp_path: Path, scan: str, stored: list[str], expected: str | None
) -> None:
    root = dataset(tmp_path / "set", *anat(f"{scan}_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*(f"{name}_label-lesion_mask" for name in stored)))
    (folder / "sub-01").mkdir(exist_ok=True)
    (found,) = find_scans(root, derivatives=[folder])
    ending = "_label-lesion_mask.nii.gz"
    assert (found.lesion and Path(found.lesion).name.removesuffix(ending)) == expected


def test_derived_lesion_masks_take_precedence_over_those_beside_the_image(tmp_path: Path) -> None:
    both = anat("sub-01_T1w", "sub-02_T1w", "sub-01_lesion_roi", "sub-02_lesion_roi")
    root = dataset(tmp_path / "set", *both)
    folder = dataset(tmp_path / "prep", *anat("sub-01_desc-lesion_mask"))
    first, second = find_scans(root, derivatives=[folder])
    assert first.lesion == f"{folder}/sub-01/anat/sub-01_desc-lesion_mask.nii.gz"
    assert second.lesion == f"{root}/sub-02/anat/sub-02_lesion_roi.nii.gz"


@pytest.mark.parametrize("place", ["set", "prep"])
def test_lesion_masks_that_fit_equally_well_are_refused(tmp_path: Path, place: str) -> None:
    drawn = anat("sub-01_desc-lesion_mask", "sub-01_T1w_roi")
    root = dataset(tmp_path / "set", *anat("sub-01_T1w"), *(drawn if place == "set" else ()))
    folder = dataset(tmp_path / "prep", *anat("sub-01_desc-brain_mask"), *drawn)
    names = "sub-01_T1w_roi.nii.gz: fits the same scan as sub-01_desc-lesion_mask.nii.gz"
    with pytest.raises(FileError, match=names):
        find_scans(root, derivatives=[folder] if place == "prep" else [])


def test_lesion_masks_that_fit_no_scan_are_known(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w", "sub-01_space-MNI_label-lesion_mask"))
    folder = dataset(tmp_path / "prep", *anat("sub-01_run-1_lesion_roi"))
    (found,) = find_scans(root, derivatives=[folder])
    assert found.lesion is None
    assert [Path(file).name for file in found.other_lesions] == [
        "sub-01_run-1_lesion_roi.nii.gz",
        "sub-01_space-MNI_label-lesion_mask.nii.gz",
    ]
