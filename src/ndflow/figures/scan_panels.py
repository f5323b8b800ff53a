"""One scan: its density, its intensity map, and its density after normalisation.

Methods without a target density have the histogram of the result alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndflow.figures import style
from ndflow.figures.curves import (
    DensityCurves,
    FitCurves,
    MapCurves,
    draw_density,
    draw_differences,
    draw_fit,
    draw_legend,
    draw_map,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 9.0, 2.4  # inches


def scan_figure(before: DensityCurves, imap: MapCurves, after: FitCurves) -> Figure:
    """Draw a scan before normalisation, its intensity map, and the scan after normalisation.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    with style.new_figure(_WIDTH, _HEIGHT) as figure:
        grid = figure.add_gridspec(2, 3, height_ratios=(1.7, 1), width_ratios=(1.1, 1, 1.1))
        axes = figure.add_subplot(grid[:, 0])
        draw_density(axes, before, style.ACCENT)
        axes.set_title("as scanned")
        draw_legend(axes)
        upper = figure.add_subplot(grid[0, 1])
        lower = figure.add_subplot(grid[1, 1], sharex=upper)
        draw_map(upper, lower, imap)
        figure.align_ylabels([upper, lower])
        fitted = after.target is not None
        axes = last = figure.add_subplot(grid[0, 2] if fitted else grid[:, 2])
        draw_fit(axes, after)
        axes.set_title("after normalisation")
        if fitted:
            draw_legend(axes)
            axes.tick_params(labelbottom=False)
            last = figure.add_subplot(grid[1, 2], sharex=axes)
            # Without a lower bound, rounding errors of a perfect fit would fill the axis.
            most = float(np.abs(after.differences).max())
            draw_differences(last, after, max(1.1 * most, 0.005 * float(np.ptp(after.x))))
        last.set_xlabel("intensity after normalisation")
    return figure
