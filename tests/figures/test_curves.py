"""Figures of curves: densities with their mixtures, intensity maps, and fits to a target."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from ndflow.figures.curves import (
    DensityCurves,
    FitCurves,
    MapCurves,
    scan_figure,
)
from ndflow.figures.style import svg

X, Y = np.linspace(0, 100, 200), np.linspace(-4, 4, 200)
P = np.arange(1, 200) / 200
PARTS = np.array([norm.pdf(X, mean, 10) / 3 for mean in (30, 45, 60)])


def curve(bend: float = 0.1) -> MapCurves:
    return MapCurves(
        X, (X - 50) / 10 + bend * np.sin(X / 10), 0.1 + 0.1 * bend * np.cos(X / 10), (X - 50) / 10
    )


def fit(shift: float = 0.0, **changes) -> FitCurves:
    made = FitCurves(Y, norm.pdf(Y, shift), norm.pdf(Y), norm.ppf(P, shift), norm.ppf(P))
    return made._replace(**changes)


def scan(after: FitCurves | None = None, imap: MapCurves | None = None, **changes) -> Figure:
    before = DensityCurves(X, sum(PARTS), sum(PARTS), PARTS)._replace(**changes)
    return scan_figure(before, imap or curve(), after or fit())


ONE = {"quantiles": np.ones(1), "target_quantiles": np.ones(1)}


def test_a_scan_is_drawn_with_its_mixture_its_map_and_its_fit():
    density, upper, lower, result, differences = scan(fit(0.5)).axes
    *parts, mixture = density.lines
    assert len(parts) == 3
    np.testing.assert_allclose(mixture.get_ydata(), sum(part.get_ydata() for part in parts))
    straight, bent = upper.lines
    np.testing.assert_allclose(straight.get_ydata(), (X - 50) / 10)
    np.testing.assert_allclose(bent.get_ydata(), (X - 50) / 10 + 0.1 * np.sin(X / 10))
    one, slope = lower.lines
    assert set(one.get_ydata()) == {1}
    np.testing.assert_allclose(slope.get_ydata(), 1 + 0.1 * np.cos(X / 10))
    np.testing.assert_allclose(result.patches[0].get_data().values, norm.pdf(Y, 0.5))
    np.testing.assert_allclose(differences.lines[1].get_ydata(), 0.5)  # the shift
    low, high = differences.get_ylim()
    assert low == -high < -0.5


def test_the_positions_of_tissues_are_bands():
    result = scan(fit(bands={"GM": (-1.0, 0.0), "WM": (1.0, 1.5)})).axes[3]
    assert [(one.get_x(), one.get_width()) for one in result.patches[1:]] == [(-1, 1), (1, 0.5)]
    assert [text.get_text() for text in result.texts] == ["GM", "WM"]
    assert not scan().axes[3].texts


@pytest.mark.parametrize(
    "odd",
    [
        partial(scan, components=PARTS[:1]),
        partial(scan, imap=curve()._replace(y=0 * X, slope=0 * X)),
        partial(scan, fit(histogram=0 * Y, target=0 * Y), histogram=0 * X, mixture=0 * X),
        partial(scan, fit(**ONE)),
    ],
)
def test_degenerate_scans_can_be_drawn(odd: Callable[[], Figure]):
    figure = odd()
    for axes in figure.axes:
        assert np.ptp(axes.get_ylim()) > 0
    assert b"nan" not in svg(figure)
