"""What is doubtful about channels: said once for what they share, and for each by itself."""

from pathlib import Path

import nibabel
import numpy as np
from channel_phantoms import Desk, channels, words
from commands import Run
from deepbet_stand_in import StandIn
from phantoms import AFFINE, head, save, voxels_of

import ndflow
from ndflow.files.model_files import read_model


def test_a_channel_that_is_unlike_its_reference_is_named(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    inverted = 2000.0 - voxels_of(desk.files["FLAIR"])
    inverted[voxels_of(desk.files["T1w"]) == 0] = 0
    odd = save(tmp_path / "odd.nii.gz", inverted.astype(np.float32))
    files = {**desk.files, "FLAIR": odd}
    out = tmp_path / "out"
    ran = run("normalise", *words(files), "--joint", "--to", desk.joint, "-o", out)
    assert ran.code == 0
    lines = [line for line in ran.err.splitlines() if "unlike the reference" in line]
    assert [line.startswith(f"warning: {odd}: ") for line in lines] == [True]
    kinds = {
        name: [doubt["kind"] for doubt in read_model(out / f"{stem}.json").payload["doubts"]]
        for name, stem in (("T1w", "0_T1w"), ("FLAIR", "odd"))
    }
    assert "unlike the reference" in kinds["FLAIR"]
    assert "unlike the reference" not in kinds["T1w"]


def test_a_doubt_about_the_mask_is_said_once(run: Run, desk: Desk, tmp_path: Path) -> None:
    large = AFFINE.copy()
    large[:3, :3] *= 6  # 12 mm: no brain is that large
    files = {
        name: save(tmp_path / f"{name}.nii.gz", image, large) for name, image in channels(0).items()
    }
    ran = run("fit", *words(files), "--joint", "-o", tmp_path / "model.json")
    assert ran.code == 0
    lines = [line for line in ran.err.splitlines() if "whole head" in line]
    assert [line.startswith(f"warning: {files['T1w']}: ") for line in lines] == [True]
    doubts = read_model(tmp_path / "model.json").payload["doubts"]
    assert [doubt["kind"] for doubt in doubts].count("whole head") == 1


def test_channels_of_few_values_are_named(run: Run, desk: Desk, tmp_path: Path) -> None:
    labels = np.round(voxels_of(desk.files["FLAIR"]) / 200).astype(np.int16)
    labels[voxels_of(desk.files["T1w"]) == 0] = 0
    coarse = save(tmp_path / "labels.nii.gz", labels)
    files = {**desk.files, "FLAIR": coarse}
    ran = run("fit", *words(files), "--joint", "-o", tmp_path / "model.json")
    assert f"{coarse}: holds " in ran.err
    assert "different values only" in ran.err


def test_the_brain_is_found_in_the_channel_t1w(run: Run, deepbet: StandIn, tmp_path: Path) -> None:
    shape = (30, 34, 28)
    affine = np.diag([6.0, 6.0, 6.0, 1.0])
    files = {
        "FLAIR": save(tmp_path / "a.nii.gz", head(1, shape=shape), affine),
        "T1w": save(tmp_path / "b.nii.gz", head(0, shape=shape), affine),
    }
    model = tmp_path / "model.json"
    ran = run("fit", *words(files), "--joint", "--mask", "brain", "-o", model)
    assert ran.code == 0, ran.err
    payload = read_model(model).payload
    assert payload["settings"]["mask"] == "brain"
    whole = np.count_nonzero(nibabel.load(files["T1w"]).dataobj)
    assert payload["voxels"]["fitted"] < whole
    del files["T1w"]
    files["T2w"] = tmp_path / "b.nii.gz"
    ran = run("fit", *words(files), "--joint", "--mask", "brain", "-o", tmp_path / "x.json")
    assert ran.code == 2
    assert "--mask brain: a brain is found in a T1w image, but the channels are FLAIR" in ran.err
    assert ndflow.load(model).channels == 2
