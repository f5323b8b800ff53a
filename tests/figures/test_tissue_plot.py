"""The figure of tissues: one line per scan, one band per site."""

import numpy as np
import pytest

from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.style import colours, svg
from ndflow.figures.tissues import tissue_figure


def quartiles(scans: int, tissue_count: int = 2, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(shift, size=(scans, tissue_count, 3))
    return np.sort(values, axis=2)


SITES = ["b"] * 4 + ["a"] * 3


def test_there_is_one_panel_per_method_and_tissue():
    rows = {name: quartiles(7) for name in ("affine", "ndflow", "nyul")}
    figure = tissue_figure(rows, SITES, ["GM", "WM"])
    assert len(figure.axes) == 6
    assert [axes.get_title() for axes in figure.axes] == ["GM", "WM", "", "", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["affine", "ndflow", "nyul"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a (3)", "b (4)"]


def test_each_scan_is_a_line_between_its_quartiles_with_a_tick_at_the_median():
    given = quartiles(7)
    axes = tissue_figure({"x": given}, SITES, ["GM", "WM"]).axes[1]
    drawn = {"a": axes.lines[:3], "b": axes.lines[3:]}
    for name, (spans, ticks, mean) in drawn.items():
        mine = [given[i, 1] for i in range(7) if SITES[i] == name]
        low, high, _ = spans.get_xdata().reshape(-1, 3).T
        middle = ticks.get_xdata().reshape(-1, 3)[:, 0]
        expected = sorted(mine, key=lambda scan: scan[1])
        np.testing.assert_array_equal(np.column_stack([low, middle, high]), expected)
        np.testing.assert_allclose(mean.get_xdata(), sum(scan[1] for scan in mine) / len(mine))
        assert {line.get_color() for line in (spans, ticks, mean)} == {colours("ab")[name]}


def test_sites_are_stacked_with_the_same_height():
    axes = tissue_figure({"x": quartiles(7)}, SITES, ["GM", "WM"]).axes[0]
    a, b = (axes.lines[i].get_ydata() for i in (2, 5))
    assert max(a) < min(b)
    assert np.ptp(a) == pytest.approx(np.ptp(b))
    assert axes.yaxis_inverted()


def test_rows_share_limits_that_fit_them_all():
    rows = {"affine": quartiles(7, shift=3), "ndflow": quartiles(7, shift=-3)}
    figure = tissue_figure(rows, SITES, ["GM", "WM"], units="sd")
    affine, ndflow = (axes.get_xlim() for axes in figure.axes[::2])
    assert affine == ndflow
    both = np.concatenate([row[:, 0] for row in rows.values()])
    assert affine[0] < both.min()
    assert both.max() < affine[1]
    assert [axes.get_xlabel() for axes in figure.axes[::2]] == ["", "sd"]


def test_of_very_many_scans_an_even_selection_by_median_is_drawn():
    given = quartiles(3000)
    names = [str(i % 3) for i in range(3000)]
    figure = tissue_figure({"x": given}, names, ["GM", "WM"])
    for i in range(3):
        middle = figure.axes[0].lines[3 * i + 1].get_xdata().reshape(-1, 3)[:, 0]
        medians = np.sort(given[i::3, 0, 1])
        assert len(middle) == 40
        assert (middle[0], middle[-1]) == (medians[0], medians[-1])
        mean = figure.axes[0].lines[3 * i + 2].get_xdata()[0]
        assert mean == pytest.approx(medians.mean())  # of all, not of those drawn


def test_the_file_of_twelve_sites_and_seven_methods_is_small():
    names = [f"Universitätsklinikum Hamburg-Eppendorf {i % 12}" for i in range(480)]
    rows = {str(i): quartiles(480, 3, i) for i in range(7)}
    assert len(svg(tissue_figure(rows, names, ["CSF", "GM", "WM"]))) < 400_000


def test_a_site_has_the_same_colour_as_in_the_figure_of_densities():
    quartile_plot = tissue_figure({"x": quartiles(7)}, SITES, ["GM", "WM"])
    densities = {name: [[0.0, 1.0, 0.0]] for name in "ab"}
    density_plot = density_figure([DensityPanel("x", np.arange(3), densities)])
    legends = [
        {
            text.get_text()[0]: line.get_color()
            for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)
        }
        for legend in (quartile_plot.legends[0], density_plot.legends[0])
    ]
    assert legends[0] == legends[1] == {name: colours("ab")[name] for name in "ab"}


def test_a_single_constant_scan_can_be_drawn():
    figure = tissue_figure({"x": np.ones((1, 1, 3))}, ["a"], ["WM"])
    low, high = figure.axes[0].get_xlim()
    assert low < 1 < high
    assert b"nan" not in svg(figure)
