"""A folder instead of a table: which images are scans, and which are skipped."""

import json
from pathlib import Path

import pytest

import ndflow
from ndflow.errors import FileError
from ndflow.study.image_folder import read_folder
from ndflow.study.table import Listing
from ndflow.subject.records import StudyRecord


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def found_in(folder: Path, pattern: str | None = None) -> tuple[Listing, list[str]]:
    """Return what is found, and the names of the scans."""
    found = read_folder(str(folder), folder / "out", pattern, "T1w")
    return found, [Path(scan.path).relative_to(folder).as_posix() for scan in found.subjects]


def test_the_images_in_a_folder_are_found_with_their_sites(tmp_path: Path) -> None:
    images = ["b/2.nii.gz", "a/1.nii", "a/deep/3.mgz", "top.mgh", "a/.hidden.nii", "a/notes.txt"]
    touched(tmp_path, *images, "out/images/4.nii.gz", ".git/5.nii")
    (tmp_path / "b" / "lost.nii").symlink_to("gone")  # not fetched, which is an error later
    (tmp_path / "c").symlink_to(tmp_path / "a")
    found, names = found_in(tmp_path)
    assert names == ["a/1.nii", "a/deep/3.mgz", "b/2.nii.gz", "b/lost.nii", "top.mgh"]
    assert [scan.site for scan in found.subjects] == ["a", "deep", "b", "b", None]
    assert found.skipped == {"links to folders": 1}
    assert found_in(tmp_path, "*.nii.gz")[1] == ["b/2.nii.gz"]
    with pytest.raises(FileError, match=r"no image in it is called x.*--pattern"):
        found_in(tmp_path, "x")


def test_results_of_ours_are_no_scans(tmp_path: Path) -> None:
    touched(tmp_path, "a/1.nii", "old/images/2.nii.gz", "bids/sub-1/anat/3.nii", "one/4.nii.gz")
    StudyRecord(settings={}).write(tmp_path / "old" / "provenance.json")
    described = {"Name": "x", "GeneratedBy": [{"Name": "ndflow"}]}
    (tmp_path / "bids" / "dataset_description.json").write_text(json.dumps(described))
    ndflow.save(tmp_path / "one" / "4.json", ndflow.Affine(1.0, 0.0))
    found, names = found_in(tmp_path)
    assert names == ["a/1.nii"]
    assert found.skipped == {"results of ndflow": 3}
    with pytest.raises(FileError, match=r"\(1 results of ndflow skipped\)"):
        found_in(tmp_path / "old")


MASKS = ["mask.mgz", "x_brainmask.nii", "x_desc-brain_Mask.nii", "x_dseg.nii.gz", "x_probseg.nii"]
MASKS += ["x_label-lesion_roi.nii.gz", "x_lesion.nii", "x_mask.nii.gz", "x_seg.nii.gz"]


def test_masks_are_no_scans_unless_the_pattern_asks_for_them(tmp_path: Path) -> None:
    touched(tmp_path, "unmasked.nii", "lesion_T1w.nii", *MASKS)
    found, names = found_in(tmp_path, "*")
    assert names == ["lesion_T1w.nii", "unmasked.nii"]
    assert found.skipped == {"masks and tissue maps": len(MASKS)}
    for name in MASKS:
        assert found_in(tmp_path, f"*{name}")[1] == [name]


def test_the_tree_of_a_bids_dataset_has_no_sites(tmp_path: Path) -> None:
    touched(tmp_path, "A/sub-1/ses-2/func/sub-1_T1w.nii.gz")
    with pytest.raises(FileError, match=r"would be called func.*ndflow bids"):
        found_in(tmp_path)
