"""What ``ndflow bids`` understands of a dataset: its tables, lesion masks and repeated scans."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Ran, Run
from numpy.typing import NDArray
from phantoms import head, save
from studies import SMALL, contents, read_json, read_tsv

import ndflow

NAMES = ["sub-01", "sub-02", "sub-03"]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    root = tmp_path / "raw"
    for number, name in enumerate(NAMES):
        (root / name / "anat").mkdir(parents=True)
        image = root / name / "anat" / f"{name}_T1w.nii.gz"
        save(image, head(number, shape=SMALL, gain=1 + number))
    (root / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.10.0"}')
    return root


def participants(raw: Path, columns: str, cells: str) -> Path:
    lines = [f"participant_id\t{columns}", *(f"{name}\t{cells}" for name in NAMES)]
    path = raw / "participants.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def about(ran: Ran) -> dict[str, str]:
    """Return what was printed about the scans."""
    lines = [line for line in ran.err.splitlines() if re.match(r"  \w", line)]
    return {line[2:16].strip(): line[16:] for line in lines}


@pytest.mark.parametrize("level", ["participant", "group"])
def test_what_was_understood_is_printed_first(run: Run, raw: Path, level: str) -> None:
    participants(raw, "site\tage\tlesion\tname", "A\t31\tyes\tAnn")
    ran = run("bids", raw, raw.parent / "out", level, "--mask", "auto")
    assert ran.code == 0
    assert ran.err.startswith(f"{raw}: 3 scans\n")
    said = about(ran)
    assert (said["sites"], said["covariates"]) == ("1 (A 3)", "age")
    assert said["brain masks"] == "3 to be found automatically"
    assert said["not used"].startswith("lesion, name (means something else in the list of scans")


def test_a_column_that_may_name_the_sites_is_pointed_out(run: Run, raw: Path) -> None:
    path = participants(raw, "Sites", "Bonn")
    ran = run("bids", raw, raw.parent / "out", "group", "--dry-run")
    assert ran.code == 0
    assert about(ran)["sites"] == "none"
    assert f"warning: {path}: no site is known, but there is a column 'Sites'" in ran.err
    ran = run("bids", raw, raw.parent / "out", "group", "--dry-run", "--site-column", "Sites")
    assert about(ran)["sites"] == "1 (Bonn 3)"
    assert "warning" not in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('sub-01\t"A\nsub-02\tA\nsub-03\tB"\n', "row 2 has a cell that goes on until line 4"),
        ('sub-01\t"A\nsub-02\tA\nsub-03\tB\n', "row 2 cannot be read"),
        ("sub-01\tA\nsub-02\nsub-03\tB\n", "row 3 has 1 cells instead of 2"),
    ],
)
def test_a_table_that_cannot_be_understood_is_refused(
    run: Run, raw: Path, text: str, said: str
) -> None:
    (raw / "participants.tsv").write_text(f"participant_id\tsite\n{text}")
    ran = run("bids", raw, raw.parent / "out", "group")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{raw}/participants.tsv: {said}" in ran.errors[0]
    assert not (raw.parent / "out").exists()


@pytest.mark.parametrize(
    "name",
    [
        "sub-02_label-lesion_mask.nii.gz",
        "sub-02_desc-lesion_mask.nii.gz",
        "sub-02_T1w_label-lesion_roi.nii.gz",
        "sub-02_roi.nii.gz",
    ],
)
def test_a_lesion_mask_is_left_out_of_the_density(run: Run, raw: Path, name: str) -> None:
    mask = save(raw / "sub-02" / "anat" / name, lesion())
    out = raw.parent / "out"
    ran = run("bids", raw, out, "group")
    assert ran.code == 0
    assert about(ran)["lesion masks"] == "1 of 3 scans"
    image = raw / "sub-02" / "anat" / "sub-02_T1w.nii.gz"
    fitted = ndflow.load(out / "models" / "sub-02_T1w.json")
    assert fitted == ndflow.fit(image, exclude=mask).mixture != ndflow.fit(image).mixture
    sidecar = read_json(out / "sub-02" / "anat" / "sub-02_desc-ndflow_T1w.json")
    assert sidecar["inputs"]["lesion"][0]["file"] == str(mask)


def lesion() -> NDArray[np.uint8]:
    voxels = np.zeros(SMALL, np.uint8)
    voxels[5:8, 6:9, 4:8] = 1
    return voxels


def test_two_lesion_masks_of_a_scan_are_refused(run: Run, raw: Path) -> None:
    names = ("sub-02_label-lesion_mask.nii", "sub-02_lesion_roi.nii.gz")
    for name in names:
        save(raw / "sub-02" / "anat" / name, lesion())
    ran = run("bids", raw, raw.parent / "out", "group")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{names[0]}: fits the same scan as {names[1]}" in ran.errors[0]
    assert not (raw.parent / "out").exists()


def test_lesion_masks_may_have_a_derivatives_folder_of_their_own(run: Run, raw: Path) -> None:
    drawn = raw.parent / "drawn"
    (drawn / "sub-02" / "anat").mkdir(parents=True)
    mask = save(drawn / "sub-02" / "anat" / "sub-02_label-lesion_mask.nii.gz", lesion())
    out = raw.parent / "out"
    ran = run("bids", raw, out, "group", "--derivatives", drawn)
    assert ran.code == 0
    assert about(ran)["lesion masks"] == "1 of 3 scans"
    assert about(ran)["brain masks"] == "none (all voxels but 0 count)"
    assert "warning: " + str(drawn) not in ran.err
    sidecar = read_json(out / "sub-02" / "anat" / "sub-02_desc-ndflow_T1w.json")
    assert sidecar["inputs"]["lesion"][0]["file"] == str(mask)
    drawn_at = "bids:drawn:sub-02/anat/sub-02_label-lesion_mask.nii.gz"
    assert sidecar["Sources"] == ["bids:raw:sub-02/anat/sub-02_T1w.nii.gz", drawn_at]


def test_a_lesion_mask_of_no_scan_is_named_in_a_warning(run: Run, raw: Path) -> None:
    other = save(raw / "sub-02" / "anat" / "sub-02_run-7_label-lesion_mask.nii.gz", lesion())
    save(raw / "sub-02" / "anat" / "sub-02_FLAIR_lesion_roi.nii.gz", lesion())
    words = ("bids", raw, raw.parent / "out", "group", "--dry-run")
    ran = run(*words)
    assert ran.code == 0
    assert about(ran)["lesion masks"] == "none"
    (line,) = (one for one in ran.err.splitlines() if one.startswith("warning"))
    assert line.startswith(f"warning: {other}: a lesion mask whose name matches none of these")
    save(raw / "sub-02" / "anat" / "sub-02_run-8_label-lesion_mask.nii.gz", lesion())
    assert (
        f"{other}: the first of 2 lesion masks whose names match none of these" in run(*words).err
    )
    save(raw / "sub-02" / "anat" / "sub-02_label-lesion_mask.nii.gz", lesion())
    assert "warning" not in run(*words).err


def test_a_scan_with_the_content_of_another_is_left_out(run: Run, raw: Path) -> None:
    out = raw.parent / "out"
    shutil.copy(raw / "sub-01/anat/sub-01_T1w.nii.gz", raw / "sub-03/anat/sub-03_T1w.nii.gz")
    for level in ("participant", "group"):
        ran = run("bids", raw, out, level)
        assert ran.code == 1
        assert "sub-03_T1w.nii.gz: the same image as" in ran.errors[0]
        assert [row["scan"] for row in read_tsv(out / "failures.tsv")] == ["sub-03_T1w"]
    assert read_json(out / "reference.json")["reference"]["scans"] == 2


@pytest.mark.parametrize("level", ["participant", "group"])
def test_no_files_of_others_are_replaced(run: Run, raw: Path, level: str) -> None:
    out = raw.parent / "out"
    (out / "models").mkdir(parents=True)
    (out / "models" / "sub-01_T1w.json").write_text("precious")
    ran = run("bids", raw, out, level, "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert contents(out) == {"models/sub-01_T1w.json": b"precious"}
