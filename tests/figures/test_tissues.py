"""Figures of tissues: what is drawn are the numbers that were given."""

import numpy as np
import pytest

from ndflow.figures.cohort import tissue_figure
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
