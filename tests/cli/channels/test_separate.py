"""Several channels without ``--joint``: as if each were normalised by a command of its own."""

from pathlib import Path

import numpy as np
from channel_phantoms import NAMES, Desk, words
from commands import Run
from phantoms import save, voxels_of

import ndflow
from ndflow.files.model_files import read_model


def test_each_channel_becomes_what_it_becomes_alone(run: Run, desk: Desk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("normalise", *desk.words, "--to", desk.separate, "-o", out)
    assert done.well
    references = ndflow.load(desk.separate)
    assert tuple(references) == NAMES
    for name, file in desk.files.items():
        reference = tmp_path / f"reference_{name}.json"
        ndflow.save(reference, references[name])
        alone = tmp_path / f"{name}.nii.gz"
        done = run("normalise", file, "--to", reference, "-o", alone)
        assert done.well
        assert np.array_equal(voxels_of(out / file.name), voxels_of(alone))
        assert ndflow.load(out / f"{file.name[:-7]}.json").channels == 1


def test_a_mask_and_a_lesion_are_shared(run: Run, desk: Desk, tmp_path: Path) -> None:
    mask = save(tmp_path / "mask.nii.gz", (voxels_of(desk.files["T1w"]) > 500).astype(np.uint8))
    bright = voxels_of(desk.files["T1w"]) > 1000
    lesion = save(tmp_path / "lesion.nii.gz", bright.astype(np.uint8))
    model = tmp_path / "model.json"
    ran = run("fit", *desk.words, "--mask", mask, "--exclude", lesion, "-o", model)
    assert ran.code == 0
    inside = (voxels_of(mask) > 0) & ~bright
    fits = ndflow.load(model)
    for name, file in desk.files.items():
        own = ndflow.fit(ndflow.histogram(voxels_of(file, None), inside)).mixture
        assert fits[name] == own


def test_the_file_of_a_subject_names_channels_in_order_and_no_files(desk: Desk) -> None:
    path = desk.folder / "separate1.json"
    kind, payload, _ = read_model(path)
    assert kind == "mixtures"
    assert payload["channel_names"] == [*NAMES] == [*payload["mixtures"]]
    assert "nii" not in path.read_text()
    for name in NAMES:
        assert payload["mixtures"][name]["voxels"]["fitted"] > 1000


def test_a_reference_of_each_channel_is_that_of_its_mixtures(desk: Desk) -> None:
    subjects = [ndflow.load(desk.folder / f"separate{seed}.json") for seed in (1, 2)]
    made = ndflow.load(desk.separate)
    for name in NAMES:
        own = ndflow.reference([one[name] for one in subjects], average="quantile")
        assert made[name].mixture == own.mixture
        assert made[name].channel_names == (name,)


def test_other_methods_work_on_each_channel(run: Run, desk: Desk, tmp_path: Path) -> None:
    models = [desk.folder / f"separate{seed}.json" for seed in (1, 2)]
    reference = tmp_path / "nyul.json"
    assert run("reference", *models, "--method", "nyul", "-o", reference).well
    out = tmp_path / "out"
    command = ("normalise", *desk.words, "--to", reference, "--method", "nyul", "-o", out)
    assert run(*command).well
    for file in desk.files.values():
        inside = voxels_of(file) != 0
        assert 400 < np.median(voxels_of(out / file.name)[inside]) < 600


def test_a_failing_channel_does_not_keep_the_other(run: Run, desk: Desk, tmp_path: Path) -> None:
    flat = voxels_of(desk.files["T1w"]) != 0
    bad = save(tmp_path / "flat.nii.gz", flat.astype(np.uint8))
    files = {**desk.files, "FLAIR": bad}
    ran = run("normalise", *words(files), "--to", desk.separate, "-o", tmp_path / "out")
    assert ran.code == 1
    assert f"error: {bad}: " in ran.err
    assert (tmp_path / "out" / desk.files["T1w"].name).exists()
