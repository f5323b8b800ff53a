"""``ndflow normalise``: which voxels of scan and target are fitted."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from one_scan import CLOSE, OTHER, SCAN, SOURCE, TARGET, TARGET_SD, exact_map, fitted
from phantoms import SHAPE, head, radii, save, voxels_of
from studies import record_of

import ndflow


def test_masks_belong_to_the_scans_in_order(run: Run, target: Path, tmp_path: Path) -> None:
    images, masks, chosen = [], [], []
    for number, cut in enumerate((0.7, 0.95)):
        images.append(save(tmp_path / f"scan{number}.nii.gz", head(number + 5)))
        chosen.append(radii() < cut)
        masks.append(save(tmp_path / f"mask{number}.nii.gz", chosen[-1].astype(np.uint8)))
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", *masks)
    assert (done.code, done.errors) == (0, [])
    for number, inside in enumerate(chosen):
        record = record_of(tmp_path / "out" / f"scan{number}.nii.gz")
        assert record["voxels"]["fitted"] == np.count_nonzero(inside)
        mixture = ndflow.GaussianMixture.from_dict(record["mixture"])
        assert mixture == fitted(head(number + 5), inside).mixture
        assert [part["file"] for part in record["inputs"]["mask"]] == [str(masks[number])]


def test_each_mask_may_follow_an_option_of_its_own(run: Run, target: Path, tmp_path: Path) -> None:
    images = [save(tmp_path / f"{number}.nii", head(number)) for number in range(2)]
    masks = [
        save(tmp_path / f"m{number}.nii", (radii() < cut).astype(np.uint8))
        for number, cut in enumerate((0.7, 0.95))
    ]
    command = ("normalise", *images, "--to", target, "-o", tmp_path / "out")
    assert run(*command, "--mask", masks[0], "--mask", masks[1]).code == 0
    counts = [record_of(tmp_path / "out" / f"{n}.nii")["voxels"]["fitted"] for n in range(2)]
    assert counts == [np.count_nonzero(radii() < cut) for cut in (0.7, 0.95)]


@pytest.mark.parametrize("option", ["--mask", "--exclude"])
def test_too_few_masks_are_refused(
    run: Run, scan: Path, target: Path, tmp_path: Path, option: str
) -> None:
    second = save(tmp_path / "second.nii.gz", SCAN)
    command = ("normalise", scan, second, "--to", target, "-o", tmp_path / "out")
    done = run(*command, option, scan)
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {option}: ")
    assert "2 images" in message
    assert not (tmp_path / "out").exists()


def test_the_mask_of_a_target_image_chooses_its_voxels(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    inside = radii() < 0.8
    other = save(tmp_path / "other.nii.gz", OTHER)
    mask = save(tmp_path / "other_mask.nii.gz", inside.astype(np.uint8))
    output = tmp_path / "out.nii.gz"
    done = run("normalise", scan, "--to", other, "--to-mask", mask, "-o", output)
    assert (done.code, done.errors) == (0, [])
    record = record_of(output)
    density = ndflow.GaussianMixture.from_dict(record["target"]["mixture"])
    assert density == fitted(OTHER, inside).mixture
    assert record["target"]["name"] == str(other)
    assert [part["file"] for part in record["inputs"]["target_mask"]] == [str(mask)]


@pytest.mark.parametrize("automatic", ["--mask", "--to-mask"])
def test_the_foreground_is_found_where_air_is_noisy(
    run: Run, tmp_path: Path, automatic: str
) -> None:
    shape = (40, 44, 36)
    voxels = head(0, shape=shape)
    inside = voxels != 0
    air = np.abs(np.random.default_rng(1).normal(0, 8, shape)) + 1
    noisy = save(tmp_path / "noisy.nii.gz", np.where(inside, voxels, air).astype(np.int16))
    clean = save(tmp_path / "clean.nii.gz", OTHER)
    image, to = (noisy, clean) if automatic == "--mask" else (clean, noisy)
    output = tmp_path / "out.nii.gz"
    done = run("normalise", image, "--to", to, "-o", output, automatic, "auto")
    assert (done.code, done.errors) == (0, [])
    record = record_of(output)
    if automatic == "--mask":
        assert record["voxels"]["fitted"] == pytest.approx(np.count_nonzero(inside), rel=0.02)
    found = record["mixture"] if automatic == "--mask" else record["target"]["mixture"]
    mixture = ndflow.GaussianMixture.from_dict(found)
    assert mixture.mean()[0] == pytest.approx(voxels[inside].mean(), rel=0.02)


def test_mask_auto_applies_to_all_scans(run: Run, target: Path, tmp_path: Path) -> None:
    images = [save(tmp_path / f"{number}.nii", head(number)) for number in range(2)]
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", "auto")
    assert done.code == 0
    assert all((tmp_path / "out" / image.name).exists() for image in images)


def test_without_a_mask_all_nonzero_voxels_are_fitted(normalised: Run) -> None:
    record = record_of(normalised())
    assert record["voxels"] == {
        "fitted": np.count_nonzero(SCAN),
        "excluded": 0,
        "outliers": 0,
        "not_finite": 0,
    }
    assert ndflow.GaussianMixture.from_dict(record["mixture"]) == SOURCE
    assert "mask" not in record["inputs"]


def test_excluded_voxels_are_not_fitted_but_mapped(run: Run, target: Path, tmp_path: Path) -> None:
    lesion = np.zeros(SHAPE, bool)
    lesion[8:14, 10:16, 6:12] = True
    voxels = np.where(lesion, 2000, SCAN).astype(np.int16)
    voxels[0, 0, 0] = 0
    image = save(tmp_path / "a.nii.gz", voxels)
    # Part of it lies outside the head, where there is nothing to exclude.
    wide = lesion.copy()
    wide[:2] = True
    mask = save(tmp_path / "lesion.nii.gz", wide.astype(np.uint8))
    output = tmp_path / "b.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, "--exclude", mask)
    assert (done.code, done.err) == (0, "")

    seen = (voxels != 0) & ~wide
    record = record_of(output)
    assert record["voxels"]["fitted"] == np.count_nonzero(seen)
    assert record["voxels"]["excluded"] == np.count_nonzero((voxels != 0) & wide)
    density = fitted(voxels, seen).mixture
    assert ndflow.GaussianMixture.from_dict(record["mixture"]) == density
    exact = exact_map(density, TARGET)(voxels)
    inside = voxels != 0
    assert np.abs(voxels_of(output) - exact)[inside].max() < CLOSE * TARGET_SD
    assert [part["file"] for part in record["inputs"]["lesion"]] == [str(mask)]
