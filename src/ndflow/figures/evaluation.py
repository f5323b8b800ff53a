"""How well a scan's histogram fits a target density [castro2018, Fig. 3].

Each cell is a scan, or a method: the histogram with the target density, a Q–Q plot, and below it
the difference ``Q_scan(p) − Q_target(p)`` against ``Q_target(p)``, which the diagonal would hide.
All differences have the same scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.figures import style
from ndflow.figures.curves import FitCurves, draw_differences, draw_fit, draw_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH, _HEIGHT = 4.8, 2.0  # inches, of a cell
_LETTERS = 12  # per inch


class FitCell(NamedTuple):
    """A scan's histogram beside its target.

    Attributes
    ----------
    name : of the scan, or of the method.
    fit : the histogram and the target.
    rmse : root mean square difference of the densities, shown as text.
    w1 : Wasserstein distance of the distributions, shown as text.
    """

    name: str
    fit: FitCurves
    rmse: float
    w1: float


def fit_figure(cells: Sequence[FitCell], *, columns: int = 1, units: str = "intensity") -> Figure:
    """Draw histograms and Q–Q plots.

    Parameters
    ----------
    cells : in reading order.
    columns : number of cells side by side, for example one per method.
    units : of the intensities.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    across = min(columns, len(cells))
    down = -(-len(cells) // across)
    width = _WIDTH * across if across > 1 else 1.4 * _WIDTH
    reach = max(float(np.abs(cell.fit.differences).max()) for cell in cells)
    lefts: list[Axes] = []
    with style.new_figure(width, _HEIGHT * down + 0.3) as figure:
        grid = figure.add_gridspec(down, across)
        for i, cell in enumerate(cells):
            # The third column stays empty, as a gap before the next cell.
            parts = grid[divmod(i, across)].subgridspec(
                2, 3, width_ratios=(1.35, 1, 0.02 * across), height_ratios=(1.7, 1)
            )
            left = figure.add_subplot(parts[:, 0])
            upper = figure.add_subplot(parts[0, 1])
            lower = figure.add_subplot(parts[1, 1], sharex=upper)
            lefts.append(left)
            draw_fit(left, cell.fit)
            title = style.label(cell.name, int(_LETTERS * width / across))
            left.set_title(f"{title}\nRMSE {cell.rmse:.3g} · W1 {cell.w1:.3g}", fontsize=8.5)
            _quantiles(upper, cell.fit)
            draw_differences(lower, cell.fit, 1.1 * reach or 1.0)
            figure.align_ylabels([upper, lower])
            if i + across >= len(cells):
                left.set_xlabel(units)
                lower.set_xlabel("target quantile")
        top = max(axes.get_ylim()[1] for axes in lefts)
        for axes in lefts:
            axes.set_ylim(0, top)
        draw_legend(lefts[0])
    return figure


def _quantiles(axes: Axes, fit: FitCurves) -> None:
    target = np.asarray(fit.target_quantiles)
    ends = [target.min(), target.max()]
    axes.plot(ends, ends, color=style.INK, lw=0.8, ls="--")
    axes.plot(target, np.asarray(fit.quantiles), color=style.ACCENT, lw=1.4)
    axes.set_ylabel("scan quantile")
    axes.tick_params(labelbottom=False)
