"""Which scans of a study are pointed out on its page, and with which words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.density import GaussianMixture
from ndflow.report.qc import quality_flags
from ndflow.report.scan_summary import ScanSummary
from ndflow.study.scan_jobs import Member
from ndflow.transport import Affine, IntensityMap, PiecewiseLinear

MEAN, SPREAD = 500.0, 100.0
ALIGNED = 1 / SPREAD  # the slope of the way to zero mean and unit spread
MIXTURE = GaussianMixture([1.0], [[MEAN]], [[[SPREAD**-2]]])


def bent(*slopes: float) -> PiecewiseLinear:
    """Return a map whose slopes, in equal pieces from −6 to 6 sd, are these times the alignment."""
    knots = np.linspace(MEAN - 6 * SPREAD, MEAN + 6 * SPREAD, len(slopes) + 1)
    steps = np.diff(knots) * ALIGNED * np.array(slopes)
    return PiecewiseLinear(knots, np.concatenate([[0.0], np.cumsum(steps)]))


def account(
    name: str = "s",
    *,
    imap: IntensityMap | None = None,
    misfit: float | None = 0.005,
    left: float | None = 1e-5,
    voxels: int | None = 100_000,
    warnings: tuple[str, ...] = (),
) -> ScanSummary:
    """Return a scan that is as it should be, but for what is said otherwise."""
    imap = imap or Affine(np.array([[ALIGNED]]), np.array([-MEAN * ALIGNED]))
    slopes = np.exp(imap.log_det_jacobian(np.linspace(MEAN - 4 * SPREAD, MEAN + 4 * SPREAD, 999)))
    ends = [float(slopes.min()), float(slopes.max())]
    model: dict[str, Any] = {"misfit": misfit}
    if voxels is not None:
        model["voxels"] = {"fitted": voxels, "excluded": 0}
    record: dict[str, Any] = {
        "warnings": list(warnings),
        "divergence": None if left is None else {"objective": "l2", "before": 0.1, "after": left},
        "jacobian": {"range": ends, "relative_to_affine": [end / ALIGNED for end in ends]},
    }
    member = Member(name, f"{name}.nii.gz", None, Path("out"), "images/*.nii.gz", "maps/*.json")
    return ScanSummary(member, MIXTURE, imap, model, record)


def alone(scan: ScanSummary) -> list[str]:
    """Return the flags of a scan among eight that have none."""
    *others, own = quality_flags([*(account(f"o{number}") for number in range(8)), scan])
    assert others == [[]] * 8
    return own


def test_ordinary_scans_have_no_flags() -> None:
    scans = [
        account(f"s{number}", imap=bent(0.5, 1 + 0.1 * number, 2), left=1e-5 * (1 + number))
        for number in range(6)
    ]
    assert quality_flags(scans) == [[]] * 6
    assert quality_flags([]) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"misfit": 0.08}, ("8.0%", "mixture", "histogram")),
        ({"left": 1e-2}, ("0.01", "1000 times", "lesion")),
        ({"imap": bent(1, 1, 6.25, 1, 1)}, ("stretches", "6.2 times", "noise")),
        ({"imap": bent(1, 1, 0.05, 1, 1)}, ("squeezes", "0.05", "contrast")),
        ({"voxels": 30_000}, ("30,000 voxels", "mask")),
        ({"warnings": ("the mask lies beside the image",)}, ("the mask lies beside the image",)),
    ],
)
def test_what_is_unusual_is_said_in_one_sentence(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    (sentence,) = alone(account(**changes))
    assert [word for word in words if word not in sentence] == []


def test_a_scan_may_have_several_flags() -> None:
    odd = account(misfit=0.5, left=0.3, voxels=10, imap=bent(1, 9, 0.01), warnings=("a", "b"))
    assert len(alone(odd)) == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"misfit": 0.02},
        {"misfit": None},
        {"left": 9e-5},  # more than usual, and still nothing
        {"left": None},
        {"imap": bent(1, 1, 3.5, 1, 1)},
        {"imap": bent(1, 1, 0.25, 1, 1)},
        {"voxels": 50_000},
        {"voxels": None},
    ],
)
def test_what_is_within_bounds_or_not_known_is_not_flagged(changes: dict[str, Any]) -> None:
    assert alone(account(**changes)) == []


def test_slopes_count_where_the_scan_has_voxels_only() -> None:
    # 12 pieces of one sd: the outermost are beyond the first and the last percent.
    assert alone(account(imap=bent(0.01, 9, *[1] * 8, 9, 0.01))) == []


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_slopes_are_told_whatever_the_units_of_the_result(scale: float, offset: float) -> None:
    inner = bent(1, 6, 0.05, 1, 1)
    imap = PiecewiseLinear(inner.knots, offset + scale * np.asarray(inner(inner.knots)))
    scan = account(imap=imap)
    # The slope of the alignment to a target of that spread.
    ends = np.array(scan.record["jacobian"]["range"])
    scan.record["jacobian"]["relative_to_affine"][:] = (ends / (scale * ALIGNED)).tolist()
    assert [text.split(" some ")[0] for text in alone(scan)] == [
        "The map stretches",
        "The map squeezes",
    ]


def test_few_voxels_are_few_also_where_all_scans_have_few() -> None:
    assert [len(own) for own in quality_flags([account(voxels=4000) for _ in range(3)])] == [
        1,
        1,
        1,
    ]
    assert quality_flags([account(voxels=6000)]) == [[]]


def test_divergence_is_measured_against_the_other_scans() -> None:
    poor = [account(left=0.02) for _ in range(5)]
    assert quality_flags(poor) == [[]] * 5
    assert [len(own) for own in quality_flags([*poor, account(left=0.2)])] == [0] * 5 + [1]


def test_a_divergence_among_scans_that_have_none_left_is_flagged() -> None:
    *others, own = quality_flags([*(account(left=0.0) for _ in range(4)), account(left=0.01)])
    assert others == [[]] * 4
    assert len(own) == 1
    assert "0.01 of divergence" in own[0]


def test_methods_without_divergence_or_slopes_are_no_reason_to_worry() -> None:
    bare = account(left=None)
    record = {"warnings": [], "divergence": None, "jacobian": None}
    scan = ScanSummary(bare.member, bare.mixture, bare.imap, {}, record)
    assert quality_flags([scan, scan]) == [[], []]
