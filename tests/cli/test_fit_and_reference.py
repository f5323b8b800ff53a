"""``ndflow fit`` and ``ndflow reference``: densities that can be shared without their scans."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import one_scan
import pytest
from commands import Run
from numpy.typing import NDArray
from phantoms import SHAPE, head, radii, save
from studies import SiteStudy, read_json, sha256

import ndflow
from ndflow.subject.target import builtin_file

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


# ── reference ────────────────────────────────────────────────────────────────────────────────────


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


BUILTIN = "builtin:T1w@1"
SHA256 = "77c130ed554ba78b060115cf4a438d9a0e552bba17903004475a272c2f387358"


def test_it_holds_what_every_method_needs() -> None:
    made = ndflow.builtin_reference("T1w")
    assert made == ndflow.builtin_reference("T1w@1") == ndflow.load(builtin_file("T1w"))
    assert (made.channel_names, made.scans) == (("T1w",), 35)
    assert made.provenance["average"] == "quantile"
    assert made.tissues is not None
    assert made.tissues.source == "maps"
    assert made.landmarks is not None
    assert made.landmarks.method == "nyul"
    means = [float(density.mean()[0]) for density in ndflow.builtin_reference().tissues.densities]
    assert means == sorted(means)  # CSF, GM, WM, as in T1w images
    assert builtin_file("T1w").stat().st_size < 10_000


def test_a_version_that_was_published_does_not_change() -> None:
    assert hashlib.sha256(builtin_file("T1w@1").read_bytes()).hexdigest() == SHA256


def test_a_single_scan_needs_nothing_else(run: Run, tmp_path: Path) -> None:
    scan, out = save(tmp_path / "scan.nii.gz", head(0)), tmp_path / "out.nii.gz"
    words = ("normalise", scan, "--to", "builtin:T1w", "-o", out)
    ran = run(*words)
    assert ran.code == 0, ran.err
    record = read_json(tmp_path / "out.json")
    assert record["target"]["name"] == BUILTIN
    sha256 = hashlib.sha256(builtin_file("T1w").read_bytes()).hexdigest()
    assert record["inputs"]["target"] == [{"file": BUILTIN, "sha256": sha256}]
    assert record["preset"]["reason"] == "no tissue maps and a reference of 35 scans"
    assert record["settings"]["scale"] == "positive"
    again = ndflow.normalise(head(0), "builtin:T1w")
    given = ndflow.normalise(head(0), ndflow.builtin_reference())
    assert np.array_equal(again.image, given.image)
    nyul = run(*words, "--method", "nyul", "--force")
    assert nyul.code == 0, nyul.err


def test_a_study_is_brought_to_it_and_can_be_verified(run: Run, tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, per_site=1)
    (tmp_path / "reference_Bonn.json").write_text("not a reference of this one", encoding="utf-8")
    out = study.run("out", "--reference", "builtin:T1w", "--mode", "site", "--no-report")
    record = read_json(out / "provenance.json")
    assert record["reference"] == BUILTIN
    assert [one["file"] for one in record["inputs"]] == [BUILTIN]
    made: Any = ndflow.load(out / "reference.json")
    assert made == ndflow.builtin_reference()
    assert run("verify", out).code == 0
    ran = run(
        "cohort", study.table("all"), tmp_path / "t2", "--channels", "T2w", "--reference", BUILTIN
    )
    assert f"{BUILTIN}: made of T1w images, but these are T2w" in ran.errors[0]
