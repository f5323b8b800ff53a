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


def scans_in_folder(folder: Path, out: Path, pattern: str | None = None) -> Listing:
    return read_folder(str(folder), out, pattern, "T1w")


def names(folder: Path, pattern: str | None = None) -> list[str]:
    found = scans_in_folder(folder, folder / "out", pattern)
    return [Path(scan.path).relative_to(folder).as_posix() for scan in found.subjects]


def test_the_images_in_a_folder_are_found_with_their_sites(tmp_path: Path) -> None:
    images = ["b/2.nii.gz", "a/1.nii", "a/deep/3.mgz", "top.mgh", "a/.hidden.nii", "a/notes.txt"]
    touched(tmp_path, *images, "out/images/4.nii.gz", ".git/5.nii")
    found = scans_in_folder(tmp_path, tmp_path / "out")
    assert [(Path(scan.path).name, scan.site, scan.origin) for scan in found.subjects] == [
        ("1.nii", "a", "image 1"),
        ("3.mgz", "deep", "image 2"),
        ("2.nii.gz", "b", "image 3"),
        ("top.mgh", None, "image 4"),
    ]
    assert not found.skipped
    assert names(tmp_path, "*.nii.gz") == ["b/2.nii.gz"]
    with pytest.raises(FileError, match="no image in it is called x") as caught:
        scans_in_folder(tmp_path, tmp_path / "out", "x")
    assert "--pattern" in caught.value.hint


def test_results_of_ours_are_no_scans(tmp_path: Path) -> None:
    touched(tmp_path, "a/1.nii", "old/images/2.nii.gz", "bids/sub-1/anat/3.nii", "one/4.nii.gz")
    StudyRecord(settings={}).write(tmp_path / "old" / "provenance.json")
    described = {"Name": "x", "GeneratedBy": [{"Name": "ndflow"}]}
    (tmp_path / "bids" / "dataset_description.json").write_text(json.dumps(described))
    ndflow.save(tmp_path / "one" / "4.json", ndflow.Affine(1.0, 0.0))
    assert names(tmp_path) == ["a/1.nii"]
    assert scans_in_folder(tmp_path, tmp_path / "out").skipped == {"results of ndflow": 3}
    with pytest.raises(FileError, match=r"\(1 results of ndflow skipped\)"):
        scans_in_folder(tmp_path / "old", tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        "mask.mgz",
        "x_brainmask.nii",
        "x_desc-brain_Mask.nii",
        "x_dseg.nii.gz",
        "x_label-lesion_roi.nii.gz",
        "x_lesion.nii",
        "x_mask.nii.gz",
        "x_probseg.nii",
        "x_seg.nii.gz",
    ],
)
def test_masks_are_no_scans_unless_the_pattern_asks_for_them(tmp_path: Path, name: str) -> None:
    touched(tmp_path, "a/unmasked.nii", "a/lesion_T1w.nii", f"a/{name}")
    assert names(tmp_path) == ["a/lesion_T1w.nii", "a/unmasked.nii"]
    skipped = scans_in_folder(tmp_path, tmp_path / "out", "*").skipped
    assert skipped == {"masks and tissue maps": 1}
    assert names(tmp_path, f"*{name}") == [f"a/{name}"]


@pytest.mark.parametrize("tree", ["sub-1/anat/", "sub-1/ses-2/anat/", "A/sub-1/func/"])
def test_the_tree_of_a_bids_dataset_has_no_sites(tmp_path: Path, tree: str) -> None:
    touched(tmp_path, f"{tree}sub-1_T1w.nii.gz")
    with pytest.raises(FileError, match=r"would be called (anat|func)") as caught:
        scans_in_folder(tmp_path, tmp_path / "out")
    assert "ndflow bids" in caught.value.hint


def test_links_to_folders_are_counted_and_lost_files_listed(tmp_path: Path) -> None:
    touched(tmp_path, "a/1.nii")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "2.nii").symlink_to("gone")  # not fetched, which is an error later
    assert names(tmp_path) == ["a/1.nii", "a/2.nii"]
    assert scans_in_folder(tmp_path, tmp_path / "out").skipped == {"links to folders": 1}
