"""Brain masks: of the scan itself, its session or its subject, and in the same space."""

from pathlib import Path

import pytest
from files_on_disc import anat, dataset

from ndflow.errors import FileError
from ndflow.study.bids_query import find_scans


def masks(root: Path, stored: Path | None = None) -> list[str | None]:
    """Return the names of the masks of all scans, without their common ending."""
    found = [scan.mask for scan in find_scans(root, derivatives=[stored] if stored else [])]
    return [mask and Path(mask).name.removesuffix("_desc-brain_mask.nii.gz") for mask in found]


def test_a_mask_beside_the_image_must_have_the_same_entities(tmp_path: Path) -> None:
    given = ["sub-01_run-1", "sub-01_run-2", "sub-02", "sub-03_ses-a_acq-x"]
    beside = ["sub-01", "sub-01_run-2", "sub-02_space-MNI", "sub-02_run-1", "sub-03_ses-a_acq-x"]
    root = dataset(
        tmp_path,
        *anat(*(f"{name}_T1w" for name in given)),
        *anat(*(f"{name}_desc-brain_mask" for name in beside)),
        *anat("sub-01_run-1_mask", "sub-01_run-1_desc-head_mask", "sub-01_run-1_label-GM_probseg"),
    )
    assert masks(root) == [None, "sub-01_run-2", None, "sub-03_ses-a_acq-x"]
    assert find_scans(root)[1].mask == f"{root}/sub-01/anat/sub-01_run-2_desc-brain_mask.nii.gz"


def test_a_mask_may_be_uncompressed_and_of_an_image_with_desc(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_desc-preproc_T1w", "sub-01_desc-brain_mask.nii"))
    assert find_scans(root)[0].mask == f"{root}/sub-01/anat/sub-01_desc-brain_mask.nii"


@pytest.mark.parametrize(
    ("scan", "stored", "expected"),
    [
        ("sub-01", ["sub-01"], "sub-01"),
        ("sub-01", ["sub-01_space-MNI"], None),
        ("sub-01", ["sub-01_space-MNI_res-2", "sub-01"], "sub-01"),
        ("sub-01", ["sub-01_run-1"], None),
        ("sub-01", ["sub-02"], None),
        ("sub-01_space-MNI", ["sub-01"], None),
        ("sub-01_space-MNI", ["sub-01", "sub-01_space-MNI"], "sub-01_space-MNI"),
        ("sub-01_space-MNI_res-2", ["sub-01_space-MNI"], None),
        ("sub-01_run-1", ["sub-01", "sub-01_run-1"], "sub-01_run-1"),
        ("sub-01_run-1", ["sub-01", "sub-01_run-2"], "sub-01"),
        ("sub-01_acq-x_run-1", ["sub-01", "sub-01_acq-x", "sub-01_acq-y_run-1"], "sub-01_acq-x"),
        ("sub-01_ses-a", ["sub-01_ses-a", "sub-01"], "sub-01_ses-a"),
        ("sub-01_ses-a_run-1", ["sub-01_ses-a", "sub-01"], "sub-01_ses-a"),
        ("sub-01_ses-a", ["sub-01"], "sub-01"),
        ("sub-01_ses-a", ["sub-01_ses-b"], None),
        ("sub-01_ses-a", ["sub-01_ses-b", "sub-01"], "sub-01"),
        ("sub-01", ["sub-01_ses-a"], None),
    ],
)
def test_a_derived_mask_has_no_entity_that_the_scan_lacks(
    tmp_path: Path, scan: str, stored: list[str], expected: str | None
) -> None:
    root = dataset(tmp_path / "set", *anat(f"{scan}_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*(f"{name}_desc-brain_mask" for name in stored)))
    (folder / "sub-01").mkdir(exist_ok=True)
    assert masks(root, folder) == [expected]


def test_derived_masks_take_precedence_over_those_beside_the_image(tmp_path: Path) -> None:
    beside = anat("sub-01_desc-brain_mask", "sub-02_desc-brain_mask")
    root = dataset(tmp_path / "set", *anat("sub-01_T1w", "sub-02_T1w"), *beside)
    folder = dataset(tmp_path / "prep", *anat("sub-01_desc-brain_mask"))
    first, second = find_scans(root, derivatives=[folder])
    assert first.mask == f"{folder}/sub-01/anat/sub-01_desc-brain_mask.nii.gz"
    assert second.mask == f"{root}/sub-02/anat/sub-02_desc-brain_mask.nii.gz"


@pytest.mark.parametrize(
    ("scan", "stored", "expected"),
    [
        ("sub-01", ["sub-01_label-GM", "sub-01_label-WM"], ["sub-01_label-GM", "sub-01_label-WM"]),
        ("sub-01", ["sub-01_space-MNI_label-GM"], []),
        ("sub-01_space-MNI", ["sub-01_space-MNI_label-CSF"], ["sub-01_space-MNI_label-CSF"]),
        ("sub-01", ["sub-01_run-1_label-GM", "sub-02_label-WM", "sub-01_label-L"], []),
        ("sub-01_run-1", ["sub-01_label-GM", "sub-01_run-1_label-GM"], ["sub-01_run-1_label-GM"]),
        ("sub-01_ses-a", ["sub-01_label-GM"], ["sub-01_label-GM"]),
    ],
)
def test_tissue_maps_are_looked_up_like_masks(
    tmp_path: Path, scan: str, stored: list[str], expected: list[str]
) -> None:
    root = dataset(tmp_path / "set", *anat(f"{scan}_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*(f"{name}_probseg" for name in stored)))
    (folder / "sub-01").mkdir(exist_ok=True)
    (found,) = find_scans(root, derivatives=[tmp_path / "set", folder])
    files = [Path(path).name.removesuffix("_probseg.nii.gz") for path in found.tissues.values()]
    assert sorted(files) == expected
    assert list(found.tissues) == [name.rpartition("-")[2].lower() for name in files]


@pytest.mark.parametrize(
    "stored",
    [
        ("sub-01_acq-x_run-1_desc-brain_mask.nii", "sub-01_acq-x_run-1_desc-brain_mask.nii.gz"),
        ("sub-01_acq-x_desc-brain_mask.nii.gz", "sub-01_run-1_desc-brain_mask.nii.gz"),
    ],
)
def test_masks_that_fit_equally_well_are_refused(tmp_path: Path, stored: tuple[str, str]) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_acq-x_run-1_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*stored))
    with pytest.raises(FileError, match=f"{stored[0]}: fits the same scan as {stored[1]}"):
        find_scans(root, derivatives=[folder])


def test_a_folder_without_masks_is_refused(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w"))
    with pytest.raises(FileError, match="no such folder"):
        find_scans(root, derivatives=[tmp_path / "missing"])
    with pytest.raises(FileError, match="no such folder"):
        find_scans(root, derivatives=[root / "dataset_description.json"])
    above = dataset(tmp_path / "derivatives" / "fmriprep", *anat("sub-01_desc-brain_mask")).parent
    with pytest.raises(FileError, match=r"no folders sub-….*derivatives/fmriprep"):
        find_scans(root, derivatives=[above])
