"""``ndflow normalise``: the type of the voxels, and what happens to those outside."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run
from numpy.typing import NDArray
from one_scan import CLOSE, EXACT, SCAN, TARGET, TARGET_SD, exact_map, fitted
from phantoms import SHAPE, radii, save, voxels_of
from studies import record_of


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    ],
)
def test_the_type_of_a_voxel_can_be_chosen(normalised: Run, dtype: str) -> None:
    output = normalised("--dtype", dtype, "--range", 10, 100)
    image = nibabel.load(output)
    assert image.get_data_dtype() == dtype
    assert (image.dataobj.slope, image.dataobj.inter) == (1, 0)
    low, high = TARGET.quantile([0.001, 0.999])
    inside = SCAN != 0
    expected = 10 + 90 * (EXACT(SCAN[inside]) - low) / (high - low)
    off = np.abs(voxels_of(output)[inside] - expected).max()
    assert off < CLOSE * 90 + (0.5 if "int" in dtype else 0)


def test_values_that_the_type_cannot_hold_are_clipped_and_counted(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    command = ("normalise", scan, "--to", target, "--range", "-2", 200)
    plain, small = tmp_path / "plain.nii", tmp_path / "small.nii"
    assert run(*command, "-o", plain).code == 0
    done = run(*command, "-o", small, "--dtype", "int8")
    assert done.code == 0
    unclipped = np.rint(voxels_of(plain))
    beyond = int(np.count_nonzero((unclipped < -128) | (unclipped > 127)))
    assert beyond > 100
    assert np.array_equal(voxels_of(small), np.clip(unclipped, -128, 127))
    assert record_of(small)["clipped"] == beyond
    assert f"warning: {small}: {beyond:,} voxels did not fit the type int8" in done.err


# ── outside the mask ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def surrounded(tmp_path: Path) -> tuple[Path, Path, NDArray[Any], NDArray[np.bool_]]:
    """A head with fat outside its mask, and zeros inside and outside: files and arrays."""
    voxels, inside = SCAN.copy(), radii() < 0.9
    voxels[12, 14, 5:15] = 0
    assert (voxels[~inside] == 0).any()
    assert (voxels[~inside] != 0).any()
    image = save(tmp_path / "image.nii.gz", voxels)
    return image, save(tmp_path / "mask.nii.gz", inside.astype(np.uint8)), voxels, inside


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
@pytest.mark.parametrize("masked", [True, False])
def test_voxels_outside_the_mask_are_treated_as_asked(
    run: Run,
    target: Path,
    tmp_path: Path,
    surrounded: tuple[Path, Path, NDArray[Any], NDArray[np.bool_]],
    outside: str | None,
    masked: bool,
) -> None:
    image, mask, voxels, inside = surrounded
    inside = inside if masked else voxels != 0
    options: list[object] = ["--mask", mask] if masked else []
    options += ["--set", f"outside={outside}"] if outside else []
    output = tmp_path / "out.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, *options)
    assert (done.code, done.errors) == (0, [])
    result = voxels_of(output)

    exact = exact_map(fitted(voxels, inside), TARGET)(voxels)
    stays = ~inside if outside in ("zero", "keep") else ~inside & (voxels == 0)
    if outside == "map":
        stays = np.zeros(SHAPE, bool)
    assert np.abs(result - exact)[~stays].max() < CLOSE * TARGET_SD
    assert np.array_equal(result[stays], voxels[stays] if outside == "keep" else 0 * voxels[stays])


def test_integers_too_coarse_to_tell_tissues_apart_are_refused(run: Run, inputs: Path) -> None:
    words = ("normalise", inputs / "scan.nii.gz", "--to", inputs / "reference.json", "-o")
    standard = (*words, inputs / "x.nii.gz", "--dtype", "int16", "--scale", "standard")
    done = run(*standard)
    assert done.code == 2
    assert "--scale positive or --range 0 1000" in done.errors[0]
    assert run(*words, inputs / "x.nii.gz", "--dtype", "int16", "--range", 0, 1000).code == 0
    assert len(np.unique(nibabel.load(inputs / "x.nii.gz").dataobj)) > 500
