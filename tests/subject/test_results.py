"""Results: one line in a terminal, and a figure in a notebook."""

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from one_scan import OTHER, SCAN, TARGET, TARGET_SD

import ndflow
from ndflow import InvalidValueError

RESULT = ndflow.normalise(SCAN, TARGET)


def test_a_result_is_one_line(tmp_path: Path) -> None:
    written = ndflow.normalise(SCAN, TARGET, output=tmp_path / "out.nii.gz")
    applied = ndflow.apply(SCAN, RESULT.imap)
    assert repr(RESULT) == f"<ndflow Result in memory, {message(RESULT)}, 0 warnings>"
    assert f"written to {tmp_path / 'out.nii.gz'}" in repr(written)
    assert repr(applied) == "<ndflow Result in memory, 0 warnings>"
    for result in (RESULT, written, applied):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 300


def message(result: ndflow.Result) -> str:
    assert result.record.match is not None
    return result.record.match.message


def test_a_notebook_shows_the_line_and_a_figure() -> None:
    pytest.importorskip("matplotlib")
    html = RESULT._repr_html_()
    line, _, figure = html.partition("</p>")
    assert line == "<p>" + repr(RESULT).replace("<", "&lt;").replace(">", "&gt;")
    start = figure.index("<svg")
    assert ElementTree.fromstring(figure[start:]).tag.endswith("svg")
    assert RESULT._repr_html_() == html  # the same bytes each time


def test_without_a_density_or_matplotlib_a_notebook_shows_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied = ndflow.apply(SCAN, RESULT.imap)
    assert "<svg" not in applied._repr_html_()
    with pytest.raises(InvalidValueError, match="no density was estimated"):
        applied.plot()
    monkeypatch.setattr("ndflow.subject.plot.find_spec", lambda _: None)
    assert "<svg" not in RESULT._repr_html_()
    with pytest.raises(
        InvalidValueError, match=r"needs matplotlib.*pip install 'ndflow\[report\]'"
    ):
        RESULT.plot()


def curves(figure: Any) -> dict[str, Any]:
    """Return the points of each curve that has a label."""
    return {
        line.get_label(): np.array(line.get_data(), dtype=float)
        for axes in figure.axes
        for line in axes.get_lines()
    }


@pytest.mark.parametrize("method", ["ndflow", "affine", "nyul", "zscore"])
def test_a_plot_draws_the_densities_and_the_map(method: Any) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    result = ndflow.normalise(SCAN, OTHER, method=method)
    figure = result.plot()
    assert isinstance(figure, figures.Figure)
    drawn = curves(figure)
    x, y = drawn["map"]
    np.testing.assert_allclose(y, result.imap(x), atol=1e-9 * TARGET_SD)
    x, y = drawn["mixture"]
    np.testing.assert_allclose(y, result.mixture.pdf(x), rtol=1e-9)  # type: ignore[union-attr]
    x, y = drawn["target"]
    np.testing.assert_allclose(y, TARGET.pdf(x), rtol=1e-9)
    titles = [title for axes in figure.axes if (title := axes.get_title(loc="left"))]
    assert titles == ["as scanned", "intensity map", "after normalisation"]


def test_a_plot_opens_no_window_and_leaves_no_figure_behind() -> None:
    pytest.importorskip("matplotlib")
    RESULT.plot()
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []
