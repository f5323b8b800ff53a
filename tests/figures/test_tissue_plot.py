"""The figure of tissues: one line per scan, one band per site."""

import numpy as np
import pytest

from ndflow.figures.style import colours, svg
from ndflow.figures.tissues import tissue_figure


def quartiles(scans: int, tissue_count: int = 2, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(shift, size=(scans, tissue_count, 3))
    return np.sort(values, axis=2)


SITES = ["b"] * 4 + ["a"] * 3


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


def test_a_single_constant_scan_can_be_drawn():
    figure = tissue_figure({"x": np.ones((1, 1, 3))}, ["a"], ["WM"])
    low, high = figure.axes[0].get_xlim()
    assert low < 1 < high
    assert b"nan" not in svg(figure)
