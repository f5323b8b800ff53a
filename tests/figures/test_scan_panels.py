"""The figure of one scan: as scanned, its intensity map, and after normalisation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.figures.scan_panels import ScanPanel, scan_figure
from ndflow.figures.style import png, svg

X = np.linspace(0, 100, 200)
Y = np.linspace(-4, 4, 200)
P = np.arange(1, 200) / 200


def panel(shift: float = 0.0, count: int = 2, **changes) -> ScanPanel:
    means = np.linspace(30, 60, count)
    parts = [stats.norm.pdf(X, mean, 10) / count for mean in means]
    given = {
        "x": X,
        "histogram": sum(parts),
        "mixture": sum(parts),
        "components": parts,
        "map_x": X,
        "map_y": (X - 50) / 10 + 0.1 * np.sin(X / 10),
        "map_slope": 0.1 + 0.01 * np.cos(X / 10),
        "map_straight": (X - 50) / 10,
        "y": Y,
        "result": stats.norm.pdf(Y, shift),
        "target": stats.norm.pdf(Y),
        "quantiles": stats.norm.ppf(P, shift),
        "target_quantiles": stats.norm.ppf(P),
    }
    return ScanPanel(**(given | changes))


def bare(**changes) -> ScanPanel:
    return panel(target=None, quantiles=None, target_quantiles=None, **changes)


def steps(figure: Figure, axes: int) -> tuple[np.ndarray, np.ndarray]:
    (drawn,) = figure.axes[axes].patches
    data = drawn.get_data()
    return data.values, data.edges


def test_the_columns_are_the_scan_its_intensity_map_and_the_result():
    figure = scan_figure(panel())
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["as scanned", "intensity map", "", "after normalisation", ""]
    places = [a.get_position() for a in figure.axes]
    assert places[0].x1 < places[1].x0 == places[2].x0 < places[1].x1 < places[3].x0
    assert places[2].y1 < places[1].y0
    assert places[4].y1 < places[3].y0
    assert all(a.bbox.width > 100 and a.bbox.height > 30 for a in figure.axes)


def test_the_mixture_is_the_sum_of_the_components_drawn_with_it():
    *parts, mixture = scan_figure(panel(count=3)).axes[0].lines
    assert len(parts) == 3
    np.testing.assert_allclose(mixture.get_ydata(), sum(part.get_ydata() for part in parts))
    density = sum(stats.norm.pdf(mixture.get_xdata(), mean, 10) for mean in (30, 45, 60)) / 3
    np.testing.assert_allclose(mixture.get_ydata(), density)
    assert mixture.get_xdata()[[0, -1]].tolist() == [0, 100]


def test_a_nonlinear_map_departs_from_the_affine_line_and_its_slope_from_one():
    figure = scan_figure(panel())
    straight, bent = figure.axes[1].lines
    x = bent.get_xdata()
    np.testing.assert_allclose(straight.get_ydata(), [-5, 5])
    np.testing.assert_allclose(bent.get_ydata(), (x - 50) / 10 + 0.1 * np.sin(x / 10))
    one, slope = figure.axes[2].lines
    assert set(one.get_ydata()) == {1}
    np.testing.assert_allclose(slope.get_ydata(), 1 + 0.1 * np.cos(x / 10))
    assert figure.axes[2].get_ylim()[0] == 0


@pytest.mark.parametrize("shift", [0.5, -0.02])
def test_the_difference_of_quantiles_of_a_shifted_scan_is_the_shift(shift: float):
    axes = scan_figure(panel(shift)).axes[4]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), shift)
    low, high = axes.get_ylim()
    assert low == -high
    assert abs(shift) < high
    assert axes.get_xlim() == (-4, 4)


def test_rounding_errors_of_a_perfect_fit_are_not_magnified():
    axes = scan_figure(panel(1e-9)).axes[4]
    assert axes.get_ylim()[1] == pytest.approx(0.04)  # 0.5 % of the range of 8


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 700), st.integers(0, 100))
def test_coarser_bins_preserve_the_mass(size: int, seed: int):
    heights = np.random.default_rng(seed).gamma(1.0, size=size)
    y = 3 + 0.5 * np.arange(size)
    values, edges = steps(scan_figure(bare(y=y, result=heights)), 3)
    assert values.size == min(size, 160)
    assert edges[[0, -1]] == pytest.approx([2.75, y[-1] + 0.25])
    assert np.sum(values * np.diff(edges)) == pytest.approx(0.5 * heights.sum())
    inside = np.clip((edges[:, np.newaxis] - (y - 0.25)) / 0.5, 0, 1) @ (0.5 * heights)
    np.testing.assert_allclose(values, np.diff(inside) / np.diff(edges), atol=1e-9)


def test_a_spike_in_the_histogram_does_not_flatten_the_mixture():
    histogram = panel().histogram.copy()
    histogram[0] = 50.0
    figure = scan_figure(panel(histogram=histogram))
    assert figure.axes[0].get_ylim()[1] < 2 * panel().mixture.max()


def test_without_a_target_there_is_only_the_histogram_of_the_result():
    figure = scan_figure(bare())
    assert len(figure.axes) == 4
    assert not figure.axes[3].lines
    assert figure.axes[3].bbox.height == pytest.approx(figure.axes[0].bbox.height, rel=0.05)


def test_curves_have_the_requested_colour():
    figure = scan_figure(panel(), colour="#123456")
    drawn = [figure.axes[i].lines[-1].get_color() for i in (0, 1, 2, 4)]
    assert drawn == ["#123456"] * 4


@pytest.mark.parametrize(
    "odd",
    [
        panel(count=1),
        bare(count=1),
        panel(map_y=np.zeros(X.size), map_slope=np.zeros(X.size)),
        panel(histogram=0 * X, mixture=0 * X, result=0 * Y, target=0 * Y),
        panel(quantiles=[1.0], target_quantiles=[1.0]),
        panel(y=[0.0, 1.0], result=[1.0, 0.0], target=[1.0, 1.0]),
    ],
)
def test_degenerate_scans_can_be_drawn(odd: ScanPanel):
    assert svg(scan_figure(odd)) == svg(scan_figure(odd))


def test_the_file_is_small_and_reproducible():
    noisy = np.random.default_rng(0).gamma(20.0, size=X.size)
    scan = replace(panel(count=12), histogram=panel().histogram * noisy, result=noisy)
    drawing = svg(scan_figure(scan))
    assert len(drawing) < 60_000
    assert drawing == svg(scan_figure(scan))
    assert png(scan_figure(scan)) == png(scan_figure(scan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X[::-1]}, "x must hold at least two intensities that increase"),
        ({"y": np.zeros(Y.size)}, "y must hold at least two intensities that increase"),
        ({"histogram": X[1:]}, "histogram must have the shape"),
        ({"components": np.ones((2, 3))}, "components must have the shape"),
        ({"map_y": X[1:]}, "y must have the shape"),
        ({"map_straight": 0 * X}, "straight must be an increasing line"),
        ({"result": Y * np.nan}, "result must be finite"),
        ({"target": Y[1:]}, "target must have the shape"),
        ({"quantiles": []}, "quantiles must hold at least one number"),
        ({"target_quantiles": P[1:]}, "target_quantiles must have the shape"),
        ({"target": None}, "give all three, or none"),
        ({"target_quantiles": None}, "give all three, or none"),
    ],
)
def test_an_invalid_scan_is_refused(changes: dict, message: str):
    with pytest.raises(InvalidValueError, match=message):
        panel(**changes)
