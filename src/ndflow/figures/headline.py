"""The result of a study at a glance: how far apart its sites were before, and are after.

On the left is one bar per stage, from the original scans to the result, with its value and, for the
last, the change relative to the first. On the right is the mean density of each site's scans,
``q̄(x) = Σ_i q_i(x)/n``, at the first stage and at the last: curves that were apart now coincide.
Only the shapes matter here, so these axes have no numbers; `density_figure` draws the same with
numbers, single scans, and the stages in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.figures.densities import DensityPanel
from ndflow.values import positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["headline_figure"]

_WIDTH, _HEIGHT, _BAR, _LEGEND_ROW = 9.0, 1.9, 0.36, 0.19  # inches
_POINTS = 160  # of a curve
_NUMBERS = 0.42  # of the longest bar, the space for the number beside it


def headline_figure(
    distances: Sequence[tuple[str, float]],
    before: DensityPanel,
    after: DensityPanel,
    *,
    sites: Iterable[str] = (),
    title: str = "distance between sites",
) -> Figure:
    """Draw the distance between sites at each stage, and their mean densities before and after.

    Parameters
    ----------
    distances : name of each stage, and the distance between sites at it, in the same units at all
        stages; the last is the result.
    before, after : the densities of the scans at the first stage and at the last.
    sites : further sites of the study, which are in no panel; colours depend on all sites.
    title : what the distance is.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.export` turns into a file.
    """
    if not distances:
        raise InvalidValueError("distances must hold at least one stage")
    stages = [
        (name, positive(value, f"distance of {name!r}", zero=True)) for name, value in distances
    ]
    counts: dict[str, list[int]] = {}
    for panel in (before, after):
        for name, lines in panel.densities.items():
            counts.setdefault(name, []).append(len(lines))
    all_sites = {*sites, *counts}
    legend, _ = style.legend_rows(_WIDTH, counts)
    height = max(_HEIGHT, _BAR * len(stages) + 0.7) + _LEGEND_ROW * legend
    with style.new_figure(_WIDTH, height) as figure:
        grid = figure.add_gridspec(1, 3, width_ratios=(1.25, 1, 1))
        _bars(figure.add_subplot(grid[0, 0]), stages, title)
        for i, panel in enumerate((before, after)):
            _densities(figure.add_subplot(grid[0, 1 + i]), panel, all_sites)
        style.site_legend(figure, counts, all_sites)
    return figure


def _bars(axes: Axes, stages: Sequence[tuple[str, float]], title: str) -> None:
    values = [value for _, value in stages]
    longest = max(values) or 1.0
    last = len(stages) - 1
    # Not the colour of any site: the bars are about all of them.
    colours = [style.INK if row == last else style.FAINT for row in range(len(stages))]
    axes.barh(range(len(stages)), values, height=0.62, color=colours)
    for row, value in enumerate(values):
        text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
        if row == last and row > 0 and values[0] > 0:
            text += f"  ({_change(values[0], value)})"
        axes.text(
            value + 0.02 * longest,
            row,
            text,
            va="center",
            fontsize=9,
            fontweight="bold" if row == last else "normal",
        )
    axes.set_yticks(range(len(stages)), [style.label(name, 18) for name, _ in stages], fontsize=9)
    axes.set_ylim(last + 0.5, -0.5)
    axes.set_xlim(0, (1 + _NUMBERS) * longest)
    axes.set_xticks([])
    axes.tick_params(left=False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title(title, fontweight="bold")
    axes.set_xlabel("smaller is better")


def _change(first: float, last: float) -> str:
    """Return the change in whole per cent, rounded towards zero so that it never exaggerates."""
    percent = int(round(100 * (last / first - 1), 6))
    if percent == 0:
        return "no change"
    return f"−{-percent} %" if percent < 0 else f"+{percent} %"


def _densities(axes: Axes, panel: DensityPanel, all_sites: Iterable[str]) -> None:
    colour, line = style.colours(all_sites), style.line_styles(all_sites)
    factor = panel.x if panel.logarithmic else 1.0
    sparse = np.linspace(0, panel.x.size - 1, min(panel.x.size, _POINTS)).round().astype(int)
    for name, scans in sorted(panel.densities.items()):
        mean = factor * np.asarray(scans).mean(axis=0)
        axes.plot(panel.x[sparse], mean[sparse], color=colour[name], ls=line[name], lw=1.8)
    if panel.logarithmic:
        axes.set_xscale("log")
    axes.set_xlim(panel.x[0], panel.x[-1])
    axes.set_xticks([])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("intensity (logarithmic)" if panel.logarithmic else "intensity")
    axes.set_title(style.label(panel.title, 36), fontweight="bold")
    style.density_axes(axes)
