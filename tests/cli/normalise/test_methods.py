"""``ndflow normalise``: methods, and the options of the match."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run
from one_scan import CLOSE, EXACT, OTHER, SCAN, SOURCE, TARGET, TARGET_SD, exact_map, fitted
from phantoms import save, voxels_of
from studies import record_of

import ndflow


def moments(mixture: ndflow.GaussianMixture) -> tuple[float, float]:
    weights, means = mixture.weights, mixture.means[:, 0]
    mean = float(np.sum(weights * means))
    variance = np.sum(weights * (1 / mixture.precisions[:, 0, 0] + means**2)) - mean**2
    return mean, float(np.sqrt(variance))


def test_the_affine_method_aligns_mean_and_standard_deviation_alone(normalised: Run) -> None:
    output = normalised("--method", "affine")
    (mean, sd), (to_mean, to_sd) = moments(SOURCE), moments(TARGET)
    inside = SCAN != 0
    expected = (SCAN[inside] - mean) / sd * to_sd + to_mean
    np.testing.assert_allclose(voxels_of(output)[inside], expected, rtol=1e-6, atol=1e-3)
    record = record_of(output)
    divergence, slopes = record["match"]["divergence"], record["match"]["slopes"]
    assert divergence["before"] == divergence["after"] > 0
    assert slopes["range"] == pytest.approx([to_sd / sd] * 2)
    assert slopes["relative_to_affine"] == pytest.approx([1, 1])


def mass_apart(output: Path) -> float:
    """Return the Wasserstein-1 distance between the voxels and those of the target."""
    shares = (np.arange(500) + 0.5) / 500
    result, there = voxels_of(output)[SCAN != 0], OTHER[OTHER != 0]
    return float(np.abs(np.quantile(result, shares) - np.quantile(there, shares)).mean())


def test_the_flow_comes_nearer_to_the_target_than_the_alignment(normalised: Run) -> None:
    flow, affine = normalised(name="a.nii"), normalised("--method", "affine", name="b.nii")
    assert mass_apart(flow) < 0.5 * mass_apart(affine)


OPTIONS: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {
    "objective": (("--set", "objective=l2"), {"objective": "l2"}),
    "regularisation": (("--set", "regularisation=0.1"), {"regularisation": 0.1}),
    "solver": (("--set", "solver=rk4"), {"solver": "rk4"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_match_reach_the_map(normalised: Run, name: str) -> None:
    options, settings = OPTIONS[name]
    output = normalised(*options)
    exact = exact_map(SOURCE, TARGET, **settings)
    inside = SCAN != 0
    off = np.abs(voxels_of(output)[inside] - exact(SCAN[inside])).max()
    assert off < CLOSE * TARGET_SD
    assert record_of(output)["settings"][name] == settings[name]
    # The solver changes how the map is computed, not the map.
    moved = np.abs(exact(SCAN[inside]) - EXACT(SCAN[inside])).max()
    assert (moved > 10 * CLOSE * TARGET_SD) == (name != "solver")


def test_the_effective_count_reaches_the_fits_of_scan_and_target(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    other, output = save(tmp_path / "other.nii.gz", OTHER), tmp_path / "out.nii.gz"
    command = ("normalise", scan, "--to", other, "-o", output, "--set", "effective-count=200")
    assert run(*command).code == 0
    record = record_of(output)
    assert record["settings"]["effective_count"] == 200
    for voxels, part in ((SCAN, record), (OTHER, record["target"])):
        mixture = ndflow.GaussianMixture.from_dict(part["mixture"])
        assert mixture == fitted(voxels, effective_count=200).mixture
        assert mixture != fitted(voxels).mixture
