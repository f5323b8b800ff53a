"""Figures of densities: by site, and of pairs of channels."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from ndflow.figures.cohort import DensityPanel, density_figure
from ndflow.figures.joint import JointVoxels, joint_figure
from ndflow.figures.style import colours

X = np.linspace(1, 9, 50)


def densities(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, size=(count, X.size))


def thick(figure: Figure, panel: int = 0) -> list:
    return [line for line in figure.axes[panel].lines if line.get_linewidth() > 1]


def test_each_panel_has_a_thin_line_per_scan_and_a_thick_one_per_site():
    scans = {"b": densities(3), "a": densities(5, 1), "c": densities(1, 2)}
    figure = density_figure(
        [DensityPanel("before", X, scans), DensityPanel("after", X + 20, scans, "sd")]
    )
    assert [axes.get_title("left") for axes in figure.axes] == ["before", "after"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["intensity", "sd"]
    for axes, x in zip(figure.axes, (X, X + 20), strict=True):
        assert len(axes.lines) == 3 + 5 + 3  # the only scan of c is its mean
        assert axes.get_xlim() == (x[0], x[-1])
    for line, name in zip(thick(figure), "abc", strict=True):
        mean = sum(scans[name][i] for i in range(len(scans[name]))) / len(scans[name])
        np.testing.assert_allclose(line.get_ydata(), mean)
        assert line.get_color() == colours("abc")[name]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["a (5)", "b (3)", "c (1)"]


def test_a_site_of_many_scans_has_a_band_from_the_10th_to_the_90th_percentile():
    many = densities(101)
    axes = density_figure([DensityPanel("x", X, {"many": many, "few": densities(40)})]).axes[0]
    assert len(axes.lines) == 40 + 2
    (band,) = axes.collections
    assert to_hex(band.get_facecolor()[0]) == colours(["few", "many"])["many"].lower()
    edge = band.get_paths()[0].vertices
    for i in (0, 20, 49):
        ordered = np.sort(many[:, i])
        at = edge[edge[:, 0] == X[i], 1]
        np.testing.assert_allclose([at.min(), at.max()], [ordered[10], ordered[90]])


def test_joint_voxels_end_within_the_lines_of_the_target_and_arrows_show_how():
    generator = np.random.default_rng(0)
    before, target = generator.normal(size=(3000, 2)), generator.normal(1, 0.5, (3000, 2))
    log_det = np.full(3000, 2 * np.log(0.5))
    voxels = JointVoxels(["a", "b"], before, 0.5 * before + 1.0, log_det, target)
    first, last, way = joint_figure(voxels).axes[:3]

    def width(contours) -> float:
        return np.ptp(np.concatenate([path.vertices for path in contours.get_paths()])[:, 0])

    lines = width(last.collections[-1])
    assert width(last.collections[0]) == pytest.approx(lines, rel=0.25)
    assert width(first.collections[0]) > 1.4 * lines
    arrows = way.collections[0]
    np.testing.assert_allclose(arrows.U, 1 - 0.5 * arrows.X, atol=1e-6)
    np.testing.assert_allclose(arrows.V, 1 - 0.5 * arrows.Y, atol=1e-6)
    shades = np.ma.masked_invalid(way.images[0].get_array()).compressed()
    assert shades == pytest.approx(2 * np.log(0.5))
