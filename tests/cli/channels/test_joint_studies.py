"""``ndflow cohort --channels T1w FLAIR --joint`` and ``ndflow bids --joint``."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import NAMES, channels, save_channels, words
from commands import Run, typed
from phantoms import SHAPE, save, voxels_of
from studies import contents, read_json, read_tsv, write_tsv

GAINS = {1: (1.3, 0.7), 2: (0.8, 1.1)}
JOINT = ("--channels", *NAMES, "--joint")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two subjects; a lesion in the second, which is very bright in one channel."""
    folder = tmp_path_factory.mktemp("joint")
    rows = []
    for seed, gains in GAINS.items():
        files = save_channels(folder, seed, gains=gains)
        rows.append({"subject": f"s{seed}", **{name: file.name for name, file in files.items()}})
    ill = np.zeros(SHAPE, np.uint8)
    ill[10:14, 10:14, 8:12] = 1
    save(folder / "lesion.nii.gz", ill)
    flair = voxels_of(folder / "2_FLAIR.nii.gz")
    flair[ill == 1] = 5000
    save(folder / "2_FLAIR.nii.gz", flair.astype(np.float32))
    rows[0]["lesion"], rows[1]["lesion"] = "n/a", "lesion.nii.gz"
    return write_tsv(folder / "study.tsv", rows)


@pytest.fixture(scope="module")
def out(table: Path) -> Path:
    place = table.parent / "out"
    typed("cohort", table, place, *JOINT, "--jobs", 2, "-q")
    return place


def test_results_are_those_of_the_commands_for_one_subject(table: Path, out: Path) -> None:
    folder = table.parent
    models = []
    for seed in GAINS:
        files = {name: folder / f"{seed}_{name}.nii.gz" for name in NAMES}
        models.append(folder / f"s{seed}.json")
        lesion = ("--exclude", folder / "lesion.nii.gz") if seed == 2 else ()
        typed("fit", *words(files), "--joint", *lesion, "-o", models[-1], "-q")
    typed("reference", *models, "-o", folder / "reference.json", "-q")
    own, made = (read_json(path / "reference.json")["reference"] for path in (folder, out))
    assert made["mixture"] == own["mixture"]
    assert made["channel_names"] == list(NAMES)
    files = {name: folder / f"2_{name}.nii.gz" for name in NAMES}
    target = ("--to", folder / "reference.json", "--exclude", folder / "lesion.nii.gz")
    typed("normalise", *words(files), "--joint", *target, "-o", folder / "alone", "-q")
    for name in NAMES:
        alone = folder / "alone" / f"2_{name}.nii.gz"
        assert (out / "images" / alone.name).read_bytes() == alone.read_bytes()


def test_records_know_the_channels(out: Path) -> None:
    record = read_json(out / "provenance.json")
    assert (record["channels"], record["finished"]) == (list(NAMES), True)
    rows = read_tsv(out / "scans.tsv")
    assert [row["channel"] for row in rows] == [*NAMES, *NAMES]
    assert [row["subject"] for row in rows] == ["s1", "s1", "s2", "s2"]
    for row in rows:
        sidecar = read_json(out / row["sidecar"])
        assert (sidecar["channel"], sidecar["channel_names"]) == (row["channel"], list(NAMES))
        assert (out / row["output"]).exists()
    assert {path.stem for path in (out / "models").iterdir()} == {"s1", "s2"}


def test_a_second_run_has_nothing_to_do(run: Run, table: Path, out: Path) -> None:
    before = contents(out / "images") | contents(out / "maps")
    ran = run("cohort", table, out, *JOINT)
    assert ran.code == 0
    assert "2 done (2 kept from an earlier run), 0 failed: nothing to do" in ran.out
    assert contents(out / "images") | contents(out / "maps") == before
    ran = run("cohort", table, out, *JOINT, "--dry-run")
    assert ran.out.count("keep") == 2


def test_a_subject_that_fails_is_left_out(run: Run, table: Path, tmp_path: Path, out: Path) -> None:
    odd = save(tmp_path / "odd.nii.gz", np.ones((5, 6, 7), np.int16))
    rows = read_tsv(table)
    rows.append({"subject": "s3", "T1w": str(odd), "FLAIR": "3.nii.gz", "lesion": "n/a"})
    save(table.parent / "3.nii.gz", channels(3)["FLAIR"])
    odd_table = write_tsv(table.with_name("odd.tsv"), rows)
    given = ("--reference", out / "reference.json")
    ran = run("cohort", odd_table, tmp_path / "out", *JOINT, *given)
    assert ran.code == 1
    (failed,) = read_tsv(tmp_path / "out" / "failures.tsv")
    assert failed["scan"] == "s3"
    assert "24 × 28 × 20 voxels, but" in failed["cause"]
    image = Path("images/1_FLAIR.nii.gz")
    assert (tmp_path / "out" / image).read_bytes() == (out / image).read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--mode", "site"), "--joint with --mode: "),
        (("--set", "average=quantile"), "--joint with --set average: "),
        (("--balance", "age"), "--joint with --balance: "),
        (("--proportions", "tissue"), "--joint with --proportions: "),
        (("--method", "nyul"), "--joint with --method nyul"),
        (("--reference", "builtin:T1w"), "a reference of T1w, not of T1w and FLAIR"),
    ],
)
def test_refused(run: Run, table: Path, tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    ran = run("cohort", table, tmp_path / "out", *JOINT, *given)
    assert ran.code == 2
    assert said in ran.errors[0]
    assert not (tmp_path / "out").exists()


def test_folders_and_files_of_others_are_refused(
    run: Run, table: Path, out: Path, tmp_path: Path
) -> None:
    ran = run("cohort", table, out, "--channels", "FLAIR", "T1w", "--joint")
    assert "holds a study of 'T1w+FLAIR', not of 'FLAIR+T1w'" in ran.errors[0]
    ran = run("cohort", table, out, "--channels", *NAMES)
    assert "holds a study" in ran.errors[0]
    ran = run("cohort", table, tmp_path / "x", "--joint")
    assert "--joint: name the channels" in ran.errors[0]
    ran = run("cohort", table, tmp_path / "x", *JOINT, "--reference", out / "models" / "s1.json")
    assert "a mixture, not a reference" in ran.errors[0]


def test_verify_finds_what_became_of_its_files(
    run: Run, table: Path, out: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(table.parent, folder)
    study = folder / "out"
    assert run("verify", out).code == 0
    assert "of 2 scans, all as they were" in run("verify", out).out

    def found(problem: str, path: Path) -> bool:
        ran = run("verify", study)
        words = f"{ran.out}{''.join(ran.errors)}"
        return ran.code == 1 and problem in words and path.name in words

    image = study / "images" / "1_T1w.nii.gz"
    kept = image.read_bytes()
    image.write_bytes(kept + b"x")
    assert found("changed", image)
    image.unlink()
    assert found("missing", image)
    image.write_bytes(kept)
    stranger = study / "models" / "stranger.txt"
    stranger.write_text("?")
    assert found("foreign", stranger)
    stranger.unlink()
    model = study / "models" / "s2.json"
    density = model.read_bytes()
    model.unlink()
    assert found("missing", model)
    model.write_bytes((study / "models" / "s1.json").read_bytes())
    assert run("verify", study).code == 1
    model.write_bytes(density)
    sidecar = study / "maps" / "2_FLAIR.json"
    sidecar.write_bytes(sidecar.read_bytes().replace(b'"channel": "FLAIR"', b'"channel": "T1w"'))
    assert found("changed", sidecar)


def test_the_page_shows_every_image(
    run: Run, table: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    assert run("report", out, "--title", "Together").code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>Together</h1>" in page
    assert "T1w and FLAIR of 2 subjects were normalised together, none failed" in page
    assert "Joint densities of s1, before and after" in page
    for row in read_tsv(out / "scans.tsv"):
        assert row["name"] in page


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Participants 1 and 2 with both channels, 2 twice; 3 without FLAIR."""
    root = tmp_path / "raw"
    for name in ("1_acq-a_T1w", "1_FLAIR", "2_run-1_T1w", "2_run-1_FLAIR", "2_run-2_T1w", "3_T1w"):
        path = root / f"sub-{name[0]}" / "anat" / f"sub-{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, channels(int(name[0]))[name.rpartition("_")[2]])
    description = {"Name": "two channels", "BIDSVersion": "1.10.0"}
    (root / "dataset_description.json").write_text(json.dumps(description))
    return root


def test_participants_of_a_dataset_with_all_suffixes(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    place, suffixes = tmp_path / "out", ("--suffix", *NAMES, "--joint")
    ran = run("bids", dataset, place, "participant", "--participant-label", "1", *suffixes)
    assert ran.code == 0
    assert {path.name for path in (place / "models").iterdir()} == {"sub-1.json"}
    ran = run("bids", dataset, place, "group", *suffixes)
    assert ran.code == 0
    assert f"{dataset}: sub-3 has no FLAIR; left out" in ran.err
    assert "sub-2_run-2_T1w.nii.gz fits no image of each other channel by its name" in ran.err
    assert "2 done (0 kept from an earlier run), 0 failed" in ran.out
    images = {path.name for path in place.rglob("*.nii.gz")}
    assert images == {
        "sub-1_acq-a_desc-ndflow_T1w.nii.gz",
        "sub-1_desc-ndflow_FLAIR.nii.gz",
        "sub-2_run-1_desc-ndflow_T1w.nii.gz",
        "sub-2_run-1_desc-ndflow_FLAIR.nii.gz",
    }
    assert (place / "dataset_description.json").exists()
    assert read_json(place / "reference.json")["reference"]["channel_names"] == list(NAMES)
    ran = run("bids", dataset, tmp_path / "x", "group", "--suffix", "T1w", "--joint")
    assert "--joint: name the channels, for example --suffix T1w FLAIR" in ran.errors[0]
    ran = run("bids", dataset, tmp_path / "x", "group", *suffixes, "--participant-label", "3")
    assert ran.code == 2
    assert not (tmp_path / "x").exists()
