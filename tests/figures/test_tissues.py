"""Figures of tissues and violin plots: what is drawn are the numbers that were given."""

import statistics

import numpy as np
import pytest
from scipy import stats

from ndflow.figures.cohort import ViolinPanel, tissue_figure, violin_figure
from ndflow.figures.style import colours


def quartiles(scans: int, tissue_count: int = 2, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(scans, tissue_count, 3))
    return np.sort(values, axis=2)


SITES = ["b"] * 4 + ["a"] * 3


def test_each_scan_is_a_line_between_its_quartiles_with_a_tick_at_the_median():
    own = quartiles(7)
    axes = tissue_figure({"x": own}, SITES, ["GM", "WM"]).axes[1]
    drawn = {"a": axes.lines[:3], "b": axes.lines[3:]}
    for name, (spans, ticks, mean) in drawn.items():
        mine = [own[i, 1] for i in range(7) if SITES[i] == name]
        low, high, _ = spans.get_xdata().reshape(-1, 3).T
        middle = ticks.get_xdata().reshape(-1, 3)[:, 0]
        expected = sorted(mine, key=lambda scan: scan[1])
        np.testing.assert_array_equal(np.column_stack([low, middle, high]), expected)
        np.testing.assert_allclose(mean.get_xdata(), sum(scan[1] for scan in mine) / len(mine))
        assert {line.get_color() for line in (spans, ticks, mean)} == {colours("ab")[name]}


def test_of_very_many_scans_an_even_selection_by_median_is_drawn():
    own = quartiles(3000)
    names = [str(i % 3) for i in range(3000)]
    figure = tissue_figure({"x": own}, names, ["GM", "WM"])
    for i in range(3):
        middle = figure.axes[0].lines[3 * i + 1].get_xdata().reshape(-1, 3)[:, 0]
        medians = np.sort(own[i::3, 0, 1])
        assert len(middle) == 40
        assert (middle[0], middle[-1]) == (medians[0], medians[-1])
        mean = figure.axes[0].lines[3 * i + 2].get_xdata()[0]
        assert mean == pytest.approx(medians.mean())  # of all, not of those drawn


SOME = np.random.default_rng(4).normal(size=41)


def violins(*groups):
    """Return the axes, and dots, bars and medians of each group, from top to bottom."""
    panel = ViolinPanel([("a", np.array(values)) for values in groups], "x")
    (axes,) = violin_figure(panel).axes
    return axes, axes.lines[::3], axes.lines[1::3], axes.lines[2::3]


def test_medians_and_quartiles_agree_with_the_standard_library():
    groups = [SOME, 3 * SOME + 1, SOME[:4]]
    _, _, bars, medians = violins(*groups)
    for row, values in enumerate(groups):
        low, middle, high = statistics.quantiles(values.tolist(), n=4, method="inclusive")
        np.testing.assert_allclose(bars[row].get_xdata(), [low, high])
        np.testing.assert_allclose(medians[row].get_xdata(), [middle])
        assert medians[row].get_ydata() == [row]


def test_the_outline_is_the_kernel_density_and_contains_every_dot():
    axes, (dots,), *_ = violins(SOME)
    edge = axes.collections[0].get_paths()[0].vertices
    upper = edge[edge[:, 1] > 0]
    density = stats.gaussian_kde(SOME)(upper[:, 0])
    np.testing.assert_allclose(upper[:, 1] / upper[:, 1].max(), density / density.max(), rtol=1e-3)
    np.testing.assert_array_equal(dots.get_xdata(), np.sort(SOME))
    width = 0.4 * stats.gaussian_kde(SOME)(dots.get_xdata()) / density.max()
    assert (np.abs(dots.get_ydata()) <= 1.01 * width).all()


@pytest.mark.parametrize("values", [[0.4], [0.3, 0.5], [0.4] * 9, [0.4, 0.4, 0.4 + 1e-16]])
def test_few_or_equal_values_have_dots_and_no_outline(values: list[float]):
    axes, (dots,), *_ = violins(values)
    assert dots.get_xdata().tolist() == values
    assert np.ptp(axes.collections[0].get_paths()[0].vertices[:, 1]) == 0
