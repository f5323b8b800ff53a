"""``--prepare`` of ``cohort`` and ``bids``, and one scan that is prepared in full.

The scans of these studies come with masks and tissue maps, so only the bias field is estimated: of
heads as small as these, in a second.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Run
from phantoms import head, save, tissue_shares, voxels_of
from studies import contents, read_json, read_tsv, write_tsv

import ndflow
from ndflow.demo.run import write_demo_study

SCANS = ("s0", "s1", "s2")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three scans with masks and tissue maps."""
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = []
    shade = np.exp(np.linspace(-0.2, 0.2, head().shape[0]))[:, np.newaxis, np.newaxis]
    for number, name in enumerate(SCANS):
        scan = head(number, gain=1 + number)
        save(raw / f"{name}.nii.gz", (scan * shade).astype(np.float32))
        save(raw / f"{name}_mask.nii.gz", (scan > 0).astype(np.uint8))
        rows.append({"image": f"{name}.nii.gz", "mask": f"{name}_mask.nii.gz", "site": "A"})
        for tissue, share in tissue_shares().items():
            save(raw / f"{tissue}.nii.gz", share.astype(np.float32))
            rows[-1][tissue] = f"{tissue}.nii.gz"
    return write_tsv(raw / "raw.tsv", rows)


@pytest.fixture
def dataset(tmp_path: Path, table: Path) -> Path:
    """The same scans as a BIDS dataset; masks and maps are beside them in ``pipe``."""
    raw = tmp_path / "dataset"
    for name in SCANS:
        (raw / f"sub-{name}/anat").mkdir(parents=True)
        shutil.copy(table.parent / f"{name}.nii.gz", raw / f"sub-{name}/anat/sub-{name}_T1w.nii.gz")
        place = tmp_path / f"pipe/sub-{name}/anat/sub-{name}"
        place.parent.mkdir(parents=True)
        shutil.copy(table.parent / f"{name}_mask.nii.gz", f"{place}_desc-brain_mask.nii.gz")
        for tissue in ("csf", "gm", "wm"):
            target = f"{place}_label-{tissue.upper()}_probseg.nii.gz"
            shutil.copy(table.parent / f"{tissue}.nii.gz", target)
    (raw / "dataset_description.json").write_text('{"Name": "raw", "BIDSVersion": "1.10.0"}')
    return raw


def labelled(out: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_a_study_prepares_its_scans_first_and_resumes_through_both(
    run: Run, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("cohort", table, out, "--prepare", "--proportions", "tissue")
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
    cited = ndflow.report(out, sample=0, viewer=0).read_text("utf-8")
    assert "by N4 (Tustison et al. 2010)" in cited
    assert "{tustison2010," in cited
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")  # relative: the folder can be moved
        assert (out / row["gm"]).exists()
    # The bias field is gone: the brightness no longer rises from one side to the other.
    ratios = []
    for path in (table.parent / "s0.nii.gz", out / read_tsv(out / "scans.tsv")[0]["image"]):
        left, right = np.array_split(voxels_of(path), 2)
        ratios.append(right[right > 0].mean() / left[left > 0].mean())
    assert abs(np.log(ratios[1])) < 0.5 * abs(np.log(ratios[0]))
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
    run: Run, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (table.parent / "s0.nii.gz").write_bytes(b"nothing")
    save(table.parent / "all.nii.gz", np.ones(head().shape, np.uint8))  # leaves nothing to fit
    rows = read_tsv(table)
    write_tsv(table, [row | {"lesion": "all.nii.gz" if row is rows[1] else ""} for row in rows])
    ran = run("cohort", table, out, "--prepare", "--no-bias-field", "--tissues", "none")
    assert ran.code == 1
    stages = {row["scan"]: row["stage"] for row in read_tsv(out / "failures.tsv")}
    assert stages == {"s0": "prepare", "s1": "fit"}
    assert labelled(ran.out)["scans"] == "1 done (0 kept from an earlier run), 2 failed"
    assert [path.name for path in (out / "images").iterdir()] == ["s2.nii.gz"]
    record = read_json(out / "provenance.json")
    assert (record["failed"], record["done"]["normalise"]) == (2, 1)


def test_scans_that_were_prepared_there_before_are_used(
    run: Run, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert run("prepare", table, out / "prepared", "-q").code == 0
    ran = run("cohort", table, out, "--prepare")
    assert ran.code == 0, ran.err
    assert labelled(ran.out)["prepared"].startswith("3 done (3 kept")
    mask = out / "prepared/sub-s0/anat/sub-s0_desc-brain_mask.nii.gz"
    mask.write_bytes(mask.read_bytes() + b"x")  # changed by hand
    edited = mask.read_bytes()
    ran = run("cohort", table, out, "--prepare", "-q")
    assert ran.code == 1
    assert "changed since ndflow wrote it" in ran.err
    assert mask.read_bytes() == edited


def test_python_prepares_too(table: Path, tmp_path: Path) -> None:
    summary = ndflow.cohort(table, tmp_path / "out", prepare=True, report=False)
    assert (summary.done, summary.failures) == (3, [])
    assert summary.prepared is not None
    assert summary.prepared.done == 3
    with pytest.raises(ndflow.InvalidValueError, match="--mask auto"):
        ndflow.cohort(table, tmp_path / "out2", prepare=True, mask="auto")


def test_raw_scans_in_the_folder_of_the_study_are_refused(
    run: Run, table: Path, tmp_path: Path
) -> None:
    ran = run("cohort", table, table.parent, "--prepare", "--force", "-q")
    assert ran.code == 2
    assert "lies in the folder for the results" in ran.err


def test_a_dataset_is_prepared_by_participants_and_then_as_a_group(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    some = ("--participant-label", *SCANS[:2], "-d", tmp_path / "pipe", "--prepare")
    ran = run("bids", dataset, out, "participant", *some)
    assert ran.code == 0, ran.err
    assert labelled(ran.out)["prepared"].startswith("2 done (0 kept")
    assert "level group" in labelled(ran.out)["next"]
    one = ("--participant-label", SCANS[2], "-d", tmp_path / "pipe", "--prepare")
    assert run("bids", dataset, out, "participant", *one, "-q").code == 0
    listed = read_tsv(out / "prepared/study.tsv")
    assert [row["subject"] for row in listed] == [f"sub-{name}" for name in SCANS]
    assert len(read_tsv(out / "prepared/preparation.tsv")) == 3
    record = read_json(out / "prepared/provenance.json")
    assert (record["scans"], record["failed"], record["finished"]) == (3, 0, True)
    ran = run("bids", dataset, out, "group", "-d", tmp_path / "pipe", "--prepare")
    assert ran.code == 0, ran.err
    assert labelled(ran.out)["prepared"].startswith("3 done (3 kept")
    sidecar = read_json(out / "sub-s0/anat/sub-s0_desc-ndflow_T1w.json")
    assert sidecar["Sources"][0] == "bids:prepared:sub-s0/anat/sub-s0_desc-preproc_T1w.nii.gz"
    links = json.loads((out / "dataset_description.json").read_text())["DatasetLinks"]
    assert links["prepared"] == "prepared"
    prepared = read_json(out / "prepared/sub-s0/anat/sub-s0_desc-preproc_T1w.json")
    assert prepared["Sources"] == ["bids:raw:sub-s0/anat/sub-s0_T1w.nii.gz"]
    assert run("verify", out, "-q").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mask", "auto"), "--prepare finds brain masks, and --mask auto the foreground"),
    ],
)
def test_what_cannot_be_prepared_is_refused_by_name(
    run: Run, dataset: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = run("bids", dataset, tmp_path / "out", "group", "--prepare", *words)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize("command", ["cohort", "bids"])
@pytest.mark.parametrize("option", ["--no-bias-field", "--tissues none"])
def test_choices_about_the_preparation_need_one(
    run: Run, table: Path, dataset: Path, tmp_path: Path, command: str, option: str
) -> None:
    source, level = (table, ()) if command == "cohort" else (dataset, ("group",))
    ran = run(command, source, tmp_path / "out", *level, *option.split())
    assert ran.code == 2
    assert f"error: {option} is about --prepare" in ran.err


def test_steps_of_the_preparation_can_be_left_out_of_a_study(
    run: Run, table: Path, tmp_path: Path
) -> None:
    bare = write_tsv(table.parent / "bare.tsv", read_tsv(table), ["image"])
    out = tmp_path / "out"
    steps = ("--mask", "nonzero", "--no-bias-field", "--tissues", "none")
    ran = run("cohort", bare, out, "--prepare", *steps)
    assert ran.code == 0, ran.err
    record = read_json(out / "prepared/sub-s0/anat/sub-s0_desc-preproc_T1w.json")
    assert record["steps"] == {"mask": "nonzero", "bias field": "left", "tissues": "none"}
    page = ndflow.report(out, sample=0, viewer=0).read_text("utf-8")
    assert "Before, scans were prepared" not in page


@pytest.mark.parametrize(
    ("words", "stripped"),
    [
        ((), [False, False]),
        (("--mask", "nonzero"), [True, True]),
    ],
)
def test_that_a_dataset_is_skull_stripped_is_said_of_both_images(
    run: Run, dataset: Path, tmp_path: Path, words: tuple[str, ...], stripped: list[bool]
) -> None:
    out = tmp_path / "out"
    masks = () if "--mask" in words else ("-d", tmp_path / "pipe")
    steps = ("--prepare", "--no-bias-field", "--tissues", "none", "--no-report")
    ran = run("bids", dataset, out, "group", *steps, *masks, *words)
    assert ran.code == 0, ran.err
    images = ("prepared/sub-s0/anat/sub-s0_desc-preproc", "sub-s0/anat/sub-s0_desc-ndflow")
    assert [read_json(out / f"{name}_T1w.json")["SkullStripped"] for name in images] == stripped


def test_a_scan_is_prepared_in_full(run: Run, tmp_path: Path) -> None:
    study = write_demo_study(tmp_path, resolution=4.0, subjects=1)
    row = read_tsv(study.table)[0]
    raw = write_tsv(tmp_path / "raw.tsv", [row], ["image", "mask"])
    ran = run("prepare", raw, tmp_path / "out")
    assert ran.code == 0, ran.err
    (known,) = read_tsv(tmp_path / "out/study.tsv")
    brain = voxels_of(tmp_path / row["mask"]) > 0
    total = np.zeros(brain.shape)
    for tissue, least in {"csf": 0.6, "gm": 0.8, "wm": 0.8}.items():
        found, truth = (
            voxels_of(tmp_path / "out" / known[tissue]),
            voxels_of(tmp_path / row[tissue]),
        )
        dice = 2 * np.minimum(found, truth).sum() / (found + truth).sum()
        assert dice > least, tissue
        total += found
    assert total.max() <= 1
    assert total[brain].min() > 0.99
    assert not total[~brain].any()
    (measured,) = read_tsv(tmp_path / "out/preparation.tsv")
    assert float(measured["overlap"]) > 0.9
    assert float(measured["field_min"]) < 1 < float(measured["field_max"])
    seconds = read_json(tmp_path / "out" / known["image"].replace(".nii.gz", ".json"))["seconds"]
    assert {*seconds} == {"read", "bias field", "template", "tissues", "write"}
