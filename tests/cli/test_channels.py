"""Several channels of one subject, each by itself or together."""

import shutil
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from channel_phantoms import NAMES, Desk, words
from commands import Run, typed
from deepbet_stand_in import StandIn
from numpy.typing import NDArray
from phantoms import head, save, voxels_of

import ndflow
from ndflow.files.model_files import read_model
from ndflow.files.stream import sha256_of


def test_each_channel_becomes_what_it_becomes_alone(
    run: Run, subject: Desk, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run("normalise", *subject.words, "--to", subject.separate, "-o", out)
    assert done.well
    references = ndflow.load(subject.separate)
    assert tuple(references) == NAMES
    for name, file in subject.files.items():
        reference = tmp_path / f"reference_{name}.json"
        ndflow.save(reference, references[name])
        alone = tmp_path / f"{name}.nii.gz"
        done = run("normalise", file, "--to", reference, "-o", alone)
        assert done.well
        assert np.array_equal(voxels_of(out / file.name), voxels_of(alone))
        assert ndflow.load(out / f"{file.name[:-7]}.json").channels == 1


def test_a_mask_and_a_lesion_are_shared(run: Run, subject: Desk, tmp_path: Path) -> None:
    mask = save(tmp_path / "mask.nii.gz", (voxels_of(subject.files["T1w"]) > 500).astype(np.uint8))
    bright = voxels_of(subject.files["T1w"]) > 1000
    lesion = save(tmp_path / "lesion.nii.gz", bright.astype(np.uint8))
    model = tmp_path / "model.json"
    ran = run("fit", *subject.words, "--mask", mask, "--exclude", lesion, "-o", model)
    assert ran.code == 0
    inside = (voxels_of(mask) > 0) & ~bright
    fits = ndflow.load(model)
    for name, file in subject.files.items():
        own = ndflow.fit(ndflow.histogram(voxels_of(file, None), inside)).mixture
        assert fits[name] == own


@pytest.fixture(scope="module")
def made(subject: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The subject, normalised jointly."""
    folder = tmp_path_factory.mktemp("joint") / "made"
    typed("normalise", *subject.words, "--joint", "--to", subject.joint, "-o", folder, "-q")
    return folder


def rows(files: dict[str, Path], inside: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([voxels_of(file)[inside] for file in files.values()], axis=1)


def results(subject: Desk, folder: Path) -> dict[str, Path]:
    return {name: folder / file.name for name, file in subject.files.items()}


def test_every_voxel_is_where_the_map_puts_it(subject: Desk, made: Path) -> None:
    inside = voxels_of(subject.files["T1w"]) != 0
    imap = ndflow.load(made / "0_T1w.json")
    assert imap.channels == 2
    found = rows(results(subject, made), inside)
    assert np.abs(found - imap(rows(subject.files, inside))).max() < 0.02  # float32, around 500


def test_any_of_the_sidecars_undoes_the_map(
    run: Run, subject: Desk, made: Path, tmp_path: Path
) -> None:
    assert ndflow.load(made / "0_T1w.json") == ndflow.load(made / "0_FLAIR.json")
    done = run(
        *("apply", *words(results(subject, made)), "--map", made / "0_FLAIR.json"),
        *("--inverse", "-o", tmp_path / "back"),
    )
    assert done.well
    for name, file in subject.files.items():
        original = voxels_of(file)
        back = voxels_of(tmp_path / "back" / file.name)
        assert np.abs(back - original).max() < 5e-3 * original.std(), name


def test_sidecars_say_which_channel_they_describe(subject: Desk, made: Path) -> None:
    for name in NAMES:
        kind, payload, _ = read_model(made / f"0_{name}.json")
        assert kind == "map"
        assert payload["channel"] == name
        assert payload["channel_names"] == [*NAMES]
        assert payload["settings"]["joint"] is True
        assert payload["settings"]["scale"] == "positive"
        image = f"0_{name}.nii.gz"
        assert payload["outputs"] == {image: sha256_of(made / image)}
        read = {what: files[0]["sha256"] for what, files in payload["inputs"].items()}
        assert read == {
            **{one: sha256_of(file) for one, file in subject.files.items()},
            "target": sha256_of(subject.joint),
        }
        assert payload["voxels"]["fitted"] > 1000
        assert payload["match"]["message"].startswith(
            "maps of each channel by itself, then a joint"
        )
        distances = payload["joint"]
        assert distances["kept"] is True
        assert distances["finished"] < 0.3 * distances["channelwise"]
        assert distances["determinants"][0] > 0


# ── which voxels ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
def test_what_is_outside_the_mask_is_treated_as_in_one_channel(
    run: Run, subject: Desk, tmp_path: Path, outside: str | None
) -> None:
    scan = voxels_of(subject.files["T1w"])
    mask = save(tmp_path / "mask.nii.gz", (scan > 500).astype(np.uint8))
    imap = ndflow.Affine([[0.5, 0.1], [-0.2, 0.8]], [30.0, 40.0])
    ndflow.save(tmp_path / "map.json", imap)
    option = () if outside is None else ("--set", f"outside={outside}")
    command = ("apply", *subject.words, "--map", tmp_path / "map.json", "--mask", mask, *option)
    assert run(*command, "-o", tmp_path / "made").well
    moved = imap(rows(subject.files, np.ones(scan.shape, dtype=bool)))
    background, rest = scan == 0, (scan != 0) & (scan <= 500)
    for place, file in enumerate(subject.files.values()):
        expected = moved[:, place].reshape(scan.shape)
        if outside is None:
            expected[background] = 0
        elif outside == "zero":
            expected[background | rest] = 0
        elif outside == "keep":
            expected[background | rest] = voxels_of(file)[background | rest]
        assert np.abs(voxels_of(tmp_path / "made" / file.name) - expected).max() < 1e-3


def test_a_lesion_is_not_seen_but_mapped(run: Run, subject: Desk, tmp_path: Path) -> None:
    lesion = np.zeros(voxels_of(subject.files["T1w"]).shape, np.uint8)
    lesion[8:14, 10:16, 8:12] = 1
    mask = save(tmp_path / "lesion.nii.gz", lesion)
    bright = {}
    for name, file in subject.files.items():
        image = voxels_of(file, np.float32)
        image[lesion == 1] *= 5
        bright[name] = save(tmp_path / f"{name}.nii.gz", image)
    models = []
    for number, files in enumerate((subject.files, bright)):
        models.append(tmp_path / f"{number}.json")
        command = ("fit", *words(files), "--joint", "--exclude", mask, "-o", models[-1])
        assert run(*command).code == 0
    one, two = (ndflow.load(model) for model in models)
    assert one == two
    payload = read_model(models[0]).payload
    assert payload["voxels"]["excluded"] == lesion.sum()
    assert payload["settings"]["exclude"] is True


def test_a_file_with_an_equals_sign_is_still_a_file(
    run: Run, subject: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(subject.files["T1w"], "run=1.nii.gz")
    assert run("fit", "run=1.nii.gz", "-o", "plain.json").well
    assert ndflow.load("plain.json").channels == 1
    shutil.copy(subject.files["FLAIR"], "desc=x.nii.gz")
    named = ("T1w=run=1.nii.gz", "FLAIR=desc=x.nii.gz")
    assert run("fit", *named, "--joint", "-o", "joint.json").well
    assert ndflow.load("joint.json").channels == 2


# ── the grid ─────────────────────────────────────────────────────────────────────────────────────


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
