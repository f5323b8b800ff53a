"""``ndflow normalise``: the record beside the image, and that both are reproducible."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from one_scan import EXACT, OTHER, SCAN, SOURCE, TARGET
from phantoms import head, radii, save, voxels_of
from studies import record_of, sha256

import ndflow
from ndflow.transport import divergence


def test_the_record_holds_settings_and_checksums_of_inputs(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    other = save(tmp_path / "other.nii", OTHER)
    masks = {
        name: save(tmp_path / f"{name}.nii.gz", inside.astype(np.uint8))
        for name, inside in {
            "mask": radii() < 0.95,
            "to_mask": radii() < 0.9,
            "exclude": radii() < 0.2,
        }.items()
    }
    output = tmp_path / "out.nii.gz"
    words = ["normalise", scan, "--to", other, "-o", output, "--mask", masks["mask"]]
    words += ["--to-mask", masks["to_mask"], "--exclude", masks["exclude"]]
    words += ["--range", "0", "100", "--set", "outside=zero"]
    done = run(*words)
    assert (done.code, done.errors) == (0, [])
    record = record_of(output)
    assert (record["format"], record["version"], record["kind"]) == ("ndflow", 2, "map")
    assert record["ndflow"] == ndflow.__version__
    assert record["command"] == ["ndflow", *map(str, words)]
    assert record["settings"] == {
        "mask": "given",
        "exclude": True,
        "max_bytes": 4 << 30,
        "effective_count": 1e4,
        "method": "ndflow",
        "proportions": "average",
        "freeze": [],
        "objective": "cramer",
        "regularisation": 1e-3,
        "solver": "exact",
        "landmarks": 11,
        "scale": None,
        "range": [0, 100],
        "outside": "zero",
        "dtype": "float32",
        "force": False,
    }
    files = {
        "image": scan,
        "mask": masks["mask"],
        "lesion": masks["exclude"],
        "target": other,
        "target_mask": masks["to_mask"],
    }
    assert record["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}] for what, file in files.items()
    }
    assert record["warnings"] == []
    assert record["clipped"] == 0
    assert record["fit"].startswith("converged")
    assert record["match"]["message"].startswith("converged")


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_the_record_holds_the_divergence_before_and_after(normalised: Run, objective: str) -> None:
    found = record_of(normalised("--set", f"objective={objective}"))["match"]["divergence"]
    # In units where the target has unit variance, since the divergence depends on them.
    there = ndflow.transport.align(TARGET)
    standard = TARGET.transformed(there.matrix, there.offset)
    affine = ndflow.transport.align(SOURCE, TARGET)
    aligned = SOURCE.transformed(affine.matrix, affine.offset)
    matched = ndflow.transport.match(aligned, TARGET, objective=objective).matched
    before, after = (
        divergence(part.transformed(there.matrix, there.offset), standard, objective)
        for part in (aligned, matched)
    )
    assert found["objective"] == objective
    assert found["before"] == pytest.approx(before, rel=1e-6)
    assert found["after"] == pytest.approx(after, rel=1e-6)
    assert after < 0.5 * before


def test_the_record_holds_the_range_of_the_slopes(normalised: Run) -> None:
    found = record_of(normalised())["match"]["slopes"]
    low, high = SOURCE.quantile([0.0005, 0.9995])
    step = 1e-4 * (high - low)
    x = np.linspace(low + step, high - step, 5000)
    slopes = (EXACT(x + step) - EXACT(x - step)) / (2 * step)
    ends = np.array([slopes.min(), slopes.max()])
    np.testing.assert_allclose(found["range"], ends, rtol=0.01)
    alignment = np.sqrt(TARGET.covariance()[0, 0] / SOURCE.covariance()[0, 0])
    np.testing.assert_allclose(found["relative_to_affine"], ends / alignment, rtol=0.01)
    assert found["relative_to_affine"][0] < 0.95 < 1.05 < found["relative_to_affine"][1]


def test_the_map_of_the_record_is_the_one_that_made_the_image(normalised: Run) -> None:
    output = normalised()
    imap = ndflow.load(output.with_name("out.json"))
    assert isinstance(imap, ndflow.IntensityMap)
    inside = SCAN != 0
    assert np.array_equal(voxels_of(output)[inside], imap(SCAN[inside]).astype(np.float32))


def test_a_stray_voxel_is_an_outlier_and_counted_as_one(
    run: Run, target: Path, tmp_path: Path
) -> None:
    voxels = SCAN.astype(np.float32)
    voxels[12, 14, 10] = 1e30
    image, output = save(tmp_path / "a.nii.gz", voxels), tmp_path / "b.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output)
    assert done.code == 0
    counts = record_of(output)["voxels"]
    assert counts["outliers"] >= 1
    assert counts["fitted"] + counts["outliers"] == np.count_nonzero(voxels)
    assert np.isfinite(voxels_of(output)).all()


# ── determinism ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["out.nii.gz", "out.mgz"])
def test_the_same_command_gives_the_same_bytes(
    run: Run, scan: Path, tmp_path: Path, name: str
) -> None:
    other = save(tmp_path / "other.nii.gz", OTHER)
    found = []
    for _ in range(2):
        command = ("normalise", scan, "--to", other, "-o", tmp_path / name, "--force")
        assert run(*command).code == 0
        found.append(((tmp_path / name).read_bytes(), (tmp_path / "out.json").read_bytes()))
    assert found[0] == found[1]


def test_warnings_about_the_target_are_in_the_record(run: Run, inputs: Path) -> None:
    odd = head(1).astype(np.float32)
    odd[5, 5, 5] = np.nan
    target = save(inputs / "odd.nii.gz", odd)
    output = inputs / "x.nii.gz"
    done = run("normalise", inputs / "scan.nii.gz", "--to", target, "-o", output)
    (warning,) = record_of(output)["warnings"]
    assert "1 voxel NaN or infinite" in warning
    assert done.err == f"warning: {warning}\n"
