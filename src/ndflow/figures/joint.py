"""Joint densities of pairs of channels: before, after, and how voxels moved.

One row per pair. Filled contours are the voxels, outlined ones the target; each contour encloses a
fixed share of the mass, so that a row can be read as: do the filled shapes lie inside the lines
that belong to them? The last panel has an arrow for how voxels moved on average, on top of the
determinant of the map's Jacobian: blue where intensities were spread out, orange where they were
brought together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndflow.figures import style
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


_TITLES = ("z-scored (blue), target (lines)", "mapped (blue), target (lines)", "how voxels moved")
_SHARES = (0.95, 0.75, 0.5, 0.25)  # of the mass, that contours enclose
_BINS = 96
_SMOOTH = 1.6  # bins
_ENDS = (0.002, 0.998)  # quantiles of each channel that are shown
_MARGIN = 0.25  # standard deviations around them
_ARROWS = 13  # cells of arrows along each side
_FEWEST = 20  # voxels in a cell with an arrow
_WIDTH, _HEIGHT = 9.0, 2.9  # inches: of the figure, and of each row
_MOST = 2.0  # |ln det| at the ends of the colours


class JointVoxels(NamedTuple):
    """A sample of voxels as the figure shows them, in standard deviations of the target.

    Attributes
    ----------
    names : of the channels.
    before : (n, d), aligned in mean and standard deviation alone.
    after : (n, d), the same voxels after the map.
    log_det : (n,), the logarithm of the determinant of the Jacobian from one to the other.
    target : (m, d), a sample of the target.
    """

    names: Sequence[str]
    before: FloatArray
    after: FloatArray
    log_det: FloatArray
    target: FloatArray


def joint_figure(voxels: JointVoxels) -> Figure:
    """Draw the joint density of each pair of channels before and after, and the way between them.

    Parameters
    ----------
    voxels : what to draw.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    pairs = list(combinations(range(len(voxels.names)), 2))
    with style.new_figure(_WIDTH, _HEIGHT * len(pairs)) as figure:
        rows = figure.subplots(len(pairs), 3, squeeze=False)
        shades = [_row(axes, voxels, list(pair)) for axes, pair in zip(rows, pairs, strict=True)]
        for axis, title in zip(rows[0], _TITLES, strict=True):
            axis.set_title(title)
        bar = figure.colorbar(shades[0], ax=rows[:, 2].tolist(), shrink=0.8, aspect=25)
        bar.set_label("determinant of the Jacobian")
        bar.set_ticks([-np.log(4), -np.log(2), 0, np.log(2), np.log(4)])
        bar.set_ticklabels(["¼", "½", "1", "2", "4"])
        bar.outline.set_visible(False)
    return figure


def _row(axes: Sequence[Axes], voxels: JointVoxels, pair: list[int]) -> AxesImage:
    """Draw one pair of channels; return what the colour bar needs."""
    before, after, target = (
        sample[:, pair] for sample in (voxels.before, voxels.after, voxels.target)
    )
    together = np.concatenate([before, after, target])
    low, high = np.quantile(together, _ENDS, axis=0) + np.array([[-_MARGIN], [_MARGIN]])
    goal = _Density(target, low, high)
    for axis, sample in zip(axes[:2], (before, after), strict=True):
        _Density(sample, low, high).fill(axis)
        goal.outline(axis)
    shades = _way(axes[2], before, after, voxels.log_det, low, high)
    goal.outline(axes[2], faint=True)
    for axis in axes:
        axis.set_xlim(low[0], high[0])
        axis.set_ylim(low[1], high[1])
        axis.set_xlabel(style.label(voxels.names[pair[0]]))
    axes[0].set_ylabel(style.label(voxels.names[pair[1]]))
    return shades


class _Density:
    """The smoothed histogram of a sample, and the levels whose contours enclose fixed shares."""

    def __init__(self, sample: FloatArray, low: FloatArray, high: FloatArray) -> None:
        from scipy import ndimage

        edges = [np.linspace(*ends, _BINS + 1) for ends in zip(low, high, strict=True)]
        counts, *_ = np.histogram2d(sample[:, 0], sample[:, 1], bins=edges)
        self.x, self.y = (0.5 * (edge[1:] + edge[:-1]) for edge in edges)
        self.height = ndimage.gaussian_filter(counts, _SMOOTH).T
        ordered = np.sort(self.height, axis=None)[::-1]
        shares = np.cumsum(ordered) / max(ordered.sum(), 1e-300)
        places = np.minimum(np.searchsorted(shares, _SHARES), ordered.size - 1)
        self.levels = np.unique(ordered[places])

    def fill(self, axis: Axes) -> None:
        from matplotlib.colors import to_rgba

        count = len(self.levels)
        shades = [to_rgba(style.ACCENT, 0.15 + 0.6 * i / max(1, count - 1)) for i in range(count)]
        levels = [*self.levels, max(self.height.max(), self.levels[-1]) * 1.01 + 1e-12]
        axis.contourf(self.x, self.y, self.height, levels=levels, colors=shades)

    def outline(self, axis: Axes, *, faint: bool = False) -> None:
        colour, width = (style.FAINT, 0.5) if faint else (style.INK, 0.7)
        axis.contour(
            self.x, self.y, self.height, levels=self.levels, colors=colour, linewidths=width
        )


def _way(
    axis: Axes,
    before: FloatArray,
    after: FloatArray,
    log_det: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> AxesImage:
    """Draw where voxels went: the mean displacement and determinant in cells of where they were."""
    from matplotlib.colors import LinearSegmentedColormap

    place = np.floor((before - low) / (high - low) * _ARROWS).astype(int)
    inside = ((place >= 0) & (place < _ARROWS)).all(axis=1)
    cell = place[inside, 0] * _ARROWS + place[inside, 1]
    total = _ARROWS**2
    counts = np.bincount(cell, minlength=total)
    shown = counts >= _FEWEST

    def mean(values: FloatArray) -> FloatArray:
        sums = np.bincount(cell, values[inside], minlength=total)
        result: FloatArray = sums / np.maximum(counts, 1)
        return result

    shades = np.where(shown, mean(log_det), np.nan).reshape(_ARROWS, _ARROWS).T
    colours = LinearSegmentedColormap.from_list("det", [style.SECOND, "#ffffff", style.ACCENT])
    ends: Any = {"extent": (low[0], high[0], low[1], high[1]), "vmin": -_MOST, "vmax": _MOST}
    look: Any = {"aspect": "auto", "alpha": 0.8, "interpolation": "nearest"}
    image = axis.imshow(shades, cmap=colours, origin="lower", **ends, **look)
    start = [mean(column)[shown] for column in before.T]
    move = [mean(column)[shown] for column in (after - before).T]
    axis.quiver(*start, *move, angles="xy", scale_units="xy", scale=1, color=style.INK, width=0.004)
    return image
