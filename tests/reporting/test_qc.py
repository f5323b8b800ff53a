"""Which scans of a study are flagged in its report, and with which words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.density import GaussianMixture
from ndflow.image.scans import Scan
from ndflow.methods.solution import Divergence, MatchRecord, SlopeRange
from ndflow.reporting.qc import quality_flags
from ndflow.reporting.scan_summary import ScanSummary
from ndflow.scan.reading import VoxelCounts
from ndflow.scan.records import MapRecord, ScanModel
from ndflow.study.plan import ResultPaths
from ndflow.transport import Affine, IntensityMap, PiecewiseLinear

MEAN, SD = 500.0, 100.0
ALIGNED = 1 / SD  # the slope of the map to zero mean and unit variance
MIXTURE = GaussianMixture([1.0], [[MEAN]], [[[SD**-2]]])


def bent(*slopes: float) -> PiecewiseLinear:
    """Return a map whose slopes, in equal pieces from −6 to 6 sd, are these times the alignment."""
    knots = np.linspace(MEAN - 6 * SD, MEAN + 6 * SD, len(slopes) + 1)
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
    alignment: float = ALIGNED,
    mode: str = "individual",
) -> ScanSummary:
    """Return an ordinary scan, except for what is given."""
    imap = imap or Affine(np.array([[ALIGNED]]), np.array([-MEAN * ALIGNED]))
    slopes = np.exp(imap.log_det_jacobian(np.linspace(MEAN - 4 * SD, MEAN + 4 * SD, 999)))
    ends = float(slopes.min()), float(slopes.max())
    match = MatchRecord(
        "converged",
        SlopeRange(ends, (ends[0] / alignment, ends[1] / alignment)),
        None if left is None else Divergence("l2", 0.1, left),
    )
    counts = None if voxels is None else VoxelCounts(voxels, 0, 0, 0)
    model = ScanModel(MIXTURE, misfit=misfit, voxels=counts)
    record = MapRecord(imap, match=match, warnings=warnings, settings={"mode": mode})
    scan = Scan(f"{name}.nii.gz", name=name)
    return ScanSummary(scan, ResultPaths(Path("m"), Path("i"), Path("s")), model, record)


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
def test_each_flag_is_one_sentence(changes: dict[str, Any], words: tuple[str, ...]) -> None:
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
        {"left": 9e-5},  # more than usual, but negligible
        {"left": None},
        {"imap": bent(1, 1, 3.5, 1, 1)},
        {"imap": bent(1, 1, 0.25, 1, 1)},
        {"voxels": 50_000},
        {"voxels": None},
    ],
)
def test_values_within_bounds_or_unknown_are_not_flagged(changes: dict[str, Any]) -> None:
    assert alone(account(**changes)) == []


def test_slopes_count_where_the_scan_has_voxels_only() -> None:
    # 12 pieces of one sd: the outermost are beyond the first and the last percent.
    assert alone(account(imap=bent(0.01, 9, *[1] * 8, 9, 0.01))) == []


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_slopes_are_reported_whatever_the_units_of_the_result(scale: float, offset: float) -> None:
    inner = bent(1, 6, 0.05, 1, 1)
    imap = PiecewiseLinear(inner.knots, offset + scale * np.asarray(inner(inner.knots)))
    # The alignment to a target of that standard deviation has another slope.
    scan = account(imap=imap, alignment=scale * ALIGNED)
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
    assert "a divergence of 0.01" in own[0]


def test_the_divergence_of_a_site_is_not_that_of_its_scans() -> None:
    for mode, flags in (("individual", 1), ("two-level", 1), ("site", 0)):
        assert len(alone(account(left=1e-2, mode=mode))) == flags


def test_warnings_of_the_fit_are_flags_too() -> None:
    scan = account(warnings=("a warning of the map",))
    model = replace(scan.model, warnings=("a warning of the fit",))
    assert alone(replace(scan, model=model)) == ["a warning of the fit", "a warning of the map"]


def test_methods_without_divergence_or_slopes_are_no_reason_to_worry() -> None:
    bare = account()
    for match in (None, MatchRecord("aligned")):
        record = MapRecord(bare.imap, match=match)
        scan = ScanSummary(bare.scan, bare.paths, ScanModel(MIXTURE), record)
        assert quality_flags([scan, scan]) == [[], []]
