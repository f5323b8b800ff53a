"""``--joint`` with what other studies can do: prepare, find brains, be evaluated, be replaced."""

from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import NAMES, channels, save_channels
from commands import Run
from deepbet_stand_in import StandIn
from phantoms import radii, save, voxels_of
from studies import contents, read_json, read_tsv, write_tsv

JOINT = ("--channels", *NAMES, "--joint")
GAINS = {1: (1.3, 0.7), 2: (0.8, 1.1)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
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
    run: Run, table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ants")
    shade = np.exp(np.linspace(-0.3, 0.3, voxels_of(tmp_path / "1_FLAIR.nii.gz").shape[0]))
    for seed in GAINS:  # a bias field in one channel only
        path = tmp_path / f"{seed}_FLAIR.nii.gz"
        save(path, (voxels_of(path) * shade[:, np.newaxis, np.newaxis]).astype(np.float32))
    out, prepared = tmp_path / "out", tmp_path / "out" / "prepared"
    words = ("cohort", table, out, *JOINT, "--prepare")
    ran = run(*words)
    assert ran.code == 0, ran.err
    assert "prepared   2 done" in ran.out
    (first, _) = read_tsv(prepared / "study.tsv")
    assert (prepared / first["mask"]).exists()
    for row in read_tsv(out / "scans.tsv"):
        assert row["image"].startswith("prepared/sub-")
        assert row["mask"].startswith("prepared/sub-")
    ratios = []
    for path in (tmp_path / "1_FLAIR.nii.gz", prepared / first["FLAIR"]):
        left, right = np.array_split(voxels_of(path), 2)
        ratios.append(np.log(right[right > 0].mean() / left[left > 0].mean()))
    assert abs(ratios[1]) < 0.8 * abs(ratios[0])
    # The table of what was prepared is that of the same study.
    assert run("cohort", prepared / "study.tsv", tmp_path / "again", *JOINT).code == 0
    assert images(tmp_path / "again") == images(out)
    before = contents(out)
    assert "2 done (2 kept from an earlier run), 0 failed: nothing to do" in run(*words).out
    assert contents(out) == before
    assert run("verify", out).code == 0


def test_the_brain_of_a_subject_is_found_once_for_all_channels(
    run: Run, table: Path, tmp_path: Path, deepbet: StandIn
) -> None:
    rows = [{name: row[name] for name in ("subject", *NAMES)} for row in read_tsv(table)]
    for path in tmp_path.glob("*_*.nii.gz"):
        save(path, voxels_of(path, None), np.diag([6.0, 6.0, 6.0, 1.0]))  # as large as a brain
    raw, out = write_tsv(tmp_path / "raw.tsv", rows), tmp_path / "out"
    words = ("cohort", raw, out, *JOINT, "--mask", "brain")
    assert run(*words).code == 0
    assert run(*words).code == 0
    assert deepbet.calls == len(GAINS)
    found = [f"out/masks/s{seed}.nii.gz" for seed in GAINS]
    for name, seed in zip(found, GAINS, strict=True):
        t1w = voxels_of(tmp_path / f"{seed}_T1w.nii.gz")
        assert np.array_equal(voxels_of(tmp_path / name), t1w > t1w.max() / 2)
    masked = [row | {"mask": name} for row, name in zip(rows, found, strict=True)]
    given = write_tsv(tmp_path / "given.tsv", masked)
    assert run("cohort", given, tmp_path / "again", *JOINT).code == 0
    assert images(tmp_path / "again") == images(out)
    assert run("verify", out).code == 0


def test_each_channel_is_evaluated(run: Run, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("cohort", table, out, *JOINT).code == 0
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


def test_other_settings_replace_a_finished_study_by_force_only(
    run: Run, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("cohort", table, out, *JOINT)
    assert run(*words).code == 0
    before, other = contents(out), ("--scale", "standard")
    for more in ((), ("--dry-run",)):
        ran = run(*words, *other, *more)
        assert (ran.code, len(ran.errors)) == (2, 1)
        for word in (str(out), "scale positive, now standard", "replaced", "--force"):
            assert word in ran.errors[0]
        assert contents(out) == before
    rehearsed = run(*words, *other, "--dry-run", "--force").out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in rehearsed] == ["write  changed: scale"] * 2
    assert contents(out) == before
    assert run(*words, *other, "--force").code == 0
    assert not {*images(out)} & {part for name, part in before.items() if "images/" in name}
    assert read_json(out / "provenance.json")["settings"]["scale"] == "standard"
    assert run("verify", out).code == 0
