"""``ndflow bids``: a BIDS dataset goes in, a BIDS derivative comes out."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import NDFLOW, Run
from phantoms import head, save
from studies import contents, read_json, read_tsv, snapshot

import ndflow
from ndflow.files.atomic import folder_lock

VALIDATOR = Path(sys.executable).with_name("bids-validator-deno")
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
    ours = [name.replace("_desc-preproc", "").replace("_T", "_desc-ndflow_T") for name in names]
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

    def same_model(self, name: str, mask: str | Path | None = None) -> bool:
        expected = ndflow.fit(self.image(name), mask=mask).mixture
        return ndflow.load(self.out / "models" / f"{name}.json") == expected


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


def test_a_sidecar_holds_the_map_that_undoes_it(run: Run, whole: Desk, tmp_path: Path) -> None:
    ours, back = whole.out / place("sub-03_desc-ndflow_T1w"), tmp_path / "back.nii.gz"
    sidecar = whole.out / place("sub-03_desc-ndflow_T1w", ".json")
    assert run("apply", ours, "--map", sidecar, "--inverse", "-o", back).code == 0
    files = (whole.image("sub-03_T1w"), ours, back)
    before, between, after = (nibabel.load(file).get_fdata() for file in files)
    assert not np.allclose(between, before, atol=1)
    assert np.allclose(after, before, atol=0.01)


def test_a_second_run_rewrites_nothing(run: Run, whole: Desk) -> None:
    before, dates = contents(whole.out), whole.dates()
    for level in ("group", "participant"):
        assert run(*whole.bids(level)).code == 0
        assert (contents(whole.out), whole.dates()) == (before, dates)


@pytest.mark.skipif(not VALIDATOR.exists(), reason=f"no {VALIDATOR.name} beside {sys.executable}")
def test_the_bids_validator_finds_no_errors(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.lose("sub-01_run-1_T1w")
    assert run(*desk.bids("group", "--mode", "site")).code == 1
    assert {"failures.tsv", "map_Celle.json", "reference_Celle.json"} < desk.made()
    monkeypatch.setenv("DENO_NO_UPDATE_CHECK", "1")
    done = subprocess.run([VALIDATOR, "--format", "json", desk.out], capture_output=True)
    issues = json.loads(done.stdout)["issues"]["issues"]
    assert [issue for issue in issues if issue["severity"] == "error"] == []
    assert done.returncode == 0


def test_skulls_are_known_from_the_sidecar_of_the_scan(run: Run, desk: Desk) -> None:
    cases = [
        ("true", [False, True]),
        ("false", [False, False]),
        ("NaN", [False, False]),  # which some programs write
    ]
    for own, expected in cases:
        (desk.raw / place("sub-03_T1w", ".json")).write_text(f'{{"SkullStripped": {own}}}')
        assert run(*desk.bids("group", "--participant-label", "01", "03")).code == 0
        names = [f"{who}_desc-ndflow_T1w" for who in ("sub-01_run-2", "sub-03")]
        assert [desk.json(place(name, ".json"))["SkullStripped"] for name in names] == expected


def test_participants_then_group_equals_group_alone(run: Run, whole: Desk) -> None:
    desk = Desk(whole.folder)
    desk.out = desk.folder / "steps"
    for labels, names in ((["sub-03"], ["sub-03_T1w"]), (["02", "sub-01"], SCANS)):
        ran = run(*desk.bids("participant", "--participant-label", *labels))
        assert (ran.code, ran.errors) == (0, [])
        assert desk.made() == GENERAL | models(*names)
    dates = desk.dates()
    assert run(*desk.bids("group")).code == 0
    assert desk.dates().items() > dates.items()
    one, other = contents(desk.out), contents(whole.out)
    records = [json.loads(files.pop("provenance.json")) for files in (one, other)]
    assert one == other
    assert records[0] | {"command": 0} == records[1] | {"command": 0}


def test_scans_missing_from_git_annex_are_listed_by_concurrent_runs(run: Run, desk: Desk) -> None:
    lost = ["sub-01_run-2_T1w", "sub-02_ses-b_T1w", "sub-03_run-2_T1w"]
    for name in lost:
        desk.lose(name)
    desk.out.mkdir()
    with folder_lock(desk.out, shared=True):  # like one more run at the same time
        words = [*NDFLOW, *desk.bids("participant", "--participant-label")]
        children = [subprocess.Popen([*words, label]) for label in ("01", "02", "03")]
        assert [child.wait(60) for child in children] == [1, 1, 1]
    assert desk.made() == GENERAL | (models(*SCANS) - models(*lost)) | {"failures.tsv"}
    assert run(*desk.bids("group")).code == 1
    assert results(*SCANS) - results(*lost) < desk.made()
    rows = sorted(desk.table("failures.tsv"), key=lambda row: row["scan"])
    assert [(row["scan"], row["stage"]) for row in rows] == [(name, "fit") for name in lost]
    assert rows[1]["try"] == f"get it: datalad get {desk.image(lost[1])}"
    assert run(*desk.bids("group", "--session-label", "b")).code == 2  # no scan could be processed
    for number, name in enumerate(lost):
        desk.image(name).unlink()
        scan(desk.image(name), 10 + number)
    assert run(*desk.bids("group")).code == 0
    assert desk.made() > results(*SCANS, *lost)
    assert "failures.tsv" not in desk.made()


@pytest.mark.parametrize("case", [("group", False), ("group", True), ("participant", False)])
def test_a_run_is_refused_while_another_holds_the_lock(
    run: Run, whole: Desk, case: tuple[str, bool]
) -> None:
    before = contents(whole.out)
    with folder_lock(whole.out, shared=case[1]):
        ran = run(*whole.bids(case[0]))
    assert (ran.code, len(ran.errors), contents(whole.out)) == (2, 1, before)
    assert f"{whole.out}: another run of ndflow is at work" in ran.errors[0]


def test_the_site_is_in_the_tables(run: Run, whole: Desk, desk: Desk) -> None:
    assert {row["name"]: row["site"] for row in whole.table("scans.tsv")} == SCANS
    assert run(*desk.bids("group", "--mode", "site", "--site-column", "scanner")).code == 0
    assert [row["site"] for row in desk.table("scans.tsv")] == ["x", "x", "x", "x", "y"]
    by_site = {f"{kind}_{site}.json" for kind in ("reference", "map") for site in "xy"}
    assert desk.made() == STUDY | results(*SCANS) | by_site


def test_a_scan_without_a_site_is_named_at_once(run: Run, desk: Desk) -> None:
    (desk.raw / "participants.tsv").write_text("participant_id\tsite\nsub-01\tA\nsub-02\tB\n")
    ran = run(*desk.bids("group", "--mode", "site"))
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{desk.image('sub-03_T1w')}: " in ran.errors[0]
    assert "--mode individual" in ran.errors[0]
    assert not (desk.out / "models").exists()  # refused before any work


def test_masks_are_beside_the_images_or_in_a_folder_of_fmriprep(run: Run, desk: Desk) -> None:
    fmriprep, beside = desk.folder / "fmriprep", desk.image("sub-01_run-1_desc-brain_mask")
    both, later = (fmriprep / place(f"{who}_desc-brain_mask") for who in ("sub-01", "sub-02_ses-b"))
    for number, mask in enumerate((both, beside, later)):
        scan(mask, number)
    save(fmriprep / place("sub-01_space-MNI_desc-brain_mask"), np.ones((9, 9, 9), np.uint8))
    rest = len(SCANS) - 4
    choices = {(): [beside, *[None] * (3 + rest)]}
    prepared = ("--derivatives", fmriprep)
    choices[*prepared, "--mask", "auto"] = [both, both, "auto", later, *["auto"] * rest]
    for options, masks in choices.items():
        assert run(*desk.bids("participant", *options)).code == 0
        used = dict(zip(SCANS, masks, strict=True))
        assert [name for name in SCANS if not desk.same_model(name, used[name])] == []
    ran = run(*desk.bids("participant", *prepared))  # some scans would silently lack a mask
    assert (ran.code, "no mask for 2 of 5 scans" in ran.err) == (2, True)


def test_two_scans_of_one_name_are_refused(run: Run, desk: Desk) -> None:
    name = next(iter(SCANS))
    other = desk.image(name).parent.parent / "extra" / desk.image(name).name
    scan(other, 5)
    ran = run(*desk.bids("group"))
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "like that of" in ran.err


def test_other_images_and_sessions_are_chosen_and_the_head_is_found(run: Run, desk: Desk) -> None:
    for session in "ab":  # with a nonzero background
        save(desk.image(f"sub-02_ses-{session}_T2w"), np.maximum(head(7), 9))
    options = ("--suffix", "T2w", "--session-label", "ses-b", "--mask", "auto")
    assert run(*desk.bids("group", *options)).code == 0
    assert desk.made() == STUDY | {"reference_Celle.json"} | results("sub-02_ses-b_T2w")
    assert ndflow.load(desk.out / "reference.json").channel_names == ("T2w",)
    assert desk.same_model("sub-02_ses-b_T2w", "auto")
    assert run(*desk.bids("participant", *options[:-1])).code == 2  # without --mask auto


def test_a_derivative_is_a_dataset_too_and_results_may_lie_inside(run: Run, desk: Desk) -> None:
    names = ["sub-1_desc-preproc_T1w", "sub-1_space-MNI_desc-preproc_T1w", "sub-2_desc-preproc_T1w"]
    desk.raw, desk.out = desk.folder / "fmriprep", desk.folder / "fmriprep" / "derivatives"
    for number, name in enumerate(names):
        scan(desk.image(name), number)
        scan(desk.image(name.replace("preproc_T1w", "brain_mask")), number)
    (desk.raw / DESCRIPTION).write_text('{"Name": "fMRIPrep", "DatasetType": "derivative"}')
    for _ in range(2):  # the second time, there are more images in the dataset
        assert run(*desk.bids("group")).code == 0
        assert desk.made() == STUDY | results(*names)
    assert desk.same_model(names[1], desk.image("sub-1_space-MNI_desc-brain_mask"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("raw out group --participant-label 01 ../../x", "participant must be letters and digits"),
        ("raw out participant --participant-label 07", "no participant 07; there are 01, 02, 03"),
        ("raw out participant --participant-label", "participant-label"),  # $EMPTY, in a script
        ("raw out group --site-column no", "no column 'no' (its columns: participant_id, site, sc"),
        ("raw no/out group", "there is no folder"),
        ("raw/sub-01 out group", "raw/sub-01: not a BIDS dataset: there is no dataset_description"),
        ("raw raw group --force", "raw: the dataset that the scans come from"),
        ("raw raw/sub-01 participant", "raw/sub-01: the dataset that the scans come from"),
        ("raw other group --force", "describes a dataset that is not ours"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_written(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(desk.folder)
    shutil.copytree("raw", "other")
    before = snapshot(desk.folder)
    ran = run("bids", *words.split())
    assert (ran.code, ran.out, len(ran.errors)) == (2, "", 1)
    assert said in ran.errors[0]
    assert (snapshot(desk.folder), desk.out.exists()) == (before, False)


def test_a_dry_run_says_what_would_be_done_and_what_is_missing(run: Run, desk: Desk) -> None:
    desk.lose("sub-03_T1w")
    for level, action in (("participant", "fit"), ("group", "fit and write")):
        ran = run(*desk.bids(level, "--dry-run"))
        assert (ran.code, len(ran.errors)) == (1, 1)
        assert f"datalad get {desk.image('sub-03_T1w')}" in ran.errors[0]
        for name, line in zip(list(SCANS)[:-1], ran.out.splitlines(), strict=True):
            assert re.split(r"  +", line) == [name, action, "new"]
    assert not desk.out.exists()
