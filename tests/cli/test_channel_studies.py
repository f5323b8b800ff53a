"""Studies of several channels, each by itself or together."""

import json
from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import NAMES, channels, save_channels, words
from commands import Run, typed
from phantoms import SHAPE, radii, save, voxels_of
from studies import contents, read_json, read_tsv, write_tsv

THREE = {1: (1.3, 0.7), 2: (0.8, 1.1), 3: (1.0, 1.0)}


def make_listed(folder: Path) -> Path:
    rows = []
    for seed, gains in THREE.items():
        files = save_channels(folder, seed, gains=gains)
        rows.append({"subject": f"s{seed}", **{name: file.name for name, file in files.items()}})
    return write_tsv(folder / "study.tsv", rows)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_listed(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def each(listed: Path) -> Path:
    place = listed.parent / "each"
    typed("cohort", listed, place, "--channels", *NAMES, "-q")
    return place


def test_each_channel_is_what_a_study_of_its_own_would_make_of_it(listed: Path, each: Path) -> None:
    rows = [{"subject": row["subject"], "image": row["FLAIR"]} for row in read_tsv(listed)]
    alone = listed.parent / "alone"
    single = write_tsv(listed.with_name("single.tsv"), rows)
    typed("cohort", single, alone, "--channels", "FLAIR", "-q")
    images = {name: data for name, data in contents(each / "FLAIR").items() if "images/" in name}
    assert len(images) == len(THREE)
    assert images == {name: data for name, data in contents(alone).items() if "images/" in name}


def test_what_is_not_ours_is_not_replaced(run: Run, listed: Path, tmp_path: Path) -> None:
    for name in ("report.html", "reference.json"):
        place = tmp_path / name.partition(".")[0]
        place.mkdir()
        (place / name).write_text("{}")
        ran = run("cohort", listed, place, "--channels", *NAMES)
        assert ran.code == 2
        assert str(place / name) in ran.errors[0]
        assert contents(place) == {name: b"{}"}


def test_the_page_leads_to_that_of_each_channel(
    run: Run, listed: Path, each: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    ran = run("cohort", listed, each, "--channels", *NAMES)
    assert ran.code == 0
    page = (each / "report.html").read_text()
    assert f"<h1>{each.name}</h1>" in page
    assert "3 scans of T1w and 3 scans of FLAIR were normalised, and none failed" in page
    for name in NAMES:
        assert f'href="{name}/report.html"' in page
        assert f"<h1>{name}</h1>" in (each / name / "report.html").read_text()
    for more in (("--no-report",), ()):  # it is known to be ours
        assert run("cohort", listed, each, "--channels", *NAMES, *more).code == 0
    ran = run("report", each)
    assert ran.code == 2
    assert "holds a study of each channel: T1w, FLAIR" in ran.errors[0]


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
def both(table: Path) -> Path:
    place = table.parent / "both"
    typed("cohort", table, place, *JOINT, "--jobs", 2, "-q")
    return place


def test_results_are_those_of_the_commands_for_one_subject(table: Path, both: Path) -> None:
    folder = table.parent
    models = []
    for seed in GAINS:
        files = {name: folder / f"{seed}_{name}.nii.gz" for name in NAMES}
        models.append(folder / f"s{seed}.json")
        lesion = ("--exclude", folder / "lesion.nii.gz") if seed == 2 else ()
        typed("fit", *words(files), "--joint", *lesion, "-o", models[-1], "-q")
    typed("reference", *models, "-o", folder / "reference.json", "-q")
    own, made = (read_json(path / "reference.json")["reference"] for path in (folder, both))
    assert made["mixture"] == own["mixture"]
    assert made["channel_names"] == list(NAMES)
    files = {name: folder / f"2_{name}.nii.gz" for name in NAMES}
    target = ("--to", folder / "reference.json", "--exclude", folder / "lesion.nii.gz")
    typed("normalise", *words(files), "--joint", *target, "-o", folder / "alone", "-q")
    for name in NAMES:
        alone = folder / "alone" / f"2_{name}.nii.gz"
        assert (both / "images" / alone.name).read_bytes() == alone.read_bytes()


def test_records_know_the_channels(both: Path) -> None:
    record = read_json(both / "provenance.json")
    assert (record["channels"], record["finished"]) == (list(NAMES), True)
    rows = read_tsv(both / "scans.tsv")
    assert [row["channel"] for row in rows] == [*NAMES, *NAMES]
    assert [row["subject"] for row in rows] == ["s1", "s1", "s2", "s2"]
    for row in rows:
        sidecar = read_json(both / row["sidecar"])
        assert (sidecar["channel"], sidecar["channel_names"]) == (row["channel"], list(NAMES))
        assert (both / row["output"]).exists()
    assert {path.stem for path in (both / "models").iterdir()} == {"s1", "s2"}


def test_a_second_run_has_nothing_to_do(run: Run, table: Path, both: Path) -> None:
    before = contents(both / "images") | contents(both / "maps")
    ran = run("cohort", table, both, *JOINT)
    assert ran.code == 0
    assert "nothing to do" in ran.out
    assert contents(both / "images") | contents(both / "maps") == before
    ran = run("cohort", table, both, *JOINT, "--dry-run")
    assert ran.out.count("keep") == 2


def test_a_subject_that_fails_is_left_out(
    run: Run, table: Path, tmp_path: Path, both: Path
) -> None:
    odd = save(tmp_path / "odd.nii.gz", np.ones((5, 6, 7), np.int16))
    rows = read_tsv(table)
    rows.append({"subject": "s3", "T1w": str(odd), "FLAIR": "3.nii.gz", "lesion": "n/a"})
    save(table.parent / "3.nii.gz", channels(3)["FLAIR"])
    odd_table = write_tsv(table.with_name("odd.tsv"), rows)
    given = ("--reference", both / "reference.json")
    ran = run("cohort", odd_table, tmp_path / "both", *JOINT, *given)
    assert ran.code == 1
    (failed,) = read_tsv(tmp_path / "both" / "failures.tsv")
    assert failed["scan"] == "s3"
    assert "24 × 28 × 20 voxels, but" in failed["cause"]
    image = Path("images/1_FLAIR.nii.gz")
    assert (tmp_path / "both" / image).read_bytes() == (both / image).read_bytes()


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
    place, suffixes = tmp_path / "both", ("--suffix", *NAMES, "--joint")
    ran = run("bids", dataset, place, "participant", "--participant-label", "1", *suffixes)
    assert ran.code == 0
    assert {path.name for path in (place / "models").iterdir()} == {"sub-1.json"}
    ran = run("bids", dataset, place, "group", *suffixes)
    assert ran.code == 0
    assert "sub-3 has no FLAIR" in ran.err
    assert "sub-2_run-2_T1w.nii.gz" in ran.err
    images = {path.name for path in place.rglob("*.nii.gz")}
    assert images == {
        "sub-1_acq-a_desc-ndflow_T1w.nii.gz",
        "sub-1_desc-ndflow_FLAIR.nii.gz",
        "sub-2_run-1_desc-ndflow_T1w.nii.gz",
        "sub-2_run-1_desc-ndflow_FLAIR.nii.gz",
    }
    assert (place / "dataset_description.json").exists()
    assert read_json(place / "reference.json")["reference"]["channel_names"] == list(NAMES)


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """Two subjects with masks and tissue maps, which both channels share."""
    rows = []
    for seed, gains in GAINS.items():
        files = save_channels(tmp_path, seed, gains=gains)
        brain = channels(seed)["T1w"] != 0
        row = {"subject": f"s{seed}", **{name: file.name for name, file in files.items()}}
        row["mask"] = save(tmp_path / f"mask{seed}.nii.gz", brain.astype(np.uint8)).name
        edges = {"wm": (0.0, 0.6), "gm": (0.6, 0.85), "csf": (0.85, 1.0)}
        for tissue, (low, high) in edges.items():
            radius = radii(brain.shape)
            share = ((radius >= low) & (radius < high)).astype(np.float32)
            row[tissue] = save(tmp_path / f"{tissue}.nii.gz", share).name
        rows.append(row)
    return write_tsv(tmp_path / "study.tsv", rows)


def images(out: Path) -> list[bytes]:
    return [*contents(out / "images").values()]


def test_channels_are_prepared_with_one_mask_and_then_normalised_together(
    run: Run, mapped: Path, tmp_path: Path
) -> None:
    out, prepared = tmp_path / "out", tmp_path / "out" / "prepared"
    words = ("cohort", mapped, out, *JOINT, "--prepare", "--no-bias-field", "--tissues", "none")
    ran = run(*words)
    assert ran.code == 0, ran.err
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")
        assert row["mask"].startswith("prepared/sub-")
    # The mapped of what was prepared is that of the same study.
    assert run("cohort", prepared / "study.tsv", tmp_path / "again", *JOINT).code == 0
    assert images(tmp_path / "again") == images(out)
    before = contents(out)
    assert "nothing to do" in run(*words).out
    assert contents(out) == before
    assert run("verify", out).code == 0


def test_each_channel_is_evaluated(
    run: Run, mapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    out = tmp_path / "out"
    assert run("cohort", mapped, out, *JOINT).code == 0
    ran = run("evaluate", out, "--permutations", 0)
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (out / "evaluation").iterdir()) == sorted(NAMES)
    order = {"T1w": ["CSF", "GM", "WM"], "FLAIR": ["CSF", "WM", "GM"]}  # from dark to bright
    for name in NAMES:
        rows = read_tsv(out / "evaluation" / name / "tissue_scans.tsv")
        assert [row["condition"] for row in rows[::2]] == ["unnormalised", "affine", "out"]
        for row in rows:
            assert sorted(order[name], key=lambda tissue: float(row[f"{tissue}_Q2"])) == order[name]
        before, _, after = (
            abs(float(one["WM_Q2"]) - float(other["WM_Q2"]))
            for one, other in zip(rows[::2], rows[1::2], strict=True)
        )
        assert after < 0.1 * before
    assert run("verify", out).code == 0
