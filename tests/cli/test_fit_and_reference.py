"""``ndflow fit`` and ``ndflow reference``: densities that can be shared without their scans."""

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import one_scan
import pytest
from commands import Run
from numpy.typing import NDArray
from phantoms import AFFINE, SHAPE, head, radii, save
from studies import read_json, sha256

import ndflow

GAINS = (1.0, 1.7, 0.6)
HEADS = [
    head(0),
    head(1, tissues=((250.0, 90.0), (520.0, 40.0), (900.0, 70.0)), gain=GAINS[1]),
    head(2, tissues=((330.0, 40.0), (800.0, 60.0), (1000.0, 30.0)), gain=GAINS[2]),
]


def fitted(voxels: NDArray[Any], inside: NDArray[Any] | None = None, **how: Any) -> Any:
    """Return the mixture fitted to all nonzero voxels of an array, or to those inside."""
    return one_scan.fitted(voxels, inside, **how).mixture


MIXTURES = [fitted(voxels) for voxels in HEADS]


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    return [save(tmp_path / f"scan{n}.nii.gz", voxels) for n, voxels in enumerate(HEADS)]


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    for number, mixture in enumerate(MIXTURES):
        ndflow.save(tmp_path / f"model{number}.json", mixture)
    return sorted(tmp_path.glob("model*.json"))


# ── fit ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_fit_is_a_mixture_in_a_small_file(run: Run, images: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    assert run("fit", images[0], "-o", output).well
    assert ndflow.load(output) == MIXTURES[0]
    assert output.stat().st_size < 8192
    found = read_json(output)
    assert (found["format"], found["kind"], found["ndflow"]) == (
        "ndflow",
        "mixture",
        ndflow.__version__,
    )
    assert found["sha256"] == {"image": [sha256(images[0])]}
    assert found["voxels"]["fitted"] == np.count_nonzero(HEADS[0])


def test_a_fit_names_neither_the_scan_nor_where_it_lies(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "hospital-of-somewhere"
    folder.mkdir()
    image = save(folder / "jane-doe-1970.nii.gz", HEADS[0])
    mask = save(folder / "mask-of-jane.nii.gz", (radii() < 0.9).astype(np.uint8))
    lesion = save(folder / "lesion-of-jane.nii.gz", (radii() < 0.2).astype(np.uint8))
    output = folder / "for-them.json"
    assert run("fit", image, "-o", output, "--mask", mask, "--exclude", lesion).code == 0
    text = output.read_text(encoding="utf-8").lower()
    for word in ("jane", "doe", "hospital", "nii", "for-them", str(tmp_path), "/"):
        assert word not in text, word


def test_masks_and_lesions_choose_the_voxels_of_a_fit(
    run: Run, images: list[Path], tmp_path: Path
) -> None:
    insides = [radii() < cut for cut in (0.7, 0.8, 0.95)]
    lesion = radii() < 0.2
    masks = [save(tmp_path / f"m{n}.nii", m.astype(np.uint8)) for n, m in enumerate(insides)]
    lesions = [save(tmp_path / f"l{n}.nii", lesion.astype(np.uint8)) for n in range(3)]
    folder = tmp_path / "out"
    done = run("fit", *images, "-o", folder, "--mask", *masks, "--exclude", *lesions)
    assert done.well
    for number, (voxels, inside) in enumerate(zip(HEADS, insides, strict=True)):
        output = folder / f"scan{number}.json"
        assert ndflow.load(output) == fitted(voxels, inside & ~lesion)
        counts = read_json(output)["voxels"]
        assert counts["excluded"] == np.count_nonzero(inside & lesion)
        assert counts["fitted"] + counts["outliers"] == np.count_nonzero(inside & ~lesion)


def test_the_effective_count_of_a_fit_is_recorded(
    run: Run, images: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    assert run("fit", images[0], "-o", output, "--set", "effective-count=200").code == 0
    assert read_json(output)["settings"]["effective_count"] == 200
    assert ndflow.load(output) == fitted(HEADS[0], effective_count=200)
    assert ndflow.load(output) != MIXTURES[0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_fits_go_to_a_folder_and_failures_are_listed(
    run: Run, images: list[Path], tmp_path: Path, jobs: int
) -> None:
    missing = tmp_path / "missing.nii.gz"
    folder = tmp_path / "out"
    done = run("fit", images[0], missing, images[1], "-o", folder, "-j", jobs)
    assert done.code == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "failures.tsv",
        "scan0.json",
        "scan1.json",
    ]
    header, row = (folder / "failures.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "scan\tstage\tcause\ttry"
    assert row.split("\t")[:2] == [str(missing), "fit"]
    assert ndflow.load(folder / "scan1.json") == MIXTURES[1]


def test_fits_that_would_share_a_name_are_refused(
    run: Run, images: list[Path], tmp_path: Path
) -> None:
    twin = save(tmp_path / "scan0.nii", HEADS[1])
    done = run("fit", images[0], twin, "-o", tmp_path / "out")
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {twin}: ")
    assert str(images[0]) in message
    assert not (tmp_path / "out").exists()


def test_a_fit_replaces_nothing_without_force(run: Run, images: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_bytes(b"mine")
    done = run("fit", images[0], "-o", output)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {output}: exists already; ")
    assert output.read_bytes() == b"mine"
    done = run("fit", images[0], "-o", output, "--force")
    assert (done.code, output.read_bytes()) == (2, b"mine")  # it is not ours
    assert f"{output}: exists, and was not written by ndflow" in done.errors[0]
    output.unlink()
    for force in ((), ("--force",)):
        assert run("fit", images[0], "-o", output, *force).well
    assert ndflow.load(output) == MIXTURES[0]


@pytest.mark.parametrize("command", ["fit", "reference"])
def test_a_model_is_json_and_nothing_else(
    run: Run, images: list[Path], tmp_path: Path, command: str
) -> None:
    before = sorted(tmp_path.iterdir())
    done = run(command, images[0], "-o", tmp_path / "out.nii.gz")
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {tmp_path / 'out.nii.gz'}: ")
    assert ".json" in message
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["a.nii", "a.img", "a.mgz"])
def test_every_format_has_the_same_fit(run: Run, tmp_path: Path, name: str) -> None:
    pair = name in ("a.hdr", "a.img")
    make = nibabel.Nifti1Pair if pair else nibabel.Nifti1Image
    image = nibabel.MGHImage if name.startswith("a.mg") else make
    nibabel.save(image(HEADS[0], AFFINE), tmp_path / name)
    assert run("fit", tmp_path / name, "-o", tmp_path / "out.json").well
    assert ndflow.load(tmp_path / "out.json") == MIXTURES[0]
    files = ["a.hdr", "a.img"] if pair else [name]
    digests = [sha256(tmp_path / file) for file in files]
    assert read_json(tmp_path / "out.json")["sha256"] == {"image": digests}


# ── reference ────────────────────────────────────────────────────────────────────────────────────


def test_a_reference_is_the_average_of_mixtures(
    run: Run, models: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "reference.json"
    assert run("reference", *models, "-o", output).well
    found = ndflow.load(output)
    assert isinstance(found, ndflow.Reference)
    assert found.mixture == ndflow.reference(MIXTURES, average="quantile").mixture
    assert (found.scans, found.channel_names) == (3, ("intensity",))
    assert found.mixture.mean()[0] == pytest.approx(0, abs=1e-9)
    assert found.mixture.covariance()[0, 0] == pytest.approx(1, abs=1e-9)
    assert read_json(output)["kind"] == "reference"


def test_a_reference_from_images_is_that_from_their_mixtures(
    run: Run, images: list[Path], tmp_path: Path
) -> None:
    assert run("fit", *images, "-o", tmp_path / "models").code == 0
    models = [tmp_path / "models" / f"scan{n}.json" for n in range(3)]
    sources = {
        "images": images,
        "mixtures": models,
        "both": [images[0], models[1], images[2]],
        "shuffled": [models[2], images[0], images[1]],
    }
    found = {}
    for kind, paths in sources.items():
        output = tmp_path / f"{kind}.json"
        assert run("reference", *paths, "-o", output).well, kind
        found[kind] = ndflow.load(output)
    for kind, reference in found.items():
        assert reference.mixture == found["images"].mixture, kind


def test_masks_belong_to_the_images_among_the_sources(
    run: Run, images: list[Path], models: list[Path], tmp_path: Path
) -> None:
    insides = [radii() < cut for cut in (0.7, 0.9)]
    lesion = radii() < 0.2
    masks = [save(tmp_path / f"m{n}.nii", m.astype(np.uint8)) for n, m in enumerate(insides)]
    lesions = [save(tmp_path / f"l{n}.nii", lesion.astype(np.uint8)) for n in range(2)]
    output = tmp_path / "reference.json"
    command = ("reference", images[0], models[1], images[2], "-o", output)
    assert run(*command, "--mask", *masks, "--exclude", *lesions).well
    mixtures = [
        fitted(HEADS[0], insides[0] & ~lesion),
        MIXTURES[1],
        fitted(HEADS[2], insides[1] & ~lesion),
    ]
    assert ndflow.load(output).mixture == ndflow.reference(mixtures, average="quantile").mixture

    # A mixture takes no mask, so three are one too many.
    done = run(*command, "--force", "--mask", *masks, masks[0])
    assert done.code == 2
    assert "--mask" in done.errors[0]


def test_weights_are_those_of_the_sources_in_order(
    run: Run, images: list[Path], models: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "reference.json"
    sources = [models[0], images[1], models[2]]
    assert run("reference", *sources, "-o", output, "--weights", 1, 0.5, 3).code == 0
    found = ndflow.load(output)
    how: Any = {"average": "quantile"}
    assert found.mixture == ndflow.reference(MIXTURES, weights=[1, 0.5, 3], **how).mixture
    assert found.mixture != ndflow.reference(MIXTURES, **how).mixture
    assert sorted(found.provenance["weights"]) == [0.5, 1, 3]


def test_a_weight_of_0_leaves_a_scan_out(run: Run, models: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "reference.json"
    assert run("reference", *models, "-o", output, "--weights", 1, 0, 1).code == 0
    others = ndflow.reference([MIXTURES[0], MIXTURES[2]], average="quantile")
    assert ndflow.load(output).mixture == others.mixture


@pytest.mark.parametrize(
    "weights", [("1", "2"), ("1", "2", "-3"), ("0", "0", "0"), ("1", "1", "x")]
)
def test_weights_that_make_no_sense_are_refused(
    run: Run, models: list[Path], tmp_path: Path, weights: tuple[str, ...]
) -> None:
    output = tmp_path / "reference.json"
    done = run("reference", *models, "-o", output, "--weights", *weights)
    assert done.code == 2
    (message,) = done.errors
    assert "weights" in message
    assert not output.exists()


@pytest.mark.parametrize("average", ["density", "quantile"])
def test_what_is_averaged_can_be_chosen(
    run: Run, models: list[Path], tmp_path: Path, average: str
) -> None:
    output = tmp_path / "reference.json"
    assert run("reference", *models, "-o", output, "--set", f"average={average}").well
    found = ndflow.load(output)
    assert found.mixture == ndflow.reference(MIXTURES, average=average).mixture
    assert found.provenance["average"] == average
    other = {"density": "quantile", "quantile": "density"}[average]
    assert found.mixture != ndflow.reference(MIXTURES, average=other).mixture


def test_the_channel_can_be_named(run: Run, models: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "reference.json"
    assert run("reference", *models, "-o", output, "--channel", "T1w").code == 0
    assert ndflow.load(output).channel_names == ("T1w",)


def test_a_reference_remembers_what_it_was_made_of(
    run: Run, images: list[Path], models: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "reference.json"
    assert run("reference", images[0], models[1], "-o", output).code == 0
    inputs = read_json(output)["inputs"]
    assert [part["name"] for part in inputs] == ["scan0", "model1"]
    for part, source in zip(inputs, (images[0], models[1]), strict=True):
        assert sha256(source) in part["sha256"]
    assert str(tmp_path) not in output.read_text(encoding="utf-8")
    assert ndflow.load(output).provenance["names"] == ["model1", "scan0"]


def test_the_voxels_of_a_pair_are_in_the_memory_of_a_reference(run: Run, tmp_path: Path) -> None:
    # Two scans of one protocol have the same header; only the .img files differ.
    digests = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        nibabel.save(nibabel.Nifti1Pair(HEADS[number], AFFINE), folder / "scan.hdr")
        assert run("reference", folder / "scan.hdr", "-o", folder / "r.json").well
        digests.append(json.dumps(read_json(folder / "r.json")["inputs"]))
    assert (tmp_path / "0/scan.hdr").read_bytes() == (tmp_path / "1/scan.hdr").read_bytes()
    assert digests[0] != digests[1]
    assert sha256(tmp_path / "0/scan.img") in digests[0]


def test_the_same_sources_give_the_same_bytes(run: Run, images: list[Path], tmp_path: Path) -> None:
    outputs = [tmp_path / f"r{jobs}.json" for jobs in (1, 2)]
    for jobs, output in enumerate(outputs, start=1):
        assert run("reference", *images, "-o", output, "-j", jobs).well
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_a_reference_is_not_averaged_again(run: Run, models: list[Path], tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert run("reference", *models, "-o", first).code == 0
    done = run("reference", models[0], first, "-o", second)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {first}: of the kind 'reference', where 'mixture' ")
    assert not second.exists()


def test_a_map_is_refused_as_a_density(run: Run, models: list[Path], tmp_path: Path) -> None:
    ndflow.save(tmp_path / "map.json", ndflow.transport.align(MIXTURES[0]))
    done = run("reference", models[0], tmp_path / "map.json", "-o", tmp_path / "r.json")
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {tmp_path / 'map.json'}: of the kind 'map'")
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_reference_that_would_lack_a_scan_is_not_written(
    run: Run, images: list[Path], tmp_path: Path, jobs: int
) -> None:
    constant = save(tmp_path / "constant.nii.gz", np.full(SHAPE, 7, np.int16))
    output = tmp_path / "reference.json"
    before = sorted(tmp_path.iterdir())
    done = run("reference", images[0], constant, images[1], "-o", output, "-j", jobs)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {constant}: ")
    assert any(message.startswith(f"error: {output}: no reference") for message in done.errors)
    assert sorted(tmp_path.iterdir()) == before


def test_a_reference_replaces_nothing_without_force_and_never_a_source(
    run: Run, models: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "reference.json"
    output.write_bytes(b"mine")
    done = run("reference", *models, "-o", output)
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {output}: exists already; ")
    assert output.read_bytes() == b"mine"
    assert run("reference", *models, "-o", output, "--force").code == 2  # it is not ours
    assert output.read_bytes() == b"mine"
    output.unlink()
    for force in ((), ("--force",)):
        assert run("reference", *models, "-o", output, *force).code == 0

    kept = models[1].read_bytes()
    done = run("reference", *models, "-o", models[1], "--force")
    assert done.code == 2
    assert done.errors[0].startswith(f"error: {models[1]}: is one of the inputs; ")
    assert models[1].read_bytes() == kept


def test_hospitals_share_a_reference_without_their_scans(run: Run, tmp_path: Path) -> None:
    # Each hospital sends a mixture and gets the reference back; its scans then become alike.
    models = []
    for number, voxels in enumerate(HEADS):
        image = save(tmp_path / f"{number}.nii.gz", voxels)
        models.append(tmp_path / f"{number}_model.json")
        assert run("fit", image, "-o", models[-1]).code == 0
    reference = tmp_path / "reference.json"
    assert run("reference", *models, "-o", reference).code == 0
    before, after = [], []
    for number, voxels in enumerate(HEADS):
        output = tmp_path / f"{number}_out.nii.gz"
        done = run("normalise", tmp_path / f"{number}.nii.gz", "--to", reference, "-o", output)
        assert (done.code, done.errors) == (0, [])
        inside = voxels[voxels != 0]
        result = nibabel.load(output).get_fdata()[voxels != 0]
        assert result.mean() == pytest.approx(500, abs=6)
        assert result.std() == pytest.approx(125, abs=6)
        before.append((np.median(inside) - inside.mean()) / inside.std())
        after.append(np.median(result) / 125)
    assert np.std(after) < 0.5 * np.std(before)


def test_exclude_none_leaves_a_scan_without_lesion_mask(run: Run, inputs: Path) -> None:
    scans = (inputs / "scan.nii.gz", inputs / "other.nii.gz")
    words = ("fit", *scans, "-o", inputs / "out", "--exclude", inputs / "mask.nii.gz", "none")
    assert run(*words).code == 0
    settings = [
        json.loads((inputs / "out" / f"{name}.json").read_text())["settings"]["exclude"]
        for name in ("scan", "other")
    ]
    assert settings == [True, False]
    assert run("fit", *scans, "-o", inputs / "new", "--exclude", "auto", "auto").code == 2


def test_models_record_which_mask_was_used(run: Run, inputs: Path) -> None:
    scan, mask = inputs / "scan.nii.gz", inputs / "mask.nii.gz"
    kinds = {"nonzero": (), "auto": ("--mask", "auto"), "given": ("--mask", mask)}
    for kind, words in kinds.items():
        path = inputs / f"{kind}.json"
        assert run("fit", scan, "-o", path, *words).code == 0
        assert json.loads(path.read_text())["settings"]["mask"] == kind
    path = inputs / "r.json"
    words = (inputs / "other.nii.gz", inputs / "auto.json", "-o", path, "--mask", "auto")
    assert run("reference", *words).code == 0
    settings = [part["settings"] for part in json.loads(path.read_text())["inputs"]]
    assert [chosen.get("mask") for chosen in settings] == ["auto", None]
