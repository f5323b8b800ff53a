"""``ndflow prepare``: raw scans become a derivative of BIDS, ready for a study.

What is about files, resuming and failures needs no bias field and no tissues (`PLAIN`).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run, in_the_background, typed
from phantoms import head, save, tissue_shares, voxels_of
from studies import contents, read_json, read_tsv, sha256, write_tsv

import ndflow

PLAIN = ("--no-bias-field", "--tissues", "none")
VALIDATOR = Path(sys.executable).with_name("bids-validator-deno")
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


@pytest.mark.parametrize("name", ["a.mgz", "a.hdr", "a.nii"])
def test_any_image_with_an_axis_of_length_1_and_values_that_are_missing(
    run: Run, tmp_path: Path, name: str
) -> None:
    values = head().astype(np.float32)
    values[12, 14, 10] = np.nan
    kind = {"a.mgz": nibabel.MGHImage, "a.hdr": nibabel.Nifti1Pair}.get(name, nibabel.Nifti1Image)
    shaped = values if name == "a.mgz" else values[..., np.newaxis]
    affine = np.array([[0, -2.0, 0, 20], [0, 0, 2.0, -30], [2.0, 0, 0, -10], [0, 0, 0, 1]])
    nibabel.save(kind(shaped, affine), tmp_path / name)
    words = ("-o", tmp_path / "out", *PLAIN, "--mask", "nonzero")
    ran = run("prepare", tmp_path / name, *words)
    assert ran.code == 0, ran.err
    assert "1 voxel is NaN or infinite, and was set to 0" in ran.err
    made = nibabel.load(tmp_path / "out/sub-a/anat/sub-a_desc-preproc_T1w.nii.gz")
    assert np.array_equal(made.get_fdata().squeeze(), np.nan_to_num(values))
    assert np.allclose(made.affine, affine)


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


def test_every_scan_has_a_picture(undisturbed: Desk) -> None:
    found = [path.read_bytes()[:4] for path in (undisturbed.out / "figures").glob("*.png")]
    assert found == [b"\x89PNG"] * 3


@pytest.mark.skipif(not VALIDATOR.exists(), reason=f"no {VALIDATOR.name}")
def test_the_bids_validator_finds_no_errors(undisturbed: Desk) -> None:
    done = subprocess.run(
        [VALIDATOR, "--format", "json", undisturbed.out],
        env=os.environ | {"DENO_NO_UPDATE_CHECK": "1"},
        capture_output=True,
        check=False,
    )
    issues = json.loads(done.stdout)["issues"]["issues"]
    assert [issue for issue in issues if issue["severity"] == "error"] == []


def test_a_study_and_a_derivative_begin_with_what_was_prepared(
    run: Run, undisturbed: Desk, tmp_path: Path
) -> None:
    ran = run("cohort", undisturbed.out / "study.tsv", tmp_path / "out", "-q")
    assert (ran.code, ran.out) == (0, "")
    (tmp_path / "raw/sub-03/anat").mkdir(parents=True)
    (tmp_path / "raw/dataset_description.json").write_text('{"Name": "a", "BIDSVersion": "1.10.0"}')
    shutil.copy(undisturbed.folder / "sub-03_T1w.nii.gz", tmp_path / "raw/sub-03/anat")
    words = ("group", "--derivatives", undisturbed.out, "--dry-run")
    shown = run("bids", tmp_path / "raw", tmp_path / "out2", *words).err
    assert "brain masks   1 given" in shown
    assert "tissue maps   1 of 1 scan" in shown


def test_python_does_the_same(desk: Desk) -> None:
    before = results_of(desk.out)
    shutil.rmtree(desk.out)
    summary = ndflow.prepare(desk.table, desk.out, no_bias_field=True, tissues="none")
    assert results_of(desk.out) == before
    assert (summary.done, summary.kept, summary.failures) == (3, 0, [])
    assert summary.table == desk.out / "study.tsv"
    assert summary.seconds is not None


# ── where scans come from ────────────────────────────────────────────────────────────────────────


def test_images_can_be_named_and_stripped_scans_need_no_mask(
    run: Run, undisturbed: Desk, tmp_path: Path
) -> None:
    images = [undisturbed.folder / name for name in list(NAMES)[:2]]
    ran = run("prepare", *images, "-o", tmp_path / "out", *PLAIN, "--mask", "nonzero")
    assert ran.code == 0, ran.err
    for name in list(NAMES)[:2]:
        image = tmp_path / "out" / NAMES[name]
        mask = image.with_name(image.name.replace("preproc_T1w", "brain_mask"))
        assert np.array_equal(voxels_of(mask) > 0, voxels_of(image) != 0)
    sidecar = read_json(tmp_path / "out" / NAMES[name].replace(".nii.gz", ".json"))
    assert (sidecar["steps"]["mask"], sidecar["SkullStripped"]) == ("nonzero", True)


def test_a_folder_can_be_given_instead_of_a_table(
    run: Run, undisturbed: Desk, tmp_path: Path
) -> None:
    words = ("--pattern", "sub*", "--mask", "nonzero")
    ran = run("prepare", undisturbed.folder, tmp_path / "out", *words, *PLAIN, "--dry-run")
    assert (ran.code, ran.out.count("prepare  new")) == (0, 2), ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("raw.tsv",),
        ("raw.tsv", "out", "more"),
        ("sub-03_T1w.nii.gz", "out"),
        ("raw.tsv", "-o", "out", "--pattern", "x"),
    ],
)
def test_other_arguments_are_explained(run: Run, words: tuple[str, ...]) -> None:
    ran = run("prepare", *words, *PLAIN)
    assert ran.code == 2
    assert ran.err.startswith("error: give ")


def test_a_table_is_no_image(run: Run, undisturbed: Desk, tmp_path: Path) -> None:
    ran = run("prepare", undisturbed.table, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "leave out -o: TABLE OUT" in ran.err


# ── what must be there ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "mask", "needed"),
    [
        (PLAIN, None, "deepbet and torch"),
        (("--tissues", "none"), "mask0.nii.gz", "antspyx"),
        (("--no-bias-field",), "mask0.nii.gz", "antspyx and nilearn"),
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
        "try pip install 'ndflow[prepare]'\n"
    )
    assert not (tmp_path / "out").exists()


def test_brains_are_not_looked_for_in_other_contrasts(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "sub-01_FLAIR.nii.gz", head())
    save(tmp_path / "a.nii.gz", head())
    ran = run("prepare", tmp_path / "sub-01_FLAIR.nii.gz", "-o", tmp_path / "out", "-q")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "sub-01_FLAIR.nii.gz: not a T1w image" in ran.err
    save(tmp_path / "sub-01_UNIT1.nii.gz", head())
    ran = run("prepare", tmp_path / "sub-01_UNIT1.nii.gz", "-o", tmp_path / "out", "-q")
    assert ran.code == 2
    assert "sub-01_UNIT1.nii.gz: not a T1w image by its name (UNIT1)" in ran.err
    words = ("-o", tmp_path / "out", "-q", "--channel", "T2w")
    ran = run("prepare", tmp_path / "a.nii.gz", *words)
    assert ran.code == 2
    assert "a.nii.gz: not a T1w image, but T2w" in ran.err
    ran = run("prepare", tmp_path / "a.nii.gz", *words, *PLAIN, "--mask", "nonzero", "--dry-run")
    assert ran.code == 0


def test_maps_of_some_tissues_only_are_refused(run: Run, desk: Desk) -> None:
    desk.change(2, csf="n/a")
    ran = run(*desk.words("-q"))
    assert ran.code == 2
    assert "sub-03_T1w.nii.gz: row 4: has a tissue map of gm and wm only" in ran.err
    words = ("prepare", desk.table, desk.out, "--tissues", "find", "--dry-run", "-q", "--force")
    assert run(*words).code == 0


# ── running again ────────────────────────────────────────────────────────────────────────────────


def test_an_unchanged_run_does_nothing_and_starts_no_worker(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("workers were started")

    before = times(desk.out)
    monkeypatch.setattr("ndflow.study.workers.run_in_workers", refuse)
    monkeypatch.setattr("ndflow.study.steps._ALONE", float("inf"))
    ran = run(*desk.words())
    assert lines_of(ran.out)["scans"] == (
        "3 prepared (3 kept from an earlier run), 0 failed: nothing to do"
    )
    assert "took" not in lines_of(ran.out)
    assert times(desk.out) == before
    assert run(*desk.words("--dry-run")).out.count("keep  up to date") == 3


def test_any_number_of_workers_gives_the_same_bytes(run: Run, desk: Desk) -> None:
    before = results_of(desk.out)
    shutil.rmtree(desk.out)
    assert run(*desk.words("-q", "--jobs", 2)) == (0, "", "")
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


def test_a_site_that_was_corrected_changes_no_image(run: Run, desk: Desk) -> None:
    before = times(desk.out)
    desk.change(2, site="C")
    shown = run(*desk.words("--dry-run")).out
    assert shown.count("keep  up to date") == 3
    assert "3 kept" in run(*desk.words()).out
    assert times(desk.out) == before
    assert read_tsv(desk.out / "study.tsv")[2]["site"] == "C"
    assert read_json(desk.out / "provenance.json")["sites"] == {"A": 1, "B": 1, "C": 1}
    assert ndflow.verify(desk.out).findings == ()


def test_another_version_of_a_package_that_was_used_prepares_again(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("prepare", desk.table, desk.folder / "out2", "--tissues", "none")
    assert run(*words, "-q").code == 0
    monkeypatch.setattr(
        "ndflow.study.prepare_step.versions", lambda *names: dict.fromkeys(names, "99")
    )
    assert run(*words, "--dry-run").out.count("prepare  changed: antspyx") == 3
    assert run(*desk.words("--dry-run")).out.count("keep  up to date") == 3  # it was not used


def test_a_choice_that_changes_takes_old_results_away(run: Run, desk: Desk) -> None:
    desk.change(2, gm="n/a", wm="n/a", csf="n/a", lesion="n/a")
    assert run(*desk.words("-q")).code == 0
    assert not [*desk.out.rglob("*probseg*"), *desk.out.rglob("*lesion*")]
    assert ndflow.verify(desk.out).findings == ()


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


def test_an_interrupted_run_says_how_to_resume_and_leaves_nothing_half_done(desk: Desk) -> None:
    shutil.rmtree(desk.out)
    with in_the_background(*desk.words("-q")) as child:
        while not (desk.out / "provenance.json").exists():
            assert child.poll() is None
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=60)[1]
    assert child.returncode == 130
    assert said == ("error: interrupted; run the same command again to resume where it left off\n")
    assert not [*desk.out.rglob("*.tmp"), *desk.out.rglob(".ndflow-steps")]


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def test_an_obstacle_is_named_and_once_it_is_gone_the_run_goes_on(run: Run, desk: Desk) -> None:
    place = desk.out / "sub-01/ses-1/anat"
    obstacle = place / "sub-01_ses-1_label-WM_probseg.nii.gz"
    obstacle.mkdir()
    save(desk.folder / "mask0.nii.gz", (head(0) > 600).astype(np.uint8))
    desk.change(0, csf="csf.nii.gz", gm="gm.nii.gz", wm="wm.nii.gz")
    ran = run(*desk.words("-q"))
    assert ran.code == 1
    assert f"{obstacle}: exists" in ran.err
    obstacle.rmdir()
    assert run(*desk.words("-q")) == (0, "", "")
    mask = voxels_of(place / "sub-01_ses-1_desc-brain_mask.nii.gz")
    assert np.array_equal(mask, head(0) > 600)


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


def test_if_all_fail_nothing_was_done(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.nii").write_bytes(b"nothing")
    words = ("-o", tmp_path / "out", *PLAIN, "--mask", "nonzero")
    ran = run("prepare", tmp_path / "a.nii", *words)
    assert ran.code == 2
    assert lines_of(ran.out)["table"].startswith("none")
    assert read_tsv(tmp_path / "out" / "study.tsv") == []


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


@pytest.mark.parametrize("how", ["deleted", "forced"])
def test_a_result_that_was_changed_is_made_again(run: Run, desk: Desk, how: str) -> None:
    mask = desk.out / f"{ANAT}_desc-brain_mask.nii.gz"
    before = mask.read_bytes()
    mask.write_bytes(before + b"x")
    assert run(*desk.words("-q")).code == 1
    if how == "deleted":
        mask.unlink()
    assert run(*desk.words("-q", *(["--force"] if how == "forced" else []))).code == 0
    assert mask.read_bytes() == before


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


def test_a_file_of_somebody_else_is_kept_where_a_run_was_stopped(run: Run, desk: Desk) -> None:
    for path in [*desk.out.rglob("*sub-03*")]:
        path.unlink(missing_ok=True) if path.is_file() else None
    mask = desk.out / f"{ANAT}_desc-brain_mask.nii.gz"
    mask.write_bytes(b"mine")
    ran = run(*desk.words("-q"))
    assert ran.code == 2
    assert "exists, and was not written by ndflow" in ran.err
    assert mask.read_bytes() == b"mine"


def test_scans_that_are_no_longer_listed_are_noticed(run: Run, desk: Desk) -> None:
    write_tsv(desk.table, read_tsv(desk.table)[:2])
    ran = run(*desk.words("-q"))
    assert ran.code == 2
    assert "holds 1 scan not listed in this study, such as sub-03_T1w" in ran.err
    assert run(*desk.words("-q", "--force")).code == 0
    assert len(read_tsv(desk.out / "study.tsv")) == 2
    assert (desk.out / NAMES["sub-03_T1w.nii.gz"]).exists()


def test_scans_in_the_folder_for_results_are_refused(run: Run, desk: Desk) -> None:
    ran = run("prepare", desk.table, desk.folder, *PLAIN, "-q", "--force")
    assert ran.code == 2
    assert "lies in the folder for the results" in ran.err
    ran = run("prepare", desk.out / "study.tsv", desk.out, *PLAIN, "-q")
    assert ran.code == 2


def test_verify_finds_what_has_changed(run: Run, desk: Desk) -> None:
    assert "all as they were" in run("verify", desk.out).out
    with (desk.out / f"{ANAT}_label-GM_probseg.nii.gz").open("ab") as file:
        file.write(b"x")
    save(desk.folder / "mask0.nii.gz", np.ones((2, 2, 2), np.uint8))
    (desk.out / "notes.txt").write_text("mine")
    ran = run("verify", desk.out, "-q")
    assert ran.code == 1
    assert {line.split(":")[0] + line.split(":")[-1] for line in ran.out.splitlines()} == {
        "changed not what ndflow wrote",
        "changed not what was read",
        "foreign listed in no record",
    }


def test_verify_tells_a_table_that_is_damaged(run: Run, desk: Desk) -> None:
    table = desk.out / "study.tsv"
    table.write_bytes(b"\x00\xff")
    found = run("verify", desk.out, "-q").out.splitlines()
    assert len(found) == 1
    assert "study.tsv" in found[0]


def test_a_sidecar_that_names_what_we_do_not_know_is_no_crash(run: Run, desk: Desk) -> None:
    sidecar = desk.out / f"{ANAT}_desc-preproc_T1w.json"
    record = read_json(sidecar)
    record["outputs"]["surface"] = "0" * 64
    del record["checksum"]
    sidecar.write_text(json.dumps(record), encoding="utf-8")
    assert "missing: surface" in run(*desk.words("--dry-run")).out
    assert run("verify", desk.out).code == 1
