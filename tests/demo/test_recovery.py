"""How well the scans of the demonstration agree: closed forms, and what must not matter."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.demo.run import Truth, recovery_of
from ndflow.transport import Affine, Chain, IntensityMap, PiecewiseLinear

C = np.linspace(0.2, 0.9, 99)
STRAIGHT = PiecewiseLinear(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
CURVES = (
    PiecewiseLinear(np.array([0.0, 0.4, 1.1]), np.array([5.0, 300.0, 500.0])),
    PiecewiseLinear(np.array([0.0, 0.6, 1.1]), np.array([1.0, 90.0, 300.0])),
    PiecewiseLinear(np.array([0.0, 0.3, 0.7, 1.1]), np.array([0.0, 200.0, 900.0, 1000.0])),
)


def line(slope: float, start: float) -> Affine:
    return Affine(np.array([[slope]]), np.array([start]))


def truths_of(*curves: PiecewiseLinear) -> dict[str, Truth]:
    return {f"scan {n}": Truth(curve, C) for n, curve in enumerate(curves)}


def maps_of(*maps: IntensityMap) -> dict[str, IntensityMap]:
    return {f"scan {n}": imap for n, imap in enumerate(maps)}


def then(maps: Mapping[str, IntensityMap], last: IntensityMap) -> dict[str, IntensityMap]:
    return {name: Chain((imap, last)) for name, imap in maps.items()}


@given(slope=st.floats(0.01, 100), start=st.floats(-100, 100))
def test_the_inverse_curves_recover_the_truth_in_any_units(slope: float, start: float) -> None:
    undone = maps_of(*(curve.inverse() for curve in CURVES))
    found = recovery_of(then(undone, line(slope, start)), truths_of(*CURVES))
    assert max(found) < 1e-6


def test_scans_of_different_gain_disagree_as_the_closed_form_says() -> None:
    gains = np.array([0.8, 1.0, 1.3, 1.7])
    maps = maps_of(*(line(gain, 0) for gain in gains))
    found = recovery_of(maps, truths_of(*[STRAIGHT] * 4))
    expected = (1 / gains).std() / (1 / gains).mean() * np.sqrt((C**2).mean()) / C.std()
    assert found.spread == pytest.approx(expected)


def test_a_bend_shared_by_all_scans_is_an_error_but_no_spread() -> None:
    bend = PiecewiseLinear(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.2, 1.0]))
    found = recovery_of(maps_of(bend, bend), truths_of(STRAIGHT, STRAIGHT))
    r = np.corrcoef(C, bend(C))[0, 1]
    # The residual of a regression, relative to what it explains.
    assert found.error == pytest.approx(np.sqrt(1 / r**2 - 1))
    assert found.spread == pytest.approx(0, abs=1e-12)
    # Nor does it change how far other maps spread.
    lines, truths = maps_of(line(1 / 400, 0.1), line(1 / 250, 0.05)), truths_of(*CURVES[:2])
    plain = recovery_of(lines, truths).spread
    assert recovery_of(then(lines, bend), truths).spread == pytest.approx(plain, rel=1e-6)
