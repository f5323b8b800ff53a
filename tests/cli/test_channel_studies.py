"""Studies of several channels, each by itself or together."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channel_phantoms import NAMES, channels, save_channels, words
from commands import Run, typed, without_workers
from pages import report_of
from phantoms import AFFINE, SHAPE, radii, save, voxels_of
from studies import contents, read_json, read_tsv, sha256, write_tsv

from ndflow.preparation.registration import ChannelFit, Grid, resampled

GAINS = {1: (1.3, 0.7), 2: (0.8, 1.1)}
JOINT = ("--channels", *NAMES, "--joint")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two subjects with masks and tissue maps; a lesion in the second, bright in one channel."""
    folder = tmp_path_factory.mktemp("joint")
    edges = {"wm": (0.0, 0.6), "gm": (0.6, 0.85), "csf": (0.85, 1.0)}
    for tissue, (low, high) in edges.items():
        share = (radii() >= low) & (radii() < high)
        save(folder / f"{tissue}.nii.gz", share.astype(np.float32))
    ill = np.zeros(SHAPE, np.uint8)
    ill[10:14, 10:14, 8:12] = 1
    save(folder / "lesion.nii.gz", ill)
    rows = []
    for seed, gains in GAINS.items():
        files = save_channels(folder, seed, gains=gains)
        brain = channels(seed)["T1w"] != 0
        row = {"subject": f"s{seed}", **{name: file.name for name, file in files.items()}}
        row["mask"] = save(folder / f"mask{seed}.nii.gz", brain.astype(np.uint8)).name
        row |= {"lesion": "lesion.nii.gz" if seed == 2 else "n/a"}
        rows.append(row | {tissue: f"{tissue}.nii.gz" for tissue in edges})
    flair = voxels_of(folder / "2_FLAIR.nii.gz")
    flair[ill == 1] = 5000
    save(folder / "2_FLAIR.nii.gz", flair.astype(np.float32))
    return write_tsv(folder / "study.tsv", rows)


# ── each by itself ───────────────────────────────────────────────────────────────────────────────


def test_each_channel_is_what_a_study_of_its_own_would_make_of_it(
    run: Run, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    each, alone, plain = tmp_path / "each", tmp_path / "alone", ("--preset", "paper", "-q")
    rows = [{**row, "image": row["FLAIR"]} for row in read_tsv(table)]
    columns = ["subject", "image", "mask", "lesion"]
    single = write_tsv(table.with_name("single.tsv"), rows, columns)
    typed("cohort", single, alone, "--channels", "FLAIR", *plain, "--no-report")
    ran = run("cohort", table, each, "--channels", *NAMES, *plain)
    assert ran.code == 0, ran.err
    assert contents(each / "FLAIR" / "images") == contents(alone / "images")
    assert [*read_json(each / "reference.json")["references"]] == [*NAMES]
    page = (each / "report.html").read_text()
    assert "2 scans of T1w and 2 scans of FLAIR were normalised, and none failed" in page
    for name in NAMES:
        assert f'href="{name}/report.html"' in page
    assert run("cohort", table, each, "--channels", *NAMES, *plain).code == 0  # it is ours
    ran = run("report", each)
    assert ran.code == 2
    assert "holds a study of each channel: T1w, FLAIR" in ran.errors[0]


def test_what_is_not_ours_is_not_replaced(run: Run, table: Path, tmp_path: Path) -> None:
    for name in ("report.html", "reference.json"):
        place = tmp_path / name.partition(".")[0]
        place.mkdir()
        (place / name).write_text("{}")
        ran = run("cohort", table, place, "--channels", *NAMES)
        assert ran.code == 2
        assert str(place / name) in ran.errors[0]
        assert contents(place) == {name: b"{}"}


# ── together ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def both(table: Path) -> Path:
    place = table.parent / "both"
    typed("cohort", table, place, *JOINT, "--jobs", 2, "-q")
    return place


def test_results_are_those_of_the_commands_for_one_subject(
    run: Run, table: Path, both: Path
) -> None:
    folder = table.parent
    models, given = [], {}
    for seed in GAINS:
        files = {name: folder / f"{seed}_{name}.nii.gz" for name in NAMES}
        given[seed] = [*words(files), "--joint", "--mask", folder / f"mask{seed}.nii.gz"]
        given[seed] += ["--exclude", folder / "lesion.nii.gz"] if seed == 2 else []
        models.append(folder / f"s{seed}.json")
        typed("fit", *given[seed], "-o", models[-1], "-q")
    typed("reference", *models, "-o", folder / "reference.json", "-q")
    own, made = (read_json(path / "reference.json")["reference"] for path in (folder, both))
    assert made["mixture"] == own["mixture"]
    to = ("--to", folder / "reference.json", "-o", folder / "alone", "-q")
    typed("normalise", *given[2], *to)
    assert [row["channel"] for row in read_tsv(both / "scans.tsv")] == [*NAMES, *NAMES]
    assert "nothing to do" in run("cohort", table, both, *JOINT).out
    for name in NAMES:
        alone = folder / "alone" / f"2_{name}.nii.gz"
        assert sha256(both / "images" / alone.name) == sha256(alone)


def test_each_channel_is_evaluated(run: Run, both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run("evaluate", both, "--permutations", 0, "--trees", 2).code == 0
    order = {"T1w": ["CSF", "GM", "WM"], "FLAIR": ["CSF", "WM", "GM"]}  # from dark to bright
    for name in NAMES:
        rows = read_tsv(both / "evaluation" / name / "features.tsv")
        for row in rows:
            assert sorted(order[name], key=lambda tissue: float(row[f"{tissue}_Q2"])) == order[name]
        before, _, after = (
            abs(float(one["WM_Q2"]) - float(other["WM_Q2"]))
            for one, other in zip(rows[::2], rows[1::2], strict=True)
        )
        assert after < 0.1 * before
    assert run("report", both).code == 0
    titles = report_of(both).texts("h3")
    for name in NAMES:
        assert [title for title in titles if title.startswith(f"{name}: ")]
    assert run("verify", both).code == 0


def test_channels_are_prepared_with_one_mask_and_then_normalised_together(
    run: Run, table: Path, tmp_path: Path
) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    words = ("--prepare", "--no-bias-field", "--tissues", "none")
    rows = read_tsv(table)
    rows[0]["FLAIR"] = "1_ADC.nii.gz"  # which is lost when images are prepared
    shutil.copy(table.with_name("1_FLAIR.nii.gz"), table.with_name("1_ADC.nii.gz"))
    table = write_tsv(table.with_name("named.tsv"), rows)
    with without_workers():
        ran = run("cohort", table, out, *JOINT, *words)
    assert ran.code == 0
    assert "other contrast: 1 of 2 scans (s1)" in ran.err
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")
        assert row["mask"].startswith("prepared/sub-")
    # What was prepared, in a study of its own, becomes the same.
    assert run("cohort", out / "prepared" / "study.tsv", again, *JOINT).code == 0
    one, other = ([*contents(place / "images").values()] for place in (again, out))
    assert one == other
    assert run("verify", out).code == 0


@pytest.mark.parametrize("together", [True, False])
def test_a_channel_on_a_grid_of_its_own_is_brought_to_that_of_the_t1w(
    run: Run, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """Once for all studies; tests/preparation sees to the registration."""
    affine = AFFINE.copy()
    affine[1:3, 3] += 2.0  # a voxel
    rows = read_tsv(table)
    for row in rows:
        raw = voxels_of(table.parent / row["FLAIR"]).astype(np.float32)
        row["FLAIR"] = f"moved_{row['FLAIR']}"
        save(table.parent / row["FLAIR"], raw[:, 1:, 1:], affine)
    apart = write_tsv(table.with_name("apart.tsv"), rows)
    calls = []

    def moved(image: Any, own: Any, _: Any, grid: Grid, __: Any) -> tuple[Any, ChannelFit]:
        calls.append(image.shape)
        fit = ChannelFit(((1.0,),), 2.0, 1.01, 1.0)
        return resampled(image, own, np.eye(4), grid, order=1), fit

    monkeypatch.setattr("ndflow.preparation.registration.moved_channel", moved)
    monkeypatch.setattr("ndflow.study.prepare_step.not_installed", lambda *_: [])
    out, how = tmp_path / "out", JOINT if together else JOINT[:-1]
    with without_workers():
        ran = run("cohort", apart, out, *how, "--prepare", "--no-bias-field", "--tissues", "none")
    assert ran.code == 0, ran.err
    assert "2 of 2 scans to be registered with the T1w image" in ran.err
    assert "channel does not fit" in ran.err
    assert len(calls) == 2
    anat = out / "prepared" / "sub-s1" / "anat"
    own, record = (read_json(anat / f"sub-s1_desc-preproc_{name}.json") for name in reversed(NAMES))
    assert own["matrix"] == record["measures"]["channels"]["FLAIR"]["matrix"]
    assert record["steps"]["channels"] == "registered"
    assert own["Sources"] == ["bids:raw:moved_1_FLAIR.nii.gz"]
    made = voxels_of(anat / "sub-s1_desc-preproc_FLAIR.nii.gz")
    given = voxels_of(table.parent / "1_FLAIR.nii.gz")
    assert np.allclose(made[1:-1, 1:-1, 1:-1], given[1:-1, 1:-1, 1:-1], atol=0.1)
    moved_out = out.rename(tmp_path / "elsewhere")
    for folder in (moved_out,) if together else (moved_out / "T1w", moved_out / "FLAIR"):
        (row, *_) = read_tsv(folder / "scans.tsv")
        assert (folder / row["image"]).is_relative_to(moved_out)
        assert run("verify", folder).code == 0


def test_participants_of_a_dataset_with_all_suffixes(run: Run, tmp_path: Path) -> None:
    root, place = tmp_path / "raw", tmp_path / "both"
    for name in ("1_acq-a_T1w", "1_FLAIR", "2_run-1_T1w", "2_run-1_FLAIR"):
        path = root / f"sub-{name[0]}" / "anat" / f"sub-{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, channels(int(name[0]))[name.rpartition("_")[2]])
    description = {"Name": "two channels", "BIDSVersion": "1.10.0"}
    (root / "dataset_description.json").write_text(json.dumps(description))
    suffixes = ("--suffix", *NAMES, "--joint")
    ran = run("bids", root, place, "participant", "--participant-label", "1", *suffixes)
    assert ran.code == 0
    assert {path.name for path in (place / "models").iterdir()} == {"sub-1.json"}
    ran = run("bids", root, place, "group", *suffixes)
    assert ran.code == 0
    assert {path.name for path in place.rglob("*.nii.gz")} == {
        "sub-1_acq-a_desc-ndflow_T1w.nii.gz",
        "sub-1_desc-ndflow_FLAIR.nii.gz",
        "sub-2_run-1_desc-ndflow_T1w.nii.gz",
        "sub-2_run-1_desc-ndflow_FLAIR.nii.gz",
    }
