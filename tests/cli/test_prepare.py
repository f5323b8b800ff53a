"""``ndflow prepare`` and ``--prepare``: raw scans become a derivative, ready for a study."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import Run, in_a_process, without_workers
from deepbet_stand_in import StandIn
from phantoms import AFFINE, head, save, tissue_shares, voxels_of
from studies import SMALL, contents, read_json, read_tsv, sha256, write_tsv

PLAIN = ("--no-bias-field", "--tissues", "none")
NAMES = {  # the images, and what becomes of them
    "sub-01_ses-1_T1w.nii.gz": "sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz",
    "second scan.nii": "sub-secondscan/anat/sub-secondscan_desc-preproc_T1w.nii.gz",
    "sub-03_T1w.nii.gz": "sub-03/anat/sub-03_desc-preproc_T1w.nii.gz",
}
ANAT = "sub-03/anat/sub-03"


class Desk:
    """Three raw scans with masks, their table, and a folder for results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.table = folder, folder / "out", folder / "raw.tsv"

    def fill(self) -> None:
        rows: list[dict[str, object]] = []
        for number, name in enumerate(NAMES):
            scan = head(number, gain=1 + number, shape=SMALL)
            save(self.folder / name, scan)
            save(self.folder / f"mask{number}.nii.gz", (scan > 500).astype(np.uint8))
            row = {"subject": f"p{number}", "site": "AB"[number % 2], "image": name}
            rows.append({**row, "mask": f"mask{number}.nii.gz", "age": 30 + number})
        (lesion := np.zeros(SMALL, np.uint8))[6:8, 6:9, 5] = 1
        save(self.folder / "lesion.nii.gz", lesion)
        for tissue, share in tissue_shares(SMALL).items():
            save(self.folder / f"{tissue}.nii.gz", share.astype(np.float32))
            rows[2][tissue] = f"{tissue}.nii.gz"
        rows[2]["lesion"] = "lesion.nii.gz"
        write_tsv(self.table, rows, rows[2])

    def words(self, *options: object) -> list[object]:
        return ["prepare", self.table, self.out, *PLAIN, *options]

    def change(self, row: int, **cells: str) -> None:
        rows = read_tsv(self.table)
        rows[row] |= cells
        write_tsv(self.table, rows)


@pytest.fixture(scope="module", autouse=True)
def _alone() -> Iterator[None]:
    with without_workers():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("prepare"))
    desk.fill()
    assert in_a_process(*desk.words("-q")) == (0, "", "")
    return desk


@pytest.fixture
def desk(undisturbed: Desk, tmp_path: Path) -> Desk:
    """The scans, which may be changed, and no results."""
    for file in undisturbed.folder.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    return Desk(tmp_path)


def test_every_scan_becomes_an_image_and_a_mask_on_its_own_grid(undisturbed: Desk) -> None:
    for number, (name, output) in enumerate(NAMES.items()):
        raw, made = (nibabel.load(undisturbed.folder / one) for one in (name, f"out/{output}"))
        assert made.get_data_dtype() == np.float32
        assert np.array_equal(made.get_fdata(), raw.get_fdata())
        assert np.array_equal(made.affine, raw.affine)
        assert made.header["sform_code"] == raw.header["sform_code"]
        mask = undisturbed.out / output.replace("preproc_T1w", "brain_mask")
        given = voxels_of(undisturbed.folder / f"mask{number}.nii.gz")
        assert np.array_equal(voxels_of(mask), given)
        assert voxels_of(mask, None).dtype == np.uint8
    names = {"lesion": "lesion_mask"} | {t: f"{t.upper()}_probseg" for t in ("csf", "gm", "wm")}
    for name, ending in names.items():
        made = voxels_of(undisturbed.out / f"{ANAT}_label-{ending}.nii.gz")
        assert np.array_equal(made, voxels_of(undisturbed.folder / f"{name}.nii.gz"))


def test_tables_and_records_say_what_was_done(undisturbed: Desk) -> None:
    rows = read_tsv(undisturbed.out / "study.tsv")
    assert [row["image"] for row in rows] == [*NAMES.values()]
    known = [(row["subject"], row["site"], row["age"]) for row in rows]
    assert known == [("p0", "A", "30"), ("p1", "B", "31"), ("p2", "A", "32")]
    for row in rows:
        files = [row[name] for name in ("image", "mask", "csf", "gm", "wm", "lesion")]
        assert all((undisturbed.out / file).exists() for file in files if file != "n/a")
    assert [row["gm"] != "n/a" for row in rows] == [False, False, True]
    record = read_json(undisturbed.out / f"{ANAT}_desc-preproc_T1w.json")
    assert record["steps"] == {"mask": "given", "bias field": "left", "tissues": "given"}
    assert record["Sources"] == ["bids:raw:sub-03_T1w.nii.gz"]
    assert len(record["outputs"]) == 7
    for name, sha in record["outputs"].items():
        assert sha256((undisturbed.out / ANAT).parent / name) == sha
    assert {*record["inputs"]} == {"image", "mask", "csf", "gm", "wm", "lesion"}
    provenance = read_json(undisturbed.out / "provenance.json")
    assert (provenance["done"], provenance["failed"]) == ({"prepare": 3}, 0)


def test_missing_packages_are_named_before_any_work(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.study.prepare_step.not_installed", lambda *names: names)
    asked = {("--tissues", "none"): "SimpleITK"}
    asked["--no-bias-field", "--tissues", "find"] = "SimpleITK, nilearn and picsl_greedy"
    for options, needed in asked.items():
        ran = run("prepare", desk.table, desk.out, *options, "-q")
        assert ran.code == 2
        assert f"preparing these scans needs {needed}, not installed here; try pip" in ran.err
    desk.change(0, mask="")
    assert "needs deepbet and torch, not" in run(*desk.words()).err
    assert not desk.out.exists()


def test_a_result_that_was_changed_by_hand_is_kept_until_it_is_given_as_input(
    run: Run, desk: Desk
) -> None:
    assert run(*desk.words("-q")).code == 0
    mask = desk.out / f"{ANAT}_desc-brain_mask.nii.gz"
    better = voxels_of(mask) > 0
    better[7, 8, 6] = not better[7, 8, 6]
    save(mask, better.astype(np.uint8))
    edited = mask.read_bytes()
    for options in ((), ("--dry-run",)):
        ran = run(*desk.words("-q", *options))
        assert ran.code == 1
        assert f"{mask}: changed since ndflow wrote it" in ran.errors[0]
        assert "copy it elsewhere and name it in the table; --force" in ran.errors[0]
        assert mask.read_bytes() == edited
    shutil.copy(mask, desk.folder / "better.nii.gz")
    desk.change(2, mask="better.nii.gz")
    assert run(*desk.words("-q")) == (0, "", "")
    assert np.array_equal(voxels_of(mask) > 0, better)
    foreign = desk.out / "sub-01/ses-1/anat/sub-01_ses-1_label-lesion_mask.nii.gz"
    foreign.write_bytes(b"mine")  # where a preparation might have written, or would write now
    save(desk.folder / "mask0.nii.gz", (head(0, shape=SMALL) > 600).astype(np.uint8))
    ran = run(*desk.words("-q", "--force"))
    assert f"{foreign}: exists, and was not written by ndflow" in ran.err
    assert foreign.read_bytes() == b"mine"


def test_brains_are_found(run: Run, deepbet: StandIn, tmp_path: Path) -> None:
    save(tmp_path / "a.nii.gz", head(), AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0]))  # of a brain's size
    out = tmp_path / "out"
    words = ("prepare", tmp_path, out, *PLAIN, "--mask", "brain")
    assert run(*words).code == 0
    record = read_json(out / "sub-a/anat/sub-a_desc-preproc_T1w.json")
    assert record["steps"]["mask"] == "brain"
    assert record["versions"]["deepbet"] == "1.0.2"
    mask = nibabel.load(out / "sub-a/anat/sub-a_desc-brain_mask.nii.gz")
    assert np.array_equal(np.asarray(mask.dataobj) > 0, head() > head().max() / 2)
    assert mask.header["descrip"].item() == b"ndflow brain mask, deepbet 1.0.2"
    assert run(*words).code == 0
    assert deepbet.calls == 1


# ── as the first step of a study ──────────────────────────────────────────────────────────────────


def test_a_study_prepares_its_scans_first_and_resumes_through_both(run: Run, desk: Desk) -> None:
    out = desk.out
    words = ("cohort", desk.table, out, "--prepare", *PLAIN)
    ran = run(*words, "--dry-run")
    assert ran.out.count("prepare, fit and write  new") == 3
    assert not out.exists()
    ran = run(*words)
    assert ran.code == 0, ran.err
    assert ran.summary["prepared"].startswith("3 done (0 kept from an earlier run), 0 failed")
    assert read_json(out / "provenance.json")["done"]["prepare"] == 3
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")  # relative: the folder can be moved
        assert (out / row["mask"]).exists()
    before = contents(out)
    shown = run(*words).summary
    assert shown["prepared"] == "3 done (3 kept from an earlier run), 0 failed: nothing to do"
    assert shown["scans"] == "3 done (3 kept from an earlier run), 0 failed: nothing to do"
    assert contents(out) == before
    (out / "prepared" / "foreign.txt").write_text("x")
    assert "foreign.txt: " in run("verify", out, "-q").out
    (out / "prepared" / "foreign.txt").unlink()
    assert run("verify", out.rename(desk.folder / "moved"), "-q").code == 0


def test_failures_of_the_preparation_and_of_the_study_are_listed_together(
    run: Run, desk: Desk
) -> None:
    (desk.folder / "second scan.nii").write_bytes(b"nothing")
    save(desk.folder / "lesion.nii.gz", np.ones(SMALL, np.uint8))  # leaves nothing to fit
    desk.change(2, csf="", gm="", wm="")
    ran = run("cohort", desk.table, desk.out, "--prepare", *PLAIN)
    assert ran.code == 1
    stages = {row["scan"]: row["stage"] for row in read_tsv(desk.out / "failures.tsv")}
    assert stages == {"second scan": "prepare", "sub-03_T1w": "fit"}
    assert ran.summary["scans"] == "1 done (0 kept from an earlier run), 2 failed"
    assert len(read_tsv(desk.out / "prepared" / "study.tsv")) == 2
    assert not [*(desk.out / "prepared" / "sub-secondscan").rglob("*.*")]
    record = read_json(desk.out / "provenance.json")
    assert (record["failed"], record["done"]["normalise"]) == (2, 1)


def test_a_dataset_is_prepared_by_participants_and_then_as_a_group(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    dataset, pipe, out = tmp_path / "dataset", tmp_path / "pipe", tmp_path / "out"
    for number, name in enumerate(NAMES):
        place = f"sub-{number}/anat/sub-{number}"
        for folder in (dataset, pipe):
            (folder / place).parent.mkdir(parents=True)
        save(dataset / f"{place}_T1w.nii.gz", voxels_of(desk.folder / name))
        mask = desk.folder / f"mask{number}.nii.gz"
        shutil.copy(mask, pipe / f"{place}_desc-brain_mask.nii.gz")
    (dataset / "dataset_description.json").write_text('{"Name": "raw", "BIDSVersion": "1.10.0"}')
    steps = ("-d", pipe, "--prepare", *PLAIN)
    for labels in (("0", "1"), ("2",)):
        words = ("participant", "--participant-label", *labels, *steps)
        ran = run("bids", dataset, out, *words)
        assert ran.code == 0, ran.err
        assert ran.summary["prepared"].startswith(f"{len(labels)} done (0 kept")
    ran = run("bids", dataset, out, "group", *steps)
    assert ran.code == 0, ran.err
    assert ran.summary["prepared"].startswith("3 done (3 kept")
    listed = [row["subject"] for row in read_tsv(out / "prepared/study.tsv")]
    assert listed == ["sub-0", "sub-1", "sub-2"]
    sidecar = read_json(out / "sub-0/anat/sub-0_desc-ndflow_T1w.json")
    assert sidecar["Sources"][0] == "bids:prepared:sub-0/anat/sub-0_desc-preproc_T1w.nii.gz"
    assert read_json(out / "dataset_description.json")["DatasetLinks"]["prepared"] == "prepared"
    prepared = read_json(out / "prepared/sub-0/anat/sub-0_desc-preproc_T1w.json")
    assert prepared["Sources"] == ["bids:raw:sub-0/anat/sub-0_T1w.nii.gz"]
    assert run("verify", out, "-q").code == 0
