"""What is doubtful about the fit and the match of a scan."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, TAIL_LEVELS
from ndflow.methods.base import DensityModel, Solution
from ndflow.methods.modes import Goal, Visit
from ndflow.options import Options
from ndflow.subject.doubts import density_distance, far_from, fit_doubts, match_doubts
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import VoxelCounts
from ndflow.transport import Affine, PiecewiseLinear
from ndflow.values import Doubt

MEAN, SD = 500.0, 100.0
MIXTURE = GaussianMixture([1.0], [[MEAN]], [[[SD**-2]]])
STANDARD = GaussianMixture([1.0], [[0.0]], [[[1.0]]])
INNER, TAILS = (MIXTURE.quantile(at.clip(1e-5, 1 - 1e-5)) for at in (QUANTILE_LEVELS, TAIL_LEVELS))
MODEL = ScanModel(MIXTURE, quantiles=tuple(INNER), tails=tuple(TAILS))
ALIGNMENT = Affine(np.array([[1 / SD]]), np.array([-MEAN / SD]))
ENDS = np.array([0.0, 1000.0])
PLAIN = Solution(PiecewiseLinear(ENDS, ALIGNMENT(ENDS)), ALIGNMENT, "converged")


def to(target: GaussianMixture, **options: object) -> Goal:
    return Goal(DensityModel(target), Options(**options))  # type: ignore[arg-type]


def doubts(solution: Solution, goal: Goal | None = None, model: ScanModel = MODEL) -> list[Doubt]:
    (found,) = match_doubts(model, solution, goal or to(STANDARD))
    return [*found]


def kinds(*given: Any) -> list[str]:
    return [doubt.kind for doubt in doubts(*given)]


def bent(low: float, high: float, slope: float) -> Solution:
    """Return the alignment with another slope between two quantiles of the scan."""
    ends = MIXTURE.quantile(np.array([1e-6, low, high, 1 - 1e-6]))
    steps = np.diff(ends) / SD * np.array([1.0, slope, 1.0])
    values = np.concatenate([[0.0], np.cumsum(steps)]) + float(ALIGNMENT(ends[0]))
    return replace(PLAIN, imap=PiecewiseLinear(ends, values))


def test_a_poor_fit_is_doubtful_and_a_perfect_match_is_not() -> None:
    most = VoxelCounts(500, 0, 0, 0)
    (doubt,) = fit_doubts(0.08, most)
    assert "8.0%" in str(doubt)
    assert fit_doubts(0.02, replace(most, excluded=500)) == ()
    (doubt,) = fit_doubts(0.02, replace(most, excluded=502))
    assert "50% of the voxels" in doubt.text
    assert kinds(PLAIN) == []


@pytest.mark.parametrize(
    ("low", "high", "slope", "kind"),
    [
        (0.998, 0.9995, 88.0, "noise amplified"),  # beyond the 99th percentile
        (0.0005, 0.002, 5.0, "noise amplified"),
        (0.5, 0.52, 0.01, "flat map"),
        (0.3, 0.3005, 9.0, None),  # too few voxels
        (0.5, 0.505, 0.01, None),
        (0.5, 0.6, 3.5, None),  # too mild
        (0.4, 0.6, 0.25, None),
    ],
)
def test_slopes_count_by_the_voxels_affected_wherever_they_are(
    low: float, high: float, slope: float, kind: str | None
) -> None:
    found = [one for one in doubts(bent(low, high, slope)) if one.kind[:5] in ("noise", "flat ")]
    assert [one.kind for one in found] == ([kind] if kind else [])
    for doubt in found:
        assert f"{slope:g}" in doubt.text
        numbers = re.findall(r"([\d.]+)% .* from ([\d.]+) to ([\d.]+)", doubt.text)[0]
        share, first, last = map(float, numbers)
        assert share == pytest.approx(100 * (high - low), abs=0.101)
        assert (first, last) == pytest.approx(MIXTURE.quantile([low, high]).tolist(), abs=4)


def test_what_a_mask_adds_is_not_told_again_of_the_map() -> None:
    wide = replace(MODEL, doubts=(Doubt("no mask", "It is dark.", "give one"),))
    dark, bright = bent(0.0005, 0.01, 9.0), bent(0.99, 0.9995, 9.0)
    for model, expected in ((MODEL, ["noise amplified"]), (wide, [])):
        found = [doubt.kind for doubt in doubts(dark, model=model)]
        assert [kind for kind in found if kind.startswith("noise")] == expected
        assert "noise amplified" in kinds(bright, None, model)


@settings(max_examples=25)
@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_doubts_do_not_depend_on_the_units_of_the_result(scale: float, offset: float) -> None:
    solution = bent(0.2, 0.5, 6.0)
    units = Affine(np.array([[scale]]), np.array([offset]))
    moved = replace(
        solution,
        imap=PiecewiseLinear(solution.imap.knots, units(solution.imap(solution.imap.knots))),  # type: ignore[attr-defined]
        affine=Affine(scale * ALIGNMENT.matrix, units(ALIGNMENT.offset)),
    )
    target = STANDARD.transformed(units.matrix, units.offset)
    assert kinds(moved, to(target)) == kinds(solution)


def test_what_is_left_between_result_and_target_is_told_in_standard_deviations() -> None:
    two = GaussianMixture([0.5, 0.5], [[-0.99], [0.99]], [[[50.0]], [[50.0]]])
    (doubt,) = doubts(PLAIN, to(two))
    left = np.abs(ALIGNMENT(INNER) - two.quantile(QUANTILE_LEVELS)).mean()
    assert doubt.kind == "far from target"
    assert f"{left / np.sqrt(two.covariance()[0, 0]):.2f} sd" in doubt.text
    visits = replace(to(two), visits=(Visit(DensityModel(MIXTURE), None),) * 2)
    (doubt,) = doubts(PLAIN, visits)
    assert "visits=apart" in doubt.hint


def test_each_channel_of_a_joint_map_is_judged_by_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * [10.0, 2.0] + [100.0, 30.0]
    target = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    for slopes, expected in (
        ((1, 1), [[], []]),
        ((-1, 1), [["reversed contrast"], []]),
        ((1, 5), [[], ["far from target", "worse than z-scoring", "noise amplified"]]),
    ):
        matrix = np.diag(slopes) * [0.1, 0.5]
        solution = Solution(Affine(matrix, -matrix @ [100.0, 30.0]), None, "converged")
        parts = match_doubts(ScanModel(target), solution, to(target), rows)
        assert [[doubt.kind for doubt in part] for part in parts] == expected


# ── densities unlike others ──────────────────────────────────────────────────────────────────────


def test_the_distance_is_the_mean_difference_of_aligned_quantiles() -> None:
    two = GaussianMixture([0.5, 0.5], [-100.0, 100.0], [1e4, 1e4])  # aligned: ±1
    exact = np.abs(np.abs(norm.ppf(np.arange(1, 200) / 200)) - 1).mean()
    # At ½, the quantile may be either end.
    assert density_distance(MIXTURE, two) == pytest.approx(exact, abs=6e-3)


@pytest.mark.parametrize(("value", "away"), [(0.71, 0.0), (0.9, 0.3), (0.3, -0.3)])
def test_far_means_many_spreads_and_not_just_a_little(value: float, away: float) -> None:
    values = np.array([0.57, 0.58, 0.6, 0.6, 0.62, 0.63, value])
    assert far_from(values, least=0.1)[-1] == pytest.approx(away)
    assert not far_from(values, least=0.5).any()
