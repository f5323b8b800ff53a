"""``ndflow bids``: a BIDS dataset goes in, a BIDS derivative comes out."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import Validate
from commands import NDFLOW, Run
from files_on_disc import fmriprep
from nibabel.loadsave import load
from phantoms import head, save, tissue_shares
from studies import contents, read_json, read_tsv, sha256

import ndflow
from ndflow.files.atomic import folder_lock

SCANS = {"sub-01_run-1_T1w": "Aachen", "sub-01_run-2_T1w": "Aachen"}  # and their sites
SCANS |= {"sub-02_ses-a_T1w": "Bonn", "sub-02_ses-b_T1w": "Celle", "sub-03_T1w": "Celle"}
DESCRIPTION = "dataset_description.json"
GENERAL = {DESCRIPTION, "README", ".bidsignore"}
STUDY = GENERAL | {"scans.tsv", "provenance.json", "reference.json"}


def place(name: str, end: str = ".nii.gz") -> str:
    folders = [part for part in name.split("_") if part.startswith(("sub-", "ses-"))]
    return "/".join((*folders, "anat", name + end))


def models(*names: str) -> set[str]:
    return {f"models/{name}.json" for name in names}


def results(*names: str) -> set[str]:
    ours = [name.replace("_T", "_desc-ndflow_T") for name in names]
    images = {place(name, end) for name in ours for end in (".nii.gz", ".json")}
    return models(*names) | images | {f"figures/{name}.png" for name in names}


def scan(path: Path, seed: int, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = head(seed, shape=(14, 16, 12), **options)
    save(path, (data > 400).astype(np.uint8) if "mask" in path.name else data)


class Desk:
    """A BIDS dataset, and a folder for the results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.raw, self.out = folder, folder / "raw", folder / "out"

    def image(self, name: str) -> Path:
        return self.raw / place(name)

    def lose(self, name: str) -> None:
        """Replace a scan by the dangling link of git-annex for content that was not fetched."""
        self.image(name).unlink(missing_ok=True)
        self.image(name).symlink_to("../../.git/annex/objects/Xk/3Q/0a.nii.gz/0a.nii.gz")

    def bids(self, level: str, *options: object) -> list[str]:
        return ["bids", *map(str, (self.raw, self.out, level, *options))]

    def made(self) -> set[str]:
        return set(contents(self.out))

    def json(self, name: str) -> Any:
        return read_json(self.out / name)

    def table(self, name: str) -> list[dict[str, str]]:
        return read_tsv(self.out / name)

    def dates(self) -> dict[str, int]:
        kept = self.made() - {"provenance.json", "scans.tsv"}
        return {name: (self.out / name).stat().st_mtime_ns for name in kept}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A finished study, which tests must not change."""
    desk = Desk(tmp_path_factory.mktemp("bids"))
    for number, name in enumerate(SCANS):
        scan(desk.image(name), number, gain=1 + 0.3 * number)
    (desk.raw / DESCRIPTION).write_text('{"Name": "Three sites", "BIDSVersion": "1.10.0"}')
    sites = "sub-01\tAachen\tx\nsub-02\tBonn\tx\nsub-03\tCelle\ty\n"
    (desk.raw / "participants.tsv").write_text(f"participant_id\tsite\tscanner\n{sites}")
    sessions = "session_id\tsite\nses-a\tn/a\nses-b\tCelle\n"
    (desk.raw / "sub-02" / "sub-02_sessions.tsv").write_text(sessions)
    subprocess.run([*NDFLOW, *desk.bids("group")], check=True)
    return desk


@pytest.fixture
def desk(whole: Desk, tmp_path: Path) -> Desk:
    shutil.copytree(whole.raw, tmp_path / "raw")
    return Desk(tmp_path)


def test_images_are_named_and_described_as_bids_requires(whole: Desk) -> None:
    references = {f"reference_{site}.json" for site in SCANS.values()}
    assert whole.made() == STUDY | results(*SCANS) | references
    sidecar = whole.json("sub-02/ses-b/anat/sub-02_ses-b_desc-ndflow_T1w.json")
    assert sidecar["Sources"] == ["bids:raw:sub-02/ses-b/anat/sub-02_ses-b_T1w.nii.gz"]
    told = whole.json(DESCRIPTION)
    assert told["GeneratedBy"] == [{"Name": "ndflow", "Version": ndflow.__version__}]
    assert (told["DatasetType"], told["DatasetLinks"]) == ("derivative", {"raw": "../raw"})
    assert "/models" in (whole.out / ".bidsignore").read_text().splitlines()


def test_the_bids_validator_finds_no_errors(run: Run, desk: Desk, validate: Validate) -> None:
    desk.lose("sub-01_run-1_T1w")
    assert run(*desk.bids("group", "--mode", "site")).code == 1
    assert {"failures.tsv", "map_Celle.json", "reference_Celle.json"} < desk.made()
    assert validate(desk.out) == []


def test_participants_then_group_equals_group_alone(run: Run, whole: Desk) -> None:
    desk = Desk(whole.folder)
    desk.out = desk.folder / "steps"
    for labels, names in ((["sub-03"], ["sub-03_T1w"]), (["02", "sub-01"], SCANS)):
        ran = run(*desk.bids("participant", "--participant_label", *labels))
        assert (ran.code, ran.errors) == (0, [])
        assert desk.made() == GENERAL | models(*names)
    dates = desk.dates()
    assert run(*desk.bids("group")).code == 0
    assert desk.dates().items() > dates.items()
    one, other = contents(desk.out), contents(whole.out)
    records = [json.loads(files.pop("provenance.json")) for files in (one, other)]
    assert one == other
    assert records[0] | {"command": 0} == records[1] | {"command": 0}


def test_participants_with_a_reference_are_finished_and_kept(run: Run, whole: Desk) -> None:
    desk = Desk(whole.folder)
    desk.out = desk.folder / "parts"
    given = ("--reference", whole.out / "reference.json", "-q")
    parts = [desk.bids("participant", "--shard", f"{part}/3", *given) for part in (1, 2, 3)]
    jobs = [subprocess.Popen([*NDFLOW, *words]) for words in parts]
    assert [job.wait(60) for job in jobs] == [0, 0, 0]
    assert desk.made() == GENERAL | results(*SCANS)
    dates = desk.dates()
    assert run(*desk.bids("group", *given)).code == 0
    assert desk.made() > STUDY
    assert dates.items() <= desk.dates().items()
    again = run(*desk.bids("participant", "--reference", "builtin:T1w"))
    assert (again.code, "other settings (reference" in again.err) == (2, True)


def test_preprocessed_images_are_normalised_on_their_own_grid(
    run: Run, desk: Desk, validate: Validate
) -> None:
    prep = desk.folder / "fmriprep"
    shares = {name.upper(): share for name, share in tissue_shares((14, 16, 12)).items()}
    for name in fmriprep("sub-01", "sub-02_ses-a", "sub-02_ses-b"):  # and not sub-03
        (prep / name).parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith(".nii.gz"):
            (prep / name).write_text("{}")
            continue
        step, image = 2 if "space-" in name else 1, head(sum(name.encode()), shape=(14, 16, 12))
        share = shares.get(name.rpartition("label-")[2].partition("_")[0], image > 400)
        voxels = image if "T1w" in name else share.astype(np.float32)
        save(prep / name, voxels[::step, ::step, ::step].transpose(2, 0, 1))  # reoriented
    ran = run(*desk.bids("group", "-d", prep))
    assert (ran.code, ran.errors) == (0, [])
    plan = " ".join(ran.err.split())
    assert "images 3 desc-preproc images of fmriprep, native space sites 3: Aachen 1" in plan
    assert f"{prep}: left out: sub-03 (no desc-preproc_T1w image in native space)" in plan
    made = [place(f"{name}_desc-ndflow_T1w") for name in ("sub-01", "sub-02_ses-a", "sub-02_ses-b")]
    assert sorted(name for name in desk.made() if name.endswith(".nii.gz")) == made
    assert load(desk.out / made[0]).shape == (12, 14, 16)
    assert desk.json(made[0].replace(".nii.gz", ".json"))["Sources"] == [
        f"bids:fmriprep:{place(f'sub-01_desc-{kind}')}" for kind in ("preproc_T1w", "brain_mask")
    ]
    assert validate(desk.out) == []


def test_scans_missing_from_git_annex_are_listed_by_concurrent_runs(run: Run, desk: Desk) -> None:
    lost = ["sub-01_run-2_T1w", "sub-02_ses-b_T1w"]
    for name in lost:
        desk.lose(name)
    desk.out.mkdir()
    with folder_lock(desk.out, shared=True):  # like one more run at the same time
        words = [*NDFLOW, *desk.bids("participant", "--participant-label")]
        children = [subprocess.Popen([*words, label]) for label in ("01", "02")]
        assert [child.wait(60) for child in children] == [1, 1]
        assert run(*desk.bids("group")).code == 2  # which wants the folder for itself
    assert desk.made() == GENERAL | (models(*[*SCANS][:4]) - models(*lost)) | {"failures.tsv"}
    rows = sorted(desk.table("failures.tsv"), key=lambda row: row["scan"])
    assert [(row["scan"], row["stage"]) for row in rows] == [(name, "fit") for name in lost]
    assert rows[1]["try"] == f"get it: datalad get {desk.image(lost[1])}"
    assert run(*desk.bids("group", "--session-label", "b")).code == 2  # no scan could be processed
    for number, name in enumerate(lost):
        desk.image(name).unlink()
        scan(desk.image(name), 10 + number)
    assert run(*desk.bids("group")).code == 0
    assert desk.made() > results(*SCANS)
    assert "failures.tsv" not in desk.made()


def test_each_of_several_suffixes_is_a_study_of_its_own(run: Run, whole: Desk, desk: Desk) -> None:
    for number, name in enumerate(SCANS):
        scan(desk.image(name.replace("T1w", "FLAIR")), 10 + number)
    words = desk.bids("group", "--suffix", "T1w", "FLAIR", "-q")
    assert run(*words) == (0, "", "")
    image = place("sub-03_desc-ndflow_T1w")
    assert sha256(desk.out / "T1w" / image) == sha256(whole.out / image)
    assert ndflow.load(desk.out / "reference.json").keys() == {"T1w", "FLAIR"}
    for name in SCANS:
        desk.image(name.replace("T1w", "FLAIR")).write_bytes(b"")
    assert run(*words).code == 1  # one of the studies is done
    assert run("bids", desk.raw, desk.out / "T1w", "group", "--suffix", "T1w", "FLAIR").code == 2


def test_masks_and_lesions_are_looked_up_in_derivatives(run: Run, desk: Desk) -> None:
    strip, prep = desk.folder / "strip", desk.folder / "prep"
    lesion = np.zeros((14, 16, 12), np.uint8)
    lesion[5:8, 6:9, 4:8] = 1
    for name in SCANS:
        scan(strip / place(f"{name.removesuffix('_T1w')}_desc-brain_mask"), 0)
    (prep / "sub-03/anat").mkdir(parents=True)
    ill = save(prep / place("sub-03_label-lesion_mask"), lesion)
    ran = run(*desk.bids("group", "-d", f"synthstrip={strip}", prep))
    assert (ran.code, ran.errors) == (0, [])
    row = desk.table("scans.tsv")[-1]
    assert row["mask"] == str(strip / place("sub-03_desc-brain_mask"))
    assert row["lesion"] == str(ill)
    fitted = ndflow.fit(desk.image("sub-03_T1w"), mask=row["mask"], exclude=ill).mixture
    assert ndflow.load(desk.out / "models" / "sub-03_T1w.json") == fitted
    assert set(desk.json(DESCRIPTION)["DatasetLinks"]) == {"raw", "synthstrip", "prep"}
    assert desk.json(place("sub-03_desc-ndflow_T1w", ".json"))["Sources"] == [
        f"bids:raw:{place('sub-03_T1w')}",
        f"bids:synthstrip:{place('sub-03_desc-brain_mask')}",
        f"bids:prep:{place('sub-03_label-lesion_mask')}",
    ]
