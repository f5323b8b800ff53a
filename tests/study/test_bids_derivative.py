"""BIDS derivatives: named and described so that the BIDS validator accepts them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantoms import head, save

from ndflow.errors import FileError
from ndflow.image.subject import Output, Subject
from ndflow.study.bids_derivative import BidsNames, write_dataset_files

VALIDATOR = Path(sys.executable).with_name("bids-validator-deno")
RAW = {"Name": "Three hospitals", "BIDSVersion": "1.8.0", "DatasetDOI": "doi:10.1/x"}


def output(image: str, root: Path = Path("/data"), **more: Any) -> Output:
    """Return where the result of an image goes."""
    subject = Subject(str(root / image), **more)
    return BidsNames(root, {"prep": Path("/prep")}).output(subject, str(root / image), "name")


def described(folder: Path, **more: Any) -> Path:
    """Make a dataset that consists of its description only."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_description.json").write_text(json.dumps(RAW | more), encoding="utf-8")
    return folder


def description(folder: Path) -> Any:
    return json.loads((folder / "dataset_description.json").read_text(encoding="utf-8"))


def write(folder: Path, source: Path, version: str = "1.2.3", **options: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    write_dataset_files(folder, source_root=source, version=version, **options)
    return description(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("sub-01/anat/sub-01_T1w.nii.gz", "sub-01/anat/sub-01_desc-ndflow_T1w.nii.gz"),
        ("sub-01/anat/sub-01_T1w.nii", "sub-01/anat/sub-01_desc-ndflow_T1w.nii.gz"),
        (
            "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_T2w.nii.gz",
            "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_desc-ndflow_T2w.nii.gz",
        ),
        (
            "sub-01/anat/sub-01_space-MNI_desc-preproc_T1w.nii.gz",
            "sub-01/anat/sub-01_space-MNI_desc-ndflow_T1w.nii.gz",
        ),
        (
            "sub-01/anat/sub-01_desc-preproc_space-MNI_T1w.nii.gz",
            "sub-01/anat/sub-01_space-MNI_desc-ndflow_T1w.nii.gz",
        ),
    ],
)
def test_desc_comes_last_and_replaces_another(relative: str, expected: str) -> None:
    found = output(relative)
    assert (found.image, found.sidecar) == (expected, expected.replace(".nii.gz", ".json"))


# ── descriptions ──────────────────────────────────────────────────────────────────────────────────


def test_the_description_names_the_tool_and_the_source(tmp_path: Path) -> None:
    raw = described(tmp_path / "raw")
    assert write(raw / "derivatives" / "ndflow", raw) == {
        "Name": "ndflow",
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "ndflow", "Version": "1.2.3"}],
        "SourceDatasets": [{"Name": "Three hospitals", "DOI": "doi:10.1/x"}],
        "DatasetLinks": {"raw": "../.."},
    }


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw"), tmp_path / "out"
    write(out, raw)
    before = contents(out), (out / "dataset_description.json").stat().st_ino
    write(out, raw)
    assert (contents(out), (out / "dataset_description.json").stat().st_ino) == before
    assert sorted(before[0]) == [".bidsignore", "README", "dataset_description.json"]


def test_additions_by_hand_are_kept(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw"), tmp_path / "out"
    old = write(out, raw, version="1.0")
    old |= {"Authors": ["A", "B"], "License": "CC0"}
    old["GeneratedBy"].append({"Name": "Manual"})
    old["DatasetLinks"]["templates"] = "../templates"
    (out / "dataset_description.json").write_text(json.dumps(old))
    (out / ".bidsignore").write_text("/mine\n/maps\n")
    (out / "README").write_text("Mine.")
    new = write(out, raw, version="2.0")
    assert new["Authors"] == ["A", "B"]
    assert new["License"] == "CC0"
    assert new["GeneratedBy"] == [{"Name": "ndflow", "Version": "2.0"}, {"Name": "Manual"}]
    assert new["DatasetLinks"] == {"raw": "../raw", "templates": "../templates"}
    lines = (out / ".bidsignore").read_text().splitlines()
    assert lines[:2] == ["/mine", "/maps"]
    assert len(lines) == len(set(lines)) > 5
    assert (out / "README").read_text() == "Mine."
    assert "Authors" not in write(out, raw, force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "theirs",
    [
        {},
        {"GeneratedBy": [{"Name": "fMRIPrep"}]},
        {"GeneratedBy": {"Name": "ndflow"}},
        {"GeneratedBy": ["ndflow"]},
    ],
)
def test_other_datasets_are_never_written_into(tmp_path: Path, theirs: Any, *, force: bool) -> None:
    raw, out = described(tmp_path / "raw"), described(tmp_path / "out", **theirs)
    before = contents(out)
    with pytest.raises(FileError, match="a dataset that is not ours; choose another folder"):
        write(out, raw, force=force)
    assert contents(out) == before


@pytest.mark.parametrize("force", [False, True])
def test_the_source_dataset_is_never_written_into(tmp_path: Path, *, force: bool) -> None:
    raw = described(tmp_path / "raw", GeneratedBy=[{"Name": "ndflow"}])  # normalised again
    (tmp_path / "link").symlink_to(raw)
    before = contents(raw)
    with pytest.raises(
        FileError, match=r"the dataset that the scans come from.*derivatives/ndflow"
    ):
        write(tmp_path / "link", raw, force=force)
    assert contents(raw) == before


def test_an_output_of_another_dataset_is_replaced_only_with_force(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw"), tmp_path / "out"
    write(out, raw)
    other = described(tmp_path / "other", Name="Another")
    with pytest.raises(FileError, match=r"made from another dataset, \.\./raw; .*--force"):
        write(out, other)
    assert description(out)["DatasetLinks"] == {"raw": "../raw"}
    assert write(out, other, force=True)["DatasetLinks"] == {"raw": "../other"}


@pytest.mark.parametrize("doi", ["doi:10.1/x", None])
def test_a_source_that_was_moved_or_renamed_is_recognised(tmp_path: Path, doi: str | None) -> None:
    raw, out = described(tmp_path / "raw", DatasetDOI=doi), tmp_path / "out"
    write(out, raw)
    raw = raw.rename(tmp_path / "moved")
    assert write(out, raw)["DatasetLinks"] == {"raw": "../moved"}
    described(raw, Name="Renamed", DatasetDOI=doi)
    assert write(out, raw)["SourceDatasets"][0]["Name"] == "Renamed"


@pytest.mark.parametrize("which", ["raw", "out"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"Name": "\xff"}', "not text in UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (None, "datalad get"),
    ],
)
def test_a_damaged_description_is_named(
    tmp_path: Path, which: str, content: bytes | None, message: str
) -> None:
    raw = described(tmp_path / "raw")
    write(tmp_path / "out", raw)
    path = tmp_path / which / "dataset_description.json"
    if content is None:
        path.unlink()
        path.symlink_to(".git/annex/objects/x")
    else:
        path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        write(tmp_path / "out", raw)
    assert caught.value.path == str(path)


# ── the validator ─────────────────────────────────────────────────────────────────────────────────

NAMES = (
    "sub-01/ses-a/anat/sub-01_ses-a_run-1_T1w.nii.gz",
    "sub-01/ses-a/anat/sub-01_ses-a_run-2_T1w.nii.gz",
    "sub-02/anat/sub-02_acq-mprage_T1w.nii",
    "sub-02/anat/sub-02_space-MNI152NLin2009cAsym_res-2_desc-preproc_T1w.nii.gz",
)


def written(folder: Path, **sidecar: Any) -> Path:
    """Write a derivative as a command does, with all outputs that its folder may hold."""
    raw = described(folder / "a study")
    out = folder / "out"
    for count, relative in enumerate(NAMES):
        (raw / relative).parent.mkdir(parents=True, exist_ok=True)
        save(raw / relative, head(count))
    for relative in NAMES:
        own = output(relative, raw)
        image = out / own.image
        image.parent.mkdir(parents=True, exist_ok=True)
        save(image, head().astype(np.float32))
        side = {**own.metadata, "format": "ndflow", **sidecar}
        if "_res-" in relative:
            side["Resolution"] = "2 mm"
        image.with_name(image.name.replace(".nii.gz", ".json")).write_text(json.dumps(side))
    for name in (
        "models/sub-01/ses-a/x.json",
        "maps/x.json",
        "evaluation/x.tsv",
        "reference.json",
        "reference_Site_A.json",
        "map_Site_A.json",
        "provenance.json",
        "failures.tsv",
        "scans.tsv",
        "report.html",
        ".ndflow-1.tmp",
        "sub-01/.ndflow-lock",
    ):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("{}")
    write(out, raw)
    return out


def faults(dataset: Path) -> list[tuple[str, str]]:
    """Return the errors of the BIDS validator, with the files."""
    done = subprocess.run(
        [VALIDATOR, "--format", "json", dataset],
        env=os.environ | {"DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        check=False,
    )
    issues = json.loads(done.stdout)["issues"]["issues"]
    found = [(issue["code"], issue["location"]) for issue in issues if issue["severity"] == "error"]
    assert (done.returncode == 0) == (not found), done.stderr
    return found


needs_validator = pytest.mark.skipif(
    not VALIDATOR.exists(), reason=f"no {VALIDATOR.name} beside {sys.executable}"
)


@needs_validator
def test_the_validator_finds_no_errors(tmp_path: Path) -> None:
    assert faults(written(tmp_path)) == []
