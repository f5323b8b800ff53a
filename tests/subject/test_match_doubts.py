"""What is doubtful about the fit and the match of a scan."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, TAIL_LEVELS
from ndflow.methods.base import DensityModel, Solution
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.subject.doubts import VoxelQuantiles, fit_doubts, match_doubts
from ndflow.subject.records import ScanModel
from ndflow.transport import Affine, PiecewiseLinear
from ndflow.values import Doubt

MEAN, SD = 500.0, 100.0
MIXTURE = GaussianMixture([1.0], [[MEAN]], [[[SD**-2]]])
STANDARD = GaussianMixture([1.0], [[0.0]], [[[1.0]]])
MODEL = ScanModel(MIXTURE)
VOXELS = VoxelQuantiles.of_model(MODEL)
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


KINDS = ("noise amplified", "flat map")


def bent(low: float, high: float, slope: float) -> Solution:
    """Return the alignment with another slope between two quantiles of the scan."""
    ends = MIXTURE.quantile(np.array([1e-6, low, high, 1 - 1e-6]))
    steps = np.diff(ends) / SD * np.array([1.0, slope, 1.0])
    values = np.concatenate([[0.0], np.cumsum(steps)]) + float(ALIGNMENT(ends[0]))
    return replace(PLAIN, imap=PiecewiseLinear(ends, values))


def test_a_poor_fit_is_doubtful() -> None:
    (doubt,) = fit_doubts(0.08)
    assert doubt.kind == "poor fit"
    assert "8.0%" in str(doubt)


@pytest.mark.parametrize(
    ("low", "high", "slope", "kind"),
    [
        (0.998, 0.9995, 88.0, "noise amplified"),  # beyond the 99th percentile
        (0.0005, 0.002, 5.0, "noise amplified"),
        (0.3, 0.302, 9.0, "noise amplified"),
        (0.98, 0.9995, 0.1, "flat map"),
        (0.5, 0.52, 0.01, "flat map"),
    ],
)
def test_slopes_count_by_the_voxels_affected_wherever_they_are(
    low: float, high: float, slope: float, kind: str
) -> None:
    (doubt,) = (one for one in doubts(bent(low, high, slope)) if one.kind in KINDS)
    assert doubt.kind == kind
    assert f"{slope:g}" in doubt.text
    share, first, last = map(
        float, re.findall(r"([\d.]+)% .* from ([\d.]+) to ([\d.]+)", doubt.text)[0]
    )
    assert share == pytest.approx(100 * (high - low), abs=0.101)
    assert (first, last) == pytest.approx(MIXTURE.quantile([low, high]).tolist(), abs=4)


def test_outliers_count_among_the_voxels() -> None:
    tails = np.where(TAIL_LEVELS > 0.997, 5000.0, VOXELS.tails)
    far = ScanModel(MIXTURE, quantiles=tuple(VOXELS.inner), tails=tuple(tails))
    solution = bent(0.9999, 0.99999, 1.0)
    knots = solution.imap.knots  # type: ignore[attr-defined]
    stretched = PiecewiseLinear(
        np.append(knots, 6000.0), np.append(solution.imap(knots), solution.imap(knots[-1:]) + 500)
    )
    assert kinds(replace(solution, imap=stretched), to(STANDARD), far) == ["noise amplified"]


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


TWO = GaussianMixture([0.5, 0.5], [[-0.99], [0.99]], [[[50.0]], [[50.0]]])


def test_what_is_left_between_result_and_target_is_told_in_standard_deviations() -> None:
    (doubt,) = doubts(PLAIN, to(TWO))
    left = np.abs(ALIGNMENT(VOXELS.inner) - TWO.quantile(QUANTILE_LEVELS)).mean()
    assert doubt.kind == "far from target"
    assert f"{left / np.sqrt(TWO.covariance()[0, 0]):.2f} standard deviations" in doubt.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "--set objective=cramer"),
        ({"objective": "cramer"}, "--set regularisation="),
        ({"method": "nyul"}, "a few intensities"),
    ],
)
def test_a_result_worse_than_alignment_says_why(options: dict[str, str], why: str) -> None:
    solution = replace(PLAIN, imap=PiecewiseLinear(ENDS, 1.1 * ALIGNMENT(ENDS)))
    (doubt,) = doubts(solution, to(STANDARD, **options))
    assert doubt.kind == "worse than z-scoring"
    assert "0.079 standard deviations) than after z-scoring alone (0.000)" in doubt.text
    assert why in doubt.hint
    assert "--method affine" in doubt.hint


# ── several channels ──────────────────────────────────────────────────────────────────────────────


def test_each_channel_of_a_joint_map_is_judged_by_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * [10.0, 2.0] + [100.0, 30.0]
    target = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])

    def found(*slopes: float) -> list[list[str]]:
        matrix = np.diag(slopes) * [0.1, 0.5]
        solution = Solution(Affine(matrix, -matrix @ [100.0, 30.0]), None, "converged")
        parts = match_doubts(ScanModel(target), solution, to(target), rows)
        return [[doubt.kind for doubt in part] for part in parts]

    assert found(1, 1) == [[], []]
    assert found(-1, 1) == [["reversed contrast"], []]
    assert found(1, 5) == [[], ["far from target", "worse than z-scoring", "noise amplified"]]


def test_a_perfect_match_is_beyond_doubt() -> None:
    assert kinds(PLAIN) == []
    assert fit_doubts(0.02) == ()


@pytest.mark.parametrize(
    ("low", "high", "slope"),
    [
        (0.3, 0.3005, 9.0),
        (0.5, 0.505, 0.01),
        (0.9995, 0.9999, 88.0),
        (0.5, 0.6, 3.5),
        (0.4, 0.6, 0.25),
    ],
)
def test_few_voxels_or_mild_slopes_are_not_doubtful(low: float, high: float, slope: float) -> None:
    assert not [kind for kind in kinds(bent(low, high, slope)) if "map" in kind]
