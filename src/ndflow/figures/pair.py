"""One scan matched to another: slices, densities, and the intensity map [castro2018, Fig. 1].

The columns are the source, the result and the target. Result and target are in the same units and
have the same grey window, the target's; the source has its own. Beside them is the intensity map
``f`` with its affine part, and its slope as a multiple of the affine slope: above 1 the map expands
intensities, below 1 it compresses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.figures import style
from ndflow.figures.curves import DensityCurves, MapCurves, draw_density, draw_legend, draw_map
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 10.4, 4.4  # inches
_WINDOW = (1, 99.5)  # percentiles of a slice, from black to white


class PairSide(NamedTuple):
    """A scan as the figure shows it.

    Attributes
    ----------
    name : title of its column.
    slice_ : (rows, columns), the image; NaN outside the brain, which is drawn black.
    density : of its voxels.
    """

    name: str
    slice_: FloatArray
    density: DensityCurves


def pair_panels(source: PairSide, target: PairSide, result: PairSide, imap: MapCurves) -> Figure:
    """Draw a scan, the scan it is matched to, the result, and the intensity map.

    Parameters
    ----------
    source, target, result : the scan, the one it is matched to, and the scan after matching.
    imap : the intensity map from source to result.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    with style.new_figure(_WIDTH, _HEIGHT) as figure:
        grid = figure.add_gridspec(2, 4, height_ratios=(1.25, 1))
        windows = (_window(source), _window(target), _window(target))
        colours = (style.SECOND, style.ACCENT, style.INK)
        below: list[Axes] = []
        for i, side in enumerate((source, result, target)):
            _slice(figure.add_subplot(grid[0, i]), side, windows[i])
            below.append(figure.add_subplot(grid[1, i]))
            draw_density(below[i], side.density, colours[i])
        draw_legend(below[0])
        # Result and target are in the same units, so they have the same scale.
        alike = (result.density, target.density)
        top = max(float(max(one.histogram.max(), one.mixture.max())) for one in alike)
        for axes in below[1:]:
            axes.set_ylim(0, 1.05 * top)
            axes.set_xlim(min(one.x[0] for one in alike), max(one.x[-1] for one in alike))
        upper = figure.add_subplot(grid[0, 3])
        lower = figure.add_subplot(grid[1, 3], sharex=upper)
        draw_map(upper, lower, imap)
        figure.align_ylabels([upper, lower])
    return figure


def _window(side: PairSide) -> tuple[float, float]:
    low, high = np.percentile(side.slice_[np.isfinite(side.slice_)], _WINDOW).tolist()
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def _slice(axes: Axes, side: PairSide, window: tuple[float, float]) -> None:
    axes.imshow(side.slice_, cmap="gray", vmin=window[0], vmax=window[1])
    axes.set_facecolor("black")  # outside the brain
    axes.set_title(style.label(side.name, 34), loc="center")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
