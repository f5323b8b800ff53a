"""The figure of histograms and Q–Q plots."""

import numpy as np
from scipy import stats

from ndflow.figures.curves import FitCell, FitCurves, fit_figure

X = np.linspace(-3, 3, 41)
P = np.arange(1, 200) / 200


def row(name: str = "scan", shift: float = 0.0, **changes) -> FitCell:
    parts = {
        "histogram": stats.norm.pdf(X, shift),
        "target": stats.norm.pdf(X),
        "quantiles": stats.norm.ppf(P, shift),
        "target_quantiles": stats.norm.ppf(P),
    }
    return FitCell(name, FitCurves(X, **(parts | changes)), 0.01234, abs(shift))


def test_a_cell_shows_histogram_and_target_quantiles_and_their_difference():
    left, upper, lower = fit_figure([row("a scan", 0.5)]).axes
    assert left.get_title("left") == "a scan\nRMSE 0.0123 · W1 0.5"
    np.testing.assert_allclose(left.lines[0].get_ydata(), stats.norm.pdf(X))
    np.testing.assert_allclose(left.patches[0].get_data().values, stats.norm.pdf(X, 0.5))
    identity, quantiles = upper.lines
    assert list(identity.get_xdata()) == list(identity.get_ydata())
    np.testing.assert_allclose(quantiles.get_ydata(), stats.norm.ppf(P) + 0.5)
    np.testing.assert_allclose(lower.lines[1].get_ydata(), 0.5)  # a shift is the same everywhere


def test_a_perfect_fit_and_an_empty_histogram_can_be_drawn():
    empty = fit_figure([row(histogram=np.zeros(X.size))])
    perfect = fit_figure([row(quantiles=np.ones(1), target_quantiles=np.ones(1))])
    for figure in (empty, perfect):
        for axes in figure.axes:
            assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
            assert np.ptp(axes.get_ylim()) > 0
