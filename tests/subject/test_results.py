"""Results: one line in a terminal, a figure in a notebook, and an image in a file."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from one_scan import OTHER, SCAN, TARGET, TARGET_SD
from phantoms import save

import ndflow
from ndflow import FileError, InvalidValueError
from ndflow.subject.records import MapRecord

RESULT = ndflow.normalise(SCAN, TARGET)


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
    with pytest.raises(InvalidValueError, match=r"needs matplotlib.*pip install '.\[report\]'"):
        RESULT.plot()


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "int16"}, {"dtype": "uint8", "range": (20, 250)}]
)
def test_a_saved_result_is_the_one_that_would_be_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    scan = SCAN.copy()
    scan[0, 0, 0] = 30_000  # outside the mask; no integer holds what becomes of it
    path = save(tmp_path / "in.nii.gz", scan)
    mask = (SCAN != 0).astype(np.uint8)
    written = ndflow.normalise(path, TARGET, mask=mask, output=tmp_path / "out.nii.gz", **options)
    result = ndflow.normalise(path, TARGET, mask=mask, **options)
    saved = result.save(tmp_path / "saved.nii.gz")
    assert (tmp_path / "saved.nii.gz").read_bytes() == (tmp_path / "out.nii.gz").read_bytes()
    own, other = (replace(one.record, warnings=(), outputs=None) for one in (saved, written))
    assert own == other
    assert [*saved.record.outputs.values()] == [*written.record.outputs.values()]
    assert len(saved.warnings) == len(written.warnings)
    assert MapRecord.read(tmp_path / "saved.json").to_dict() == saved.record.to_dict()
    assert saved.image is None
    assert saved.output == tmp_path / "saved.nii.gz"
    assert saved.record.clipped == ("dtype" in options)


def test_a_result_is_saved_once_and_never_over_its_input(tmp_path: Path) -> None:
    path = save(tmp_path / "in.nii.gz", SCAN)
    result = ndflow.normalise(path, TARGET)
    with pytest.raises(FileError, match="one of the inputs"):
        result.save(path, force=True)
    saved = result.save(tmp_path / "out.nii.gz")
    with pytest.raises(FileError, match="exists"):
        result.save(tmp_path / "out.nii.gz")
    result.save(tmp_path / "out.nii.gz", force=True)
    with pytest.raises(InvalidValueError, match=r"it is in .*out\.nii\.gz"):
        saved.save(tmp_path / "again.nii.gz")


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
