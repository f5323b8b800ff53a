"""``NAME=FILE``: what is a channel, what is a file, and what cannot be meant."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import Desk, words
from commands import Run
from phantoms import AFFINE, head, save, voxels_of

import ndflow


def test_a_file_with_an_equals_sign_is_still_a_file(
    run: Run, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(desk.files["T1w"], "run=1.nii.gz")
    assert run("fit", "run=1.nii.gz", "-o", "plain.json").well
    assert ndflow.load("plain.json").channels == 1
    shutil.copy(desk.files["FLAIR"], "desc=x.nii.gz")
    named = ("T1w=run=1.nii.gz", "FLAIR=desc=x.nii.gz")
    assert run("fit", *named, "--joint", "-o", "joint.json").well
    assert ndflow.load("joint.json").channels == 2


WRONG = {
    "some with a name and some without": (
        "fit T1w={T1w} {FLAIR} -o {out}.json",
        r"{FLAIR}: without the name of a channel, among others with one; .*T1w={FLAIR}",
    ),
    "joint, but without names": (
        "fit {T1w} {FLAIR} --joint -o {out}.json",
        r"--joint: needs .* for example T1w={T1w} FLAIR={FLAIR}",
    ),
    "joint, but one image": (
        "normalise {T1w} --joint --to {joint} -o {out}",
        r"--joint: needs .* for example T1w={T1w} FLAIR=FILE",
    ),
    "five channels": (
        "fit a={T1w} b=b.nii c=c.nii d=d.nii e=e.nii -o {out}.json",
        r"5 channels given, but at most 4",
    ),
    "a channel twice": (
        "fit T1w={T1w} T1w={FLAIR} -o {out}.json",
        r"T1w: two images of one channel, {T1w} and {FLAIR}; one subject at a time",
    ),
    "a file twice": (
        "fit T1w={T1w} FLAIR={T1w} -o {out}.json",
        r"{T1w}: given twice",
    ),
    "two masks": (
        "fit T1w={T1w} FLAIR={FLAIR} --mask a.nii b.nii -o {out}.json",
        r"--mask: 2 given for one subject; .*share one",
    ),
    "a model": (
        "fit T1w={T1w} FLAIR={joint} -o {out}.json",
        r"{joint}: neither NIfTI nor MGH; check that it is the right file",
    ),
    "one file for two images": (
        "normalise T1w={T1w} FLAIR={FLAIR} --to {separate} -o {out}.nii.gz",
        r"{out}.nii.gz: one file for 2 images; name a folder",
    ),
    "channels for a reference": (
        "reference T1w={T1w} FLAIR={FLAIR} -o {out}.json",
        r"T1w={T1w}: .*; first run ndflow fit T1w=FILE FLAIR=FILE -o subject.json for each",
    ),
    "no file": (
        "fit T1w={T1w} FLAIR=missing.nii.gz --joint -o {out}.json",
        r"missing.nii.gz: no such file",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_meant_is_refused_in_one_line(
    run: Run, desk: Desk, tmp_path: Path, what: str
) -> None:
    command, message = WRONG[what]
    names = {**desk.files, "joint": desk.joint, "separate": desk.separate, "out": tmp_path / "out"}
    ran = run(*command.format(**names).split())
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    pattern = message.format(**{name: re.escape(str(path)) for name, path in names.items()})
    assert re.match(f"error: {pattern}", line), line
    assert not [*tmp_path.iterdir()]


# ── the grid ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("joint", [(), ("--joint",)])
def test_channels_of_different_shapes_are_refused(
    run: Run, desk: Desk, tmp_path: Path, joint: tuple[str, ...]
) -> None:
    small = save(tmp_path / "small.nii.gz", head(0, shape=(20, 28, 20)))
    files = {**desk.files, "FLAIR": small}
    ran = run("fit", *words(files), *joint, "-o", tmp_path / "model.json")
    assert ran.code == 2
    assert f"{small}: 20 × 28 × 20 voxels, but {desk.files['T1w']} has 24 × 28 × 20;" in ran.err
    assert "resample_from_to" in ran.err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(0.5, "used"), (0.01, "silent"), (1.5, "refused")],
)
def test_channels_that_lie_elsewhere_are_judged_like_masks(
    run: Run, desk: Desk, tmp_path: Path, shift: float, verdict: str
) -> None:
    affine = AFFINE.copy()
    affine[1, 3] += shift  # mm; voxels have 2 mm
    moved = save(tmp_path / "moved.nii.gz", voxels_of(desk.files["FLAIR"], np.float32), affine)
    files = {**desk.files, "FLAIR": moved}
    ran = run("fit", *words(files), "--joint", "-o", tmp_path / "model.json")
    if verdict == "refused":
        assert ran.code == 2
        assert f"{moved}: lies 0.75 voxels away from {desk.files['T1w']}" in ran.err
    else:
        assert ran.code == 0
        said = f"{moved}: lies 0.25 voxels away from {desk.files['T1w']}; used nevertheless"
        assert (said in ran.err) == (verdict == "used")


def test_results_that_would_share_a_name_are_refused(run: Run, desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / desk.files["T1w"].name
    shutil.copy(desk.files["FLAIR"], other)
    files = {**desk.files, "FLAIR": other}
    ran = run("normalise", *words(files), "--to", desk.separate, "-o", tmp_path / "out")
    assert ran.code == 2
    assert f"{other}: its result would be called {other.name}, like that of " in ran.err
