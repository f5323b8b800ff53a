"""Violin plots: every value is drawn, and medians, quartiles and outlines are right."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats

from ndflow.figures.tissues import ViolinPanel, violin_figure

GENERATOR = np.random.default_rng(4)
SOME = GENERATOR.normal(size=41)


def violins(groups, label: str = "x", reference: float | None = None) -> Figure:
    return violin_figure([ViolinPanel(groups, label, reference)])


def parts(axes) -> tuple:
    """Return dots, bars and medians of each group, from top to bottom."""
    marks = [line for line in axes.lines if line.get_linestyle() != "--"]
    return marks[::3], marks[1::3], marks[2::3]


def test_medians_and_quartiles_agree_with_the_standard_library():
    groups = [("a", SOME), ("b", 3 * SOME + 1), ("c", SOME[:4])]
    _, bars, medians = parts(violins(groups).axes[0])
    for row, (_, values) in enumerate(groups):
        low, middle, high = statistics.quantiles(values.tolist(), n=4, method="inclusive")
        np.testing.assert_allclose(bars[row].get_xdata(), [low, high])
        np.testing.assert_allclose(medians[row].get_xdata(), [middle])
        assert medians[row].get_ydata() == [row]


def test_the_outline_is_the_kernel_density_and_contains_every_dot():
    axes = violins([("a", SOME)]).axes[0]
    edge = axes.collections[0].get_paths()[0].vertices
    upper = edge[edge[:, 1] > 0]
    density = stats.gaussian_kde(SOME)(upper[:, 0])
    np.testing.assert_allclose(upper[:, 1] / upper[:, 1].max(), density / density.max(), rtol=1e-3)
    assert edge[:, 0].min() == SOME.min()
    assert edge[:, 0].max() == SOME.max()
    dots = parts(axes)[0][0]
    np.testing.assert_array_equal(np.sort(dots.get_xdata()), np.sort(SOME))
    width = 0.4 * stats.gaussian_kde(SOME)(dots.get_xdata()) / density.max()
    assert (np.abs(dots.get_ydata()) <= 1.01 * width).all()


@settings(max_examples=15)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12),
)
def test_any_values_can_be_drawn_and_all_of_them_are(values: list[float]):
    axes = violins([("a", values)]).axes[0]
    dots = parts(axes)[0][0]
    assert sorted(dots.get_xdata().tolist()) == sorted(values)
    low, high = axes.get_xlim()
    assert low <= min(values)
    assert max(values) <= high


@pytest.mark.parametrize("values", [[0.4], [0.4, 0.4], [0.3, 0.5], [0.4] * 9, [0.4, 0.4 + 1e-16]])
def test_few_or_equal_values_have_dots_and_no_outline(values: list[float]):
    axes = violins([("constant", values)]).axes[0]
    edge = axes.collections[0].get_paths()[0].vertices
    assert np.ptp(edge[:, 1]) == 0
