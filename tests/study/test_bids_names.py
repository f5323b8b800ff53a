"""BIDS derivatives: named and described so that the BIDS validator accepts them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ndflow.errors import FileError
from ndflow.image.subject import Output, Subject
from ndflow.study.bids_names import bids_output, write_dataset_files

RAW = {"Name": "Three hospitals", "BIDSVersion": "1.8.0", "DatasetDOI": "doi:10.1/x"}


def output(image: str | Path, root: Path = Path("/data")) -> Output:
    """Return where the result of an image goes."""
    return bids_output(root, {}, Subject(str(root / image)), str(root / image), "name")


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
    ("given", "expected"),
    [
        ("sub-01_T1w.nii", "sub-01_desc-ndflow_T1w"),
        ("sub-01_ses-a_acq-x_run-1_T2w.nii.gz", "sub-01_ses-a_acq-x_run-1_desc-ndflow_T2w"),
        ("sub-01_desc-preproc_space-MNI_T1w.nii.gz", "sub-01_space-MNI_desc-ndflow_T1w"),
    ],
)
def test_desc_comes_last_and_replaces_another(given: str, expected: str) -> None:
    found = output(f"sub-01/anat/{given}")
    assert found.image == f"sub-01/anat/{expected}.nii.gz"
    assert found.sidecar == f"sub-01/anat/{expected}.json"


def test_the_sidecar_of_a_scan_is_believed(tmp_path: Path) -> None:
    said = {"SkullStripped": True, "EchoTime": 3, "Resolution": {"1": "1 mm", "2": float("nan")}}
    (tmp_path / "sub-01_T1w.json").write_text(json.dumps(said))
    assert output("sub-01_T1w.nii", tmp_path).metadata == {
        "Sources": ["bids:raw:sub-01_T1w.nii"],
        "SkullStripped": True,
        "Resolution": {"1": "1 mm", "2": None},
    }


# ── descriptions ──────────────────────────────────────────────────────────────────────────────────


def test_additions_by_hand_are_kept(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw"), tmp_path / "out"
    old = write(out, raw, version="1.0")
    old |= {"Authors": ["A", "B"], "License": "CC0"}
    old["DatasetLinks"]["templates"] = "../templates"
    (out / "dataset_description.json").write_text(json.dumps(old))
    (out / ".bidsignore").write_text("/mine\n/maps\n")
    (out / "README").write_text("Mine.")
    new = write(out, raw, version="2.0")
    assert new["Authors"] == ["A", "B"]
    assert new["License"] == "CC0"
    assert new["GeneratedBy"] == [{"Name": "ndflow", "Version": "2.0"}]
    assert new["DatasetLinks"] == {"raw": "../raw", "templates": "../templates"}
    lines = (out / ".bidsignore").read_text().splitlines()
    assert lines[:2] == ["/mine", "/maps"]
    assert len(lines) == len(set(lines)) > 5
    assert (out / "README").read_text() == "Mine."
    assert "Authors" not in write(out, raw, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_other_datasets_and_the_source_are_never_written_into(
    tmp_path: Path, *, force: bool
) -> None:
    raw = described(tmp_path / "raw", GeneratedBy=[{"Name": "ndflow"}])  # normalised again
    (tmp_path / "link").symlink_to(raw)
    places = [(tmp_path / "link", "the dataset that the scans come from.*derivatives/ndflow")]
    for number, theirs in enumerate(([{"Name": "fMRIPrep"}], {"Name": "ndflow"}, ["ndflow"], None)):
        out = described(tmp_path / f"out{number}", GeneratedBy=theirs)
        places.append((out, "a dataset that is not ours; choose another folder"))
    for place, said in places:
        before = contents(place)
        with pytest.raises(FileError, match=said):
            write(place, raw, force=force)
        assert contents(place) == before


def test_an_output_of_another_dataset_is_replaced_only_with_force(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw"), tmp_path / "out"
    write(out, raw)
    other = described(tmp_path / "other", Name="Another")
    with pytest.raises(FileError, match=r"made from another dataset, \.\./raw; .*--force"):
        write(out, other)
    assert description(out)["DatasetLinks"] == {"raw": "../raw"}
    assert write(out, other, force=True)["DatasetLinks"] == {"raw": "../other"}


@pytest.mark.parametrize("which", ["raw", "out"])
def test_a_damaged_description_is_named(tmp_path: Path, which: str) -> None:
    raw = described(tmp_path / "raw")
    write(tmp_path / "out", raw)
    path = tmp_path / which / "dataset_description.json"
    for content in (b"{", b"[]", b'{"Name": "\xff"}', b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(FileError, match=r"not (JSON|a JSON object|text in UTF-8)") as caught:
            write(tmp_path / "out", raw)
        assert caught.value.path == str(path)


def test_a_source_that_was_moved_is_recognised(tmp_path: Path) -> None:
    raw, out = described(tmp_path / "raw", DatasetDOI=None), tmp_path / "out"
    write(out, raw)
    raw = raw.rename(tmp_path / "moved")
    assert write(out, raw)["DatasetLinks"] == {"raw": "../moved"}
