"""``ndflow normalise``: the units of the result."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run
from numpy.typing import NDArray
from one_scan import CLOSE, OTHER, SCAN, TARGET, TARGET_SD, fitted
from phantoms import head, save, voxels_of
from studies import record_of

import ndflow


def is_standard(result: NDArray[Any]) -> bool:
    inside = result[SCAN != 0]
    return abs(inside.mean()) < 0.02 and abs(inside.std() - 1) < 0.02


def is_like_the_target(result: NDArray[Any]) -> bool:
    inside, there = result[SCAN != 0], OTHER[OTHER != 0]
    return (
        abs(inside.mean() - there.mean()) < 0.02 * there.std()
        and abs(inside.std() / there.std() - 1) < 0.02
    )


def is_positive(result: NDArray[Any]) -> bool:
    inside = result[SCAN != 0]
    return abs(inside.mean() - 500) < 3 and abs(inside.std() - 125) < 3


@pytest.mark.parametrize("scale", [None, "positive", "standard", "target"])
@pytest.mark.parametrize("kind", ["reference", "mixture", "image"])
def test_the_units_of_the_result_depend_on_target_and_scale(
    run: Run, scan: Path, tmp_path: Path, kind: str, scale: str | None
) -> None:
    to = tmp_path / "to.json"
    if kind == "image":
        to = save(tmp_path / "to.nii.gz", OTHER)
    else:
        ndflow.save(to, ndflow.reference([TARGET]) if kind == "reference" else TARGET)
    output = tmp_path / "out.nii.gz"
    options = ["--scale", scale] if scale else []
    done = run("normalise", scan, "--to", to, "-o", output, *options)
    if kind == "reference" and scale == "target":
        assert done.code == 2
        (message,) = done.errors
        assert message.startswith(f"error: {to}: a reference has no units of its own")
        assert "use --scale positive or --scale standard" in message
        assert "--range LOW HIGH" in message
        assert not output.exists()
        assert not output.with_name("out.json").exists()
        return
    assert (done.code, done.err) == (0, "")
    wanted = scale or ("positive" if kind == "reference" else "target")
    result = voxels_of(output)
    assert is_standard(result) == (wanted == "standard")
    assert is_positive(result) == (wanted == "positive")
    assert is_like_the_target(result) == (wanted == "target")
    assert not result[SCAN == 0].any()
    assert record_of(output)["settings"]["scale"] == wanted


def test_hardly_a_voxel_of_a_brain_is_lost_above_0(run: Run, scan: Path, tmp_path: Path) -> None:
    to, out = tmp_path / "reference.json", tmp_path / "out.nii.gz"
    ndflow.save(to, ndflow.reference([TARGET]))
    assert run("normalise", scan, "--to", to, "-o", out).code == 0
    assert np.mean(voxels_of(out)[SCAN != 0] > 0) > 0.999


@pytest.mark.parametrize("method", ["ndflow", "affine"])
def test_the_scale_is_undone_with_the_map(
    run: Run, scan: Path, tmp_path: Path, method: str
) -> None:
    to, out, back = (tmp_path / name for name in ("to.json", "out.nii.gz", "back.nii.gz"))
    ndflow.save(to, ndflow.reference([TARGET]))
    assert run("normalise", scan, "--to", to, "-o", out, "--method", method).code == 0
    words = ("--map", tmp_path / "out.json", "--inverse", "--dtype", "int16")
    done = run("apply", out, *words, "-o", back)
    assert (done.code, done.errors) == (0, [])
    assert np.array_equal(voxels_of(back), SCAN)


def test_integers_are_the_rounded_floats_by_default(run: Run, scan: Path, tmp_path: Path) -> None:
    to, plain, rounded = (tmp_path / name for name in ("to.json", "plain.nii", "rounded.nii"))
    ndflow.save(to, ndflow.reference([TARGET]))
    for out, words in ((plain, ()), (rounded, ("--dtype", "int16"))):
        done = run("normalise", scan, "--to", to, "-o", out, *words)
        assert (done.code, done.err) == (0, "")
    assert np.array_equal(voxels_of(rounded), np.rint(voxels_of(plain)))


def test_the_standard_scale_is_the_targets_own_made_standard(normalised: Run) -> None:
    plain = voxels_of(normalised(name="plain.nii"))
    standard = voxels_of(normalised("--scale", "standard", name="standard.nii"))
    inside = SCAN != 0
    expected = (plain[inside] - TARGET.mean()[0]) / TARGET_SD
    assert np.abs(standard[inside] - expected).max() < CLOSE


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1000, 3000.5), (-2, -1)])
def test_a_range_is_a_linear_change_of_units(normalised: Run, low: float, high: float) -> None:
    plain = voxels_of(normalised(name="plain.nii"))
    ranged = voxels_of(normalised("--range", low, high, name="ranged.nii"))
    bottom, top = TARGET.quantile([0.001, 0.999])
    inside = SCAN != 0
    expected = low + (high - low) * (plain[inside] - bottom) / (top - bottom)
    assert np.abs(ranged[inside] - expected).max() < CLOSE * (high - low)


@pytest.mark.parametrize("kind", ["image", "reference"])
def test_the_targets_percentiles_land_on_the_ends_of_the_range(
    run: Run, tmp_path: Path, kind: str
) -> None:
    # The target, normalised to itself, shows where its own percentiles went.
    image = save(tmp_path / "image.nii.gz", head(1, shape=(48, 50, 44)))
    to = image
    if kind == "reference":
        to = tmp_path / "reference.json"
        ndflow.save(to, ndflow.reference([fitted(head(1, shape=(48, 50, 44))).mixture]))
    output = tmp_path / "out.nii.gz"
    assert run("normalise", image, "--to", to, "-o", output, "--range", 100, 1100).code == 0
    result = voxels_of(output)
    ends = np.percentile(result[result != 0], [0.1, 99.9])
    np.testing.assert_allclose(ends, [100, 1100], atol=30)
