"""Violin plots: the density of each group of numbers, its quartiles, and every single number.

The outline of a group is the Gaussian kernel density estimate with Scott's bandwidth, cut off at
the smallest and the largest value, so that it does not extend beyond the data. Each value is a dot
within the outline; multiples of the golden ratio spread the dots evenly across it, without
randomness. A group of fewer than three values, or of equal ones, has dots and no outline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.values import FloatArray, real, real_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ViolinPanel", "violin_figure"]

_WIDTH, _ROW = 3.9, 0.46  # inches, of a panel and of a group
_HALF = 0.4  # of the distance between groups
_POINTS = 160  # of an outline
_GOLDEN = 0.5 * (5**0.5 - 1)
_DOTS = 500  # per panel; more are stored as an image


@dataclass(frozen=True, eq=False)
class ViolinPanel:
    """Groups of numbers on one axis.

    Attributes
    ----------
    groups : name and values of each group, from top to bottom.
    label : what the numbers are.
    reference : a number to compare with, for example that of guessing, drawn as a dashed line.
    """

    groups: Sequence[tuple[str, FloatArray]]
    label: str
    reference: float | None = None

    def __post_init__(self) -> None:
        """Validate."""
        if not self.groups:
            raise InvalidValueError("groups must hold at least one group")
        groups = tuple((name, real_array(given, name, None)) for name, given in self.groups)
        for name, values in groups:
            if not values.size:
                raise InvalidValueError(f"the group {name!r} must hold at least one value")
        object.__setattr__(self, "groups", groups)
        if self.reference is not None:
            object.__setattr__(self, "reference", real(self.reference, "reference"))


def violin_figure(panels: Sequence[ViolinPanel]) -> Figure:
    """Draw violin plots side by side.

    Parameters
    ----------
    panels : one per kind of number; panels with the groups of the first do not repeat their names.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.export` turns into a file.
    """
    if not panels:
        raise InvalidValueError("panels must hold at least one panel")
    names = [[name for name, _ in panel.groups] for panel in panels]
    named = [i == 0 or names[i] != names[0] for i in range(len(panels))]
    height = _ROW * max(map(len, names)) + 0.6
    with style.new_figure(_WIDTH * len(panels) + 0.9 * sum(named), height) as figure:
        grid = figure.add_gridspec(1, len(panels))
        for i, panel in enumerate(panels):
            _draw(figure.add_subplot(grid[0, i]), panel, named=named[i])
    return figure


def _draw(axes: Axes, panel: ViolinPanel, *, named: bool) -> None:
    colour = style.ACCENT
    if panel.reference is not None:
        axes.axvline(panel.reference, color=style.SECOND, lw=1, ls="--", zorder=1)
    few = sum(values.size for _, values in panel.groups) <= _DOTS
    for row, (_, given) in enumerate(panel.groups):
        values = np.sort(given)
        x, half = _outline(values)
        axes.fill_between(x, row - half, row + half, color=colour, alpha=0.22, lw=0, zorder=2)
        jitter = 2 * ((0.5 + _GOLDEN * np.arange(values.size)) % 1) - 1
        axes.plot(
            values,
            row + 0.85 * jitter * np.interp(values, x, half),
            "o",
            ms=1.8,
            mew=0,
            color=colour,
            alpha=0.55,
            zorder=3,
            rasterized=not few,
        )
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        axes.plot([low, high], [row, row], color=style.INK, lw=2.4, zorder=4, solid_capstyle="butt")
        axes.plot(middle, row, "o", ms=4.5, mfc="white", mec=style.INK, mew=1, zorder=5)
    axes.set_ylim(len(panel.groups) - 0.5, -0.5)
    axes.set_yticks(
        range(len(panel.groups)),
        [style.label(name, 26) if named else "" for name, _ in panel.groups],
        fontsize=8,
    )
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(style.label(panel.label))


def _outline(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points along the axis, and half the width of the outline there."""
    from scipy import stats  # slow to import

    ends = np.array([values.min(), values.max()])
    # Values that differ only in their last digits have no meaningful density.
    if values.size < 3 or np.ptp(ends) <= 1e-9 * np.abs(ends).max():
        return ends, np.zeros(2)
    x = np.linspace(ends[0], ends[1], _POINTS)
    density = stats.gaussian_kde(values)(x)
    return x, _HALF * density / density.max()
