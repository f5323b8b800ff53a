"""``ndflow prepare`` and ``--prepare``: raw scans become a derivative, ready for a study."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run, in_the_background, typed, without_workers
from deepbet_stand_in import StandIn
from phantoms import AFFINE, head, save, tissue_shares, voxels_of
from studies import contents, read_json, read_tsv, sha256, write_tsv

import ndflow

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
        self.folder.mkdir()
        rows: list[dict[str, object]] = []
        for number, name in enumerate(NAMES):
            scan = head(number, gain=1 + number)
            save(self.folder / name, scan)
            save(self.folder / f"mask{number}.nii.gz", (scan > 500).astype(np.uint8))
            row = {"subject": f"p{number}", "site": "AB"[number % 2], "image": name}
            rows.append({**row, "mask": f"mask{number}.nii.gz", "age": 30 + number})
        lesion = np.zeros(head().shape, np.uint8)
        lesion[10:12, 12:15, 9] = 1
        save(self.folder / "lesion.nii.gz", lesion)
        for tissue, share in tissue_shares().items():
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
    desk = Desk(tmp_path_factory.mktemp("prepare") / "desk")
    desk.fill()
    typed(*desk.words("-q"))
    return desk


@pytest.fixture
def desk(undisturbed: Desk) -> Iterator[Desk]:
    """The desk with its results; restored after the test, since sidecars name the scans."""
    safe = undisturbed.folder.with_name("safe")
    shutil.copytree(undisturbed.folder, safe)
    yield Desk(undisturbed.folder)
    shutil.rmtree(undisturbed.folder)
    safe.rename(undisturbed.folder)


def results_of(out: Path) -> dict[str, Any]:
    """Return the content of all files, without what differs between runs: time."""
    found: dict[str, Any] = contents(out)
    for name in [name for name in found if name.endswith(".json")]:
        record = json.loads(found[name])
        found[name] = {
            key: part
            for key, part in record.items()
            if key not in ("seconds", "checksum", "command")
            and not (key == "outputs" and name == "provenance.json")
        }
    measured = read_tsv(out / "preparation.tsv")
    for row in measured:
        del row["seconds"]
    return found | {"preparation.tsv": measured}


def lines_of(out: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def times(out: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.glob("sub-*/**/*.nii.gz")}


# ── what is written ──────────────────────────────────────────────────────────────────────────────


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


def test_maps_and_lesions_that_were_given_are_kept_as_they_are(undisturbed: Desk) -> None:
    for tissue in ("csf", "gm", "wm"):
        made = voxels_of(undisturbed.out / f"{ANAT}_label-{tissue.upper()}_probseg.nii.gz")
        assert np.array_equal(made, voxels_of(undisturbed.folder / f"{tissue}.nii.gz"))
    lesion = voxels_of(undisturbed.out / f"{ANAT}_label-lesion_mask.nii.gz")
    assert np.array_equal(lesion, voxels_of(undisturbed.folder / "lesion.nii.gz"))


def test_the_table_has_the_rows_of_the_user_with_the_prepared_files(undisturbed: Desk) -> None:
    rows = read_tsv(undisturbed.out / "study.tsv")
    assert [row["image"] for row in rows] == [*NAMES.values()]
    known = [(row["subject"], row["site"], row["age"]) for row in rows]
    assert known == [("p0", "A", "30"), ("p1", "B", "31"), ("p2", "A", "32")]
    for row in rows:
        files = [row[name] for name in ("image", "mask", "csf", "gm", "wm", "lesion")]
        assert all((undisturbed.out / file).exists() for file in files if file != "n/a")
    assert [row["gm"] != "n/a" for row in rows] == [False, False, True]


def test_what_was_done_and_measured_is_recorded(undisturbed: Desk) -> None:
    record = read_json(undisturbed.out / f"{ANAT}_desc-preproc_T1w.json")
    assert record["steps"] == {"mask": "given", "bias field": "left", "tissues": "given"}
    assert record["Sources"] == ["bids:raw:sub-03_T1w.nii.gz"]
    assert len(record["outputs"]) == 7
    for name, sha in record["outputs"].items():
        assert sha256((undisturbed.out / ANAT).parent / name) == sha
    assert {*record["inputs"]} == {"image", "mask", "csf", "gm", "wm", "lesion"}
    assert {*record["seconds"]} >= {"read", "write"}
    assert record["versions"]["ndflow"] == ndflow.__version__
    row = read_tsv(undisturbed.out / "preparation.tsv")[2]
    inside = voxels_of(undisturbed.folder / "mask2.nii.gz") > 0
    assert float(row["brain_ml"]) == pytest.approx(inside.sum() * 8 / 1000, abs=0.06)
    share = voxels_of(undisturbed.folder / "gm.nii.gz")[inside].sum()
    assert float(row["gm_ml"]) == pytest.approx(share * 8 / 1000, abs=0.06)
    provenance = read_json(undisturbed.out / "provenance.json")
    assert (provenance["done"], provenance["failed"]) == ({"prepare": 3}, 0)


# ── where scans come from ────────────────────────────────────────────────────────────────────────


# ── what must be there ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "mask", "needed"),
    [
        (PLAIN, None, "deepbet and torch"),
        (("--tissues", "none"), "mask0.nii.gz", "SimpleITK"),
        (("--no-bias-field",), "mask0.nii.gz", "SimpleITK, nilearn and picsl_greedy"),
    ],
)
def test_missing_packages_are_named_before_any_work(
    run: Run,
    undisturbed: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    mask: str | None,
    needed: str,
) -> None:
    monkeypatch.setattr("ndflow.study.prepare_step.find_spec", lambda _: None)
    row = {"image": undisturbed.folder / "sub-03_T1w.nii.gz"}
    if mask:
        row["mask"] = undisturbed.folder / mask
    table = write_tsv(tmp_path / "raw.tsv", [row])
    ran = run("prepare", table, tmp_path / "out", *options, "-q")
    assert ran.code == 2
    assert ran.err == (
        f"error: preparing these scans needs {needed}, not installed here; "
        "try pip install '.[prepare]' in a clone of ndflow\n"
    )
    assert not (tmp_path / "out").exists()


# ── running again ────────────────────────────────────────────────────────────────────────────────


def test_workers_give_the_same_bytes(process: Run, desk: Desk) -> None:
    before = results_of(desk.out)
    shutil.rmtree(desk.out)
    assert process(*desk.words("-q", "--jobs", 2)) == (0, "", "")
    assert results_of(desk.out) == before


def test_only_what_has_changed_is_prepared_again(run: Run, desk: Desk) -> None:
    before = times(desk.out)
    scan = head(2)
    save(desk.folder / "mask2.nii.gz", (scan > 600).astype(np.uint8))
    shown = run(*desk.words("--dry-run")).out.splitlines()
    assert [line.split(maxsplit=2)[1:] for line in shown] == [
        ["keep", "up to date"],
        ["scan", "keep     up to date"],
        ["prepare", "changed: mask"],
    ]
    ran = run(*desk.words())
    assert lines_of(ran.out)["scans"] == "3 prepared (2 kept from an earlier run), 0 failed"
    changed = {path for path, time in times(desk.out).items() if before[path] != time}
    assert changed
    assert all("sub-03" in path for path in changed)


def test_a_run_that_was_killed_goes_on(run: Run, desk: Desk) -> None:
    before = results_of(desk.out)
    shutil.rmtree(desk.out)
    with in_the_background(*desk.words("-q")) as child:
        while not (desk.out / NAMES["sub-01_ses-1_T1w.nii.gz"]).exists():
            assert child.poll() is None
            time.sleep(0.001)
        child.kill()
    ran = run(*desk.words())
    assert "3 prepared" in ran.out
    assert "(0 kept" not in ran.out
    assert results_of(desk.out) == before


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def test_a_broken_scan_is_named_and_the_others_go_on(run: Run, desk: Desk) -> None:
    whole = (desk.folder / "second scan.nii").read_bytes()
    (desk.folder / "second scan.nii").write_bytes(whole[:2000])
    ran = run(*desk.words())
    assert ran.code == 1
    assert "second scan.nii" in ran.errors[0]
    assert "row 3" in ran.errors[0]
    shown = lines_of(ran.out)
    assert shown["scans"] == "2 prepared (2 kept from an earlier run), 1 failed"
    assert shown["table"].endswith("study.tsv, without the scans that failed")
    (failure,) = read_tsv(desk.out / "failures.tsv")
    assert (failure["scan"], failure["stage"]) == ("second scan", "prepare")
    assert [row["subject"] for row in read_tsv(desk.out / "study.tsv")] == ["p0", "p2"]
    assert not [*(desk.out / "sub-secondscan").rglob("*.*")]
    (desk.folder / "second scan.nii").write_bytes(whole)
    assert run(*desk.words("-q")).code == 0
    assert not (desk.out / "failures.tsv").exists()
    assert len(read_tsv(desk.out / "study.tsv")) == 3


# ── what is not ours ─────────────────────────────────────────────────────────────────────────────


def test_a_result_that_was_changed_by_hand_is_kept_until_it_is_given_as_input(
    run: Run, desk: Desk
) -> None:
    mask = desk.out / f"{ANAT}_desc-brain_mask.nii.gz"
    better = voxels_of(mask) > 0
    better[12, 14, 10] = not better[12, 14, 10]
    save(mask, better.astype(np.uint8))
    edited = mask.read_bytes()
    for options in ((), ("--dry-run",)):
        ran = run(*desk.words("-q", *options))
        assert ran.code == 1
        assert f"{mask}: changed since ndflow wrote it" in ran.errors[0]
        assert "named in the table" in ran.errors[0]
        assert mask.read_bytes() == edited
    shutil.copy(mask, desk.folder / "better.nii.gz")
    desk.change(2, mask="better.nii.gz")
    assert run(*desk.words("-q")) == (0, "", "")
    assert np.array_equal(voxels_of(mask) > 0, better)


@pytest.mark.parametrize("end", ["label-lesion_mask.nii.gz", "label-GM_probseg.nii.gz"])
def test_a_file_of_others_beside_results_is_never_removed(run: Run, desk: Desk, end: str) -> None:
    """Neither where a preparation might have written it, nor where it would write it now."""
    foreign = desk.out / f"sub-01/ses-1/anat/sub-01_ses-1_{end}"
    foreign.write_bytes(b"mine")
    save(desk.folder / "mask0.nii.gz", (head(0) > 600).astype(np.uint8))
    for options in ((), ("--force",)):
        ran = run(*desk.words("-q", *options))
        assert ran.code in (1, 2)
        assert f"{foreign}: exists, and was not written by ndflow" in ran.err
        assert foreign.read_bytes() == b"mine"


def test_a_folder_of_others_is_refused_and_their_files_are_never_replaced(
    run: Run, desk: Desk
) -> None:
    shutil.rmtree(desk.out)
    foreign = desk.out / f"{ANAT}_desc-brain_mask.nii.gz"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"mine")
    ran = run(*desk.words("-q"))
    assert ran.code == 2
    assert "not empty, and not the result" in ran.err
    ran = run(*desk.words("-q", "--force"))
    assert ran.code == 2
    assert "exists, and was not written by ndflow" in ran.err
    assert foreign.read_bytes() == b"mine"


def test_verify_finds_what_has_changed(run: Run, desk: Desk) -> None:
    assert "all as they were" in run("verify", desk.out).out
    with (desk.out / f"{ANAT}_label-GM_probseg.nii.gz").open("ab") as file:
        file.write(b"x")
    save(desk.folder / "mask0.nii.gz", np.ones((2, 2, 2), np.uint8))
    (desk.out / "notes.txt").write_text("mine")
    ran = run("verify", desk.out, "-q")
    assert ran.code == 1
    assert {line.split(":")[0] + line.split(":")[-1] for line in ran.out.splitlines()} == {
        "changed checksums differ: not what ndflow wrote",
        "changed checksums differ: not what was read",
        "foreign listed in no record",
    }


LARGE = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # a phantom as large as a brain
MADE = "sub-a/anat/sub-a_desc-preproc_T1w"


def one_scan(folder: Path, *, times: float = 1, affine: Any = AFFINE, lesion: Any = None) -> Path:
    """Write a scan with tissue maps in these units, and the table that names them."""
    save(folder / "a.nii.gz", head(), affine)
    save(folder / "mask.nii.gz", (head() > 0).astype(np.uint8), affine)
    row = {"image": "a.nii.gz", "mask": "mask.nii.gz"}
    for tissue, share in tissue_shares().items():
        save(folder / f"{tissue}.nii.gz", (share * times).astype(np.float32), affine)
        row[tissue] = f"{tissue}.nii.gz"
    if lesion is not None:
        save(folder / "lesion.nii.gz", lesion.astype(np.uint8), affine)
        row["lesion"] = "lesion.nii.gz"
    return write_tsv(folder / "raw.tsv", [row])


def measured(out: Path) -> list[float]:
    (row,) = read_tsv(out / "preparation.tsv")
    return [float(row[name]) for name in ("csf_ml", "gm_ml", "wm_ml")]


def amounts(voxel: float, where: Any = True) -> list[float]:
    """Return the volumes of the phantom's tissues in millilitres, for voxels of a size in mm³."""
    inside = (head() > 0) & where
    shares = tissue_shares()
    return [shares[one][inside].sum() * voxel / 1000 for one in ("csf", "gm", "wm")]


def test_a_lesion_counts_for_no_tissue(run: Run, tmp_path: Path) -> None:
    lesion = np.zeros(head().shape, bool)
    lesion[:12] = True
    out = tmp_path / "out"
    assert run("prepare", one_scan(tmp_path, lesion=lesion), out, *PLAIN).code == 0
    assert measured(out) == pytest.approx(amounts(8.0, ~lesion), abs=0.06)


def test_brains_are_found(run: Run, deepbet: StandIn, tmp_path: Path) -> None:
    save(tmp_path / "a.nii.gz", head(), LARGE)
    out = tmp_path / "out"
    words = ("prepare", tmp_path / "a.nii.gz", "-o", out, *PLAIN, "--mask", "brain")
    assert run(*words).code == 0
    record = read_json(out / f"{MADE}.json")
    assert record["steps"]["mask"] == "brain"
    assert record["versions"]["deepbet"] == "1.0.2"
    mask = nibabel.load(out / "sub-a/anat/sub-a_desc-brain_mask.nii.gz")
    values = head()
    assert np.array_equal(np.asarray(mask.dataobj) > 0, values > values.max() / 2)
    assert mask.header["descrip"].item() == b"ndflow brain mask, deepbet 1.0.2"
    assert run(*words).code == 0
    assert deepbet.calls == 1


SCANS = ("s0", "s1", "s2")


@pytest.fixture
def raw_table(tmp_path: Path) -> Path:
    """A raw_table of three scans with masks and tissue maps."""
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = []
    for number, name in enumerate(SCANS):
        scan = head(number, gain=1 + number)
        save(raw / f"{name}.nii.gz", scan)
        save(raw / f"{name}_mask.nii.gz", (scan > 0).astype(np.uint8))
        rows.append({"image": f"{name}.nii.gz", "mask": f"{name}_mask.nii.gz", "site": "A"})
        for tissue, share in tissue_shares().items():
            save(raw / f"{tissue}.nii.gz", share.astype(np.float32))
            rows[-1][tissue] = f"{tissue}.nii.gz"
    return write_tsv(raw / "raw.tsv", rows)


@pytest.fixture
def dataset(tmp_path: Path, raw_table: Path) -> Path:
    """The same scans as a BIDS dataset; masks and maps are beside them in ``pipe``."""
    raw = tmp_path / "dataset"
    for name in SCANS:
        (raw / f"sub-{name}/anat").mkdir(parents=True)
        shutil.copy(
            raw_table.parent / f"{name}.nii.gz", raw / f"sub-{name}/anat/sub-{name}_T1w.nii.gz"
        )
        place = tmp_path / f"pipe/sub-{name}/anat/sub-{name}"
        place.parent.mkdir(parents=True)
        shutil.copy(raw_table.parent / f"{name}_mask.nii.gz", f"{place}_desc-brain_mask.nii.gz")
        for tissue in ("csf", "gm", "wm"):
            target = f"{place}_label-{tissue.upper()}_probseg.nii.gz"
            shutil.copy(raw_table.parent / f"{tissue}.nii.gz", target)
    (raw / "dataset_description.json").write_text('{"Name": "raw", "BIDSVersion": "1.10.0"}')
    return raw


def labelled(out: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_a_study_prepares_its_scans_first_and_resumes_through_both(
    run: Run, raw_table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("cohort", raw_table, out, "--prepare", "--no-bias-field", "--proportions", "tissue")
    ran = run(*words, "--dry-run")
    assert ran.out.count("prepare, fit and write  new") == 3
    assert not out.exists()
    ran = run(*words)
    assert ran.code == 0, ran.err
    shown = labelled(ran.out)
    assert shown["prepared"].startswith("3 done (0 kept from an earlier run), 0 failed; ")
    assert shown["prepared"].endswith(" s per scan")
    assert shown["scans"] == "3 done (0 kept from an earlier run), 0 failed"
    assert read_json(out / "provenance.json")["done"]["prepare"] == 3
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")  # relative: the folder can be moved
        assert (out / row["gm"]).exists()
    before = contents(out)
    ran = run(*words)
    shown = labelled(ran.out)
    assert shown["prepared"] == "3 done (3 kept from an earlier run), 0 failed: nothing to do"
    assert shown["scans"] == "3 done (3 kept from an earlier run), 0 failed: nothing to do"
    assert contents(out) == before
    assert run("verify", out, "-q").code == 0
    (out / "prepared" / "foreign.txt").write_text("x")
    assert "foreign.txt: " in run("verify", out, "-q").out
    (out / "prepared" / "foreign.txt").unlink()
    assert run("verify", out.rename(tmp_path / "moved"), "-q").code == 0


def test_failures_of_the_preparation_and_of_the_study_are_listed_together(
    run: Run, raw_table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (raw_table.parent / "s0.nii.gz").write_bytes(b"nothing")
    save(raw_table.parent / "all.nii.gz", np.ones(head().shape, np.uint8))  # leaves nothing to fit
    rows = read_tsv(raw_table)
    write_tsv(raw_table, [row | {"lesion": "all.nii.gz" if row is rows[1] else ""} for row in rows])
    ran = run("cohort", raw_table, out, "--prepare", "--no-bias-field", "--tissues", "none")
    assert ran.code == 1
    stages = {row["scan"]: row["stage"] for row in read_tsv(out / "failures.tsv")}
    assert stages == {"s0": "prepare", "s1": "fit"}
    assert labelled(ran.out)["scans"] == "1 done (0 kept from an earlier run), 2 failed"
    assert [path.name for path in (out / "images").iterdir()] == ["s2.nii.gz"]
    record = read_json(out / "provenance.json")
    assert (record["failed"], record["done"]["normalise"]) == (2, 1)


def test_a_dataset_is_prepared_by_participants_and_then_as_a_group(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    steps = ("--prepare", "--no-bias-field")
    some = ("--participant-label", *SCANS[:2], "-d", tmp_path / "pipe", *steps)
    ran = run("bids", dataset, out, "participant", *some)
    assert ran.code == 0, ran.err
    assert labelled(ran.out)["prepared"].startswith("2 done (0 kept")
    assert "level group" in labelled(ran.out)["next"]
    one = ("--participant-label", SCANS[2], "-d", tmp_path / "pipe", *steps)
    assert run("bids", dataset, out, "participant", *one, "-q").code == 0
    listed = read_tsv(out / "prepared/study.tsv")
    assert [row["subject"] for row in listed] == [f"sub-{name}" for name in SCANS]
    assert len(read_tsv(out / "prepared/preparation.tsv")) == 3
    record = read_json(out / "prepared/provenance.json")
    assert (record["scans"], record["failed"], record["finished"]) == (3, 0, True)
    ran = run("bids", dataset, out, "group", "-d", tmp_path / "pipe", *steps)
    assert ran.code == 0, ran.err
    assert labelled(ran.out)["prepared"].startswith("3 done (3 kept")
    sidecar = read_json(out / "sub-s0/anat/sub-s0_desc-ndflow_T1w.json")
    assert sidecar["Sources"][0] == "bids:prepared:sub-s0/anat/sub-s0_desc-preproc_T1w.nii.gz"
    links = json.loads((out / "dataset_description.json").read_text())["DatasetLinks"]
    assert links["prepared"] == "prepared"
    prepared = read_json(out / "prepared/sub-s0/anat/sub-s0_desc-preproc_T1w.json")
    assert prepared["Sources"] == ["bids:raw:sub-s0/anat/sub-s0_T1w.nii.gz"]
    assert run("verify", out, "-q").code == 0
