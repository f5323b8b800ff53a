"""The figure of histograms and Q–Q plots."""

import numpy as np
import pytest
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.figures.evaluation import QuantileRow, histogram_and_quantile_figure

X = np.linspace(-3, 3, 41)
P = np.arange(1, 200) / 200


def row(name: str = "scan", shift: float = 0.0, **changes) -> QuantileRow:
    parts = {
        "histogram": stats.norm.pdf(X, shift),
        "target": stats.norm.pdf(X),
        "quantiles": stats.norm.ppf(P, shift),
        "target_quantiles": stats.norm.ppf(P),
        "rmse": 0.01234,
        "w1": abs(shift),
    }
    return QuantileRow(name, X, **(parts | changes))


def test_a_cell_shows_histogram_and_target_quantiles_and_their_difference():
    left, upper, lower = histogram_and_quantile_figure([row("a scan", 0.5)]).axes
    assert left.get_title("left") == "a scan\nRMSE 0.0123 · W1 0.5"
    np.testing.assert_allclose(left.lines[0].get_ydata(), stats.norm.pdf(X))
    filled = left.collections[0].get_paths()[0].vertices
    assert filled[:, 1].max() == pytest.approx(stats.norm.pdf(X, 0.5).max())
    identity, quantiles = upper.lines
    assert list(identity.get_xdata()) == list(identity.get_ydata())
    np.testing.assert_allclose(quantiles.get_ydata(), stats.norm.ppf(P) + 0.5)
    np.testing.assert_allclose(lower.lines[1].get_ydata(), 0.5)  # a shift is the same everywhere


def test_all_differences_have_the_scale_of_the_largest():
    figure = histogram_and_quantile_figure([row("a", 0.1), row("b", -0.8), row("c")])
    limits = {axes.get_ylim() for axes in figure.axes[2::3]}
    assert len(limits) == 1
    assert limits.pop() == pytest.approx((-0.88, 0.88))


@pytest.mark.parametrize(("cells", "columns", "down"), [(1, 1, 1), (3, 1, 3), (5, 2, 3), (2, 8, 1)])
def test_cells_are_in_reading_order(cells: int, columns: int, down: int):
    figure = histogram_and_quantile_figure([row(str(i)) for i in range(cells)], columns=columns)
    left = figure.axes[::3]
    assert [axes.get_title("left").split("\n")[0] for axes in left] == list(map(str, range(cells)))
    corners = [axes.get_position() for axes in left]
    assert len({round(-box.y1, 2) for box in corners}) == down
    assert corners == sorted(corners, key=lambda box: (round(-box.y1, 2), box.x0))
    assert all(axes.bbox.width > 60 and axes.bbox.height > 35 for axes in figure.axes)


def test_a_perfect_fit_and_an_empty_histogram_can_be_drawn():
    empty = histogram_and_quantile_figure([row(histogram=np.zeros(X.size), rmse=0, w1=0)])
    perfect = histogram_and_quantile_figure([row(quantiles=[1.0], target_quantiles=[1.0])])
    for figure in (empty, perfect):
        for axes in figure.axes:
            assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
            assert np.ptp(axes.get_ylim()) > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"histogram": X[1:]}, "histogram must have the shape"),
        ({"target_quantiles": P[1:]}, "target_quantiles must have the shape"),
        ({"quantiles": [], "target_quantiles": []}, "at least one number"),
        ({"rmse": -1.0}, "rmse"),
        ({"w1": np.nan}, "w1"),
    ],
)
def test_an_invalid_cell_is_refused(changes: dict, message: str):
    with pytest.raises(InvalidValueError, match=message):
        row(**changes)


def test_zero_cells_and_zero_columns_are_refused():
    with pytest.raises(InvalidValueError, match="rows"):
        histogram_and_quantile_figure([])
    with pytest.raises(InvalidValueError, match="columns"):
        histogram_and_quantile_figure([row()], columns=0)
