"""The figure of one scan: as scanned, its intensity map, and after normalisation."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from ndflow.figures.curves import DensityCurves, FitCurves, MapCurves, scan_figure
from ndflow.figures.style import svg

X = np.linspace(0, 100, 200)
Y = np.linspace(-4, 4, 200)
P = np.arange(1, 200) / 200


def panel(shift: float = 0.0, count: int = 2, **changes) -> Figure:
    means = np.linspace(30, 60, count)
    parts = np.array([stats.norm.pdf(X, mean, 10) / count for mean in means])
    given = {
        "histogram": sum(parts),
        "mixture": sum(parts),
        "map_y": (X - 50) / 10 + 0.1 * np.sin(X / 10),
        "map_slope": 0.1 + 0.01 * np.cos(X / 10),
        "y": Y,
        "result": stats.norm.pdf(Y, shift),
        "target": stats.norm.pdf(Y),
        "quantiles": stats.norm.ppf(P, shift),
        "target_quantiles": stats.norm.ppf(P),
    } | changes
    return scan_figure(
        DensityCurves(X, given["histogram"], given["mixture"], parts),
        MapCurves(X, given["map_y"], given["map_slope"], (X - 50) / 10),
        FitCurves(
            *(given[name] for name in ("y", "result", "target", "quantiles", "target_quantiles"))
        ),
    )


def bare(**changes) -> Figure:
    return panel(target=None, quantiles=None, target_quantiles=None, **changes)


def test_the_columns_are_the_scan_its_intensity_map_and_the_result():
    figure = panel()
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["as scanned", "intensity map", "", "after normalisation", ""]
    places = [a.get_position() for a in figure.axes]
    assert places[0].x1 < places[1].x0 == places[2].x0 < places[1].x1 < places[3].x0
    assert places[2].y1 < places[1].y0
    assert places[4].y1 < places[3].y0
    assert all(a.bbox.width > 100 and a.bbox.height > 30 for a in figure.axes)


def test_the_mixture_is_the_sum_of_the_components_drawn_with_it():
    *parts, mixture = panel(count=3).axes[0].lines
    assert len(parts) == 3
    np.testing.assert_allclose(mixture.get_ydata(), sum(part.get_ydata() for part in parts))
    density = sum(stats.norm.pdf(mixture.get_xdata(), mean, 10) for mean in (30, 45, 60)) / 3
    np.testing.assert_allclose(mixture.get_ydata(), density)
    assert mixture.get_xdata()[[0, -1]].tolist() == [0, 100]


def test_a_nonlinear_map_departs_from_the_affine_line_and_its_slope_from_one():
    figure = panel()
    straight, bent = figure.axes[1].lines
    x = bent.get_xdata()
    np.testing.assert_allclose(straight.get_ydata(), (x - 50) / 10)
    np.testing.assert_allclose(bent.get_ydata(), (x - 50) / 10 + 0.1 * np.sin(x / 10))
    one, slope = figure.axes[2].lines
    assert set(one.get_ydata()) == {1}
    np.testing.assert_allclose(slope.get_ydata(), 1 + 0.1 * np.cos(x / 10))
    assert figure.axes[2].get_ylim()[0] == 0


@pytest.mark.parametrize("shift", [0.5, -0.02])
def test_the_difference_of_quantiles_of_a_shifted_scan_is_the_shift(shift: float):
    axes = panel(shift).axes[4]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), shift)
    low, high = axes.get_ylim()
    assert low == -high
    assert abs(shift) < high
    assert axes.get_xlim() == (-4, 4)


def test_a_spike_in_the_histogram_does_not_flatten_the_mixture():
    mixture = stats.norm.pdf(X, 50, 10)
    figure = panel(histogram=np.where(X == 0, 50.0, mixture), mixture=mixture)
    assert figure.axes[0].get_ylim()[1] < 2 * mixture.max()


def test_without_a_target_there_is_only_the_histogram_of_the_result():
    figure = bare()
    assert len(figure.axes) == 4
    assert not figure.axes[3].lines
    assert figure.axes[3].bbox.height == pytest.approx(figure.axes[0].bbox.height, rel=0.05)


@pytest.mark.parametrize(
    "odd",
    [
        partial(panel, count=1),
        partial(bare, count=1),
        partial(panel, map_y=np.zeros(X.size), map_slope=np.zeros(X.size)),
        partial(panel, histogram=0 * X, mixture=0 * X, result=0 * Y, target=0 * Y),
        partial(panel, quantiles=np.ones(1), target_quantiles=np.ones(1)),
        partial(panel, y=np.arange(2.0), result=np.arange(2.0), target=np.ones(2)),
    ],
)
def test_degenerate_scans_can_be_drawn(odd: Callable[[], Figure]):
    assert svg(odd()) == svg(odd())
