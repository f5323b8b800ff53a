"""How well a scan's histogram fits a target density [castro2018, Fig. 3].

Each cell is a scan, or a method: the histogram with the target density, a Q–Q plot, and below it
the difference ``Q_scan(p) − Q_target(p)`` against ``Q_target(p)``, which the diagonal would hide.
All differences have the same scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.values import FloatArray, positive, real_array, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH, _HEIGHT = 4.8, 2.0  # inches, of a cell
_LETTERS = 12  # per inch
_SPIKE = 1.6  # times the height of the target: higher bins are cut off


@dataclass(frozen=True, eq=False)
class QuantileRow:
    """A scan's histogram beside its target.

    Attributes
    ----------
    name : of the scan, or of the method.
    x : (n,), centres of the bins.
    histogram, target : (n,), the densities there.
    quantiles, target_quantiles : (m,), at the same probabilities.
    rmse : root mean square difference of the densities, shown as text.
    w1 : Wasserstein distance of the distributions, shown as text.
    """

    name: str
    x: FloatArray
    histogram: FloatArray
    target: FloatArray
    quantiles: FloatArray
    target_quantiles: FloatArray
    rmse: float
    w1: float

    def __post_init__(self) -> None:
        """Validate."""
        x = style.increasing(self.x, "x")
        quantiles = real_array(self.quantiles, "quantiles", None)
        if not quantiles.size:
            raise InvalidValueError("quantiles must hold at least one number")
        arrays = {
            "x": x,
            "histogram": real_array(self.histogram, "histogram", x.size),
            "target": real_array(self.target, "target", x.size),
            "quantiles": quantiles,
            "target_quantiles": real_array(
                self.target_quantiles, "target_quantiles", quantiles.size
            ),
        }
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        for name in ("rmse", "w1"):
            object.__setattr__(self, name, positive(getattr(self, name), name, zero=True))


def histogram_and_quantile_figure(
    rows: Sequence[QuantileRow], *, columns: int = 1, units: str = "intensity"
) -> Figure:
    """Draw histograms and Q–Q plots.

    Parameters
    ----------
    rows : the cells, in reading order.
    columns : number of cells side by side, for example one per method.
    units : of the intensities.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    if not rows:
        raise InvalidValueError("rows must hold at least one cell")
    across = min(whole(columns, "columns", 1, 8), len(rows))
    down = -(-len(rows) // across)
    width = _WIDTH * across if across > 1 else 1.4 * _WIDTH
    top = max(float(row.target.max()) for row in rows)
    tops = [min(float(row.histogram.max()), _SPIKE * top) for row in rows]
    reach = max(float(np.abs(row.quantiles - row.target_quantiles).max()) for row in rows)
    with style.new_figure(width, _HEIGHT * down + 0.3) as figure:
        cells = figure.add_gridspec(down, across)
        for i, row in enumerate(rows):
            place = divmod(i, across)
            # The third column stays empty, as a gap before the next cell.
            parts = cells[place].subgridspec(
                2, 3, width_ratios=(1.35, 1, 0.02 * across), height_ratios=(1.7, 1)
            )
            left = figure.add_subplot(parts[:, 0])
            upper = figure.add_subplot(parts[0, 1])
            lower = figure.add_subplot(parts[1, 1], sharex=upper)
            last = i + across >= len(rows)
            _histogram(left, row, int(_LETTERS * width / across), legend=i == 0)
            left.set_ylim(0, 1.05 * max(top, *tops))
            if last:
                left.set_xlabel(units)
            _quantiles(upper, lower, row, 1.1 * reach or 1.0, last=last)
            figure.align_ylabels([upper, lower])
    return figure


def _histogram(axes: Axes, row: QuantileRow, letters: int, *, legend: bool) -> None:
    axes.fill_between(row.x, row.histogram, step="mid", color=style.FAINT, lw=0, label="scan")
    axes.plot(row.x, row.target, color=style.INK, lw=1, label="target")
    title = style.label(row.name, letters)
    axes.set_title(f"{title}\nRMSE {row.rmse:.3g} · W1 {row.w1:.3g}", fontsize=8.5)
    axes.set_xlim(row.x[0], row.x[-1])
    style.density_axes(axes)
    if legend:
        axes.legend(loc="upper left", handlelength=1.2, fontsize=7, borderaxespad=0.1)


def _quantiles(upper: Axes, lower: Axes, row: QuantileRow, reach: float, *, last: bool) -> None:
    ends = [row.target_quantiles.min(), row.target_quantiles.max()]
    upper.plot(ends, ends, color=style.FAINT, lw=1)
    upper.plot(row.target_quantiles, row.quantiles, color=style.SECOND, lw=1.2)
    upper.set_ylabel("scan quantile")
    upper.tick_params(labelbottom=False)
    lower.axhline(0, color=style.FAINT, lw=1)
    lower.plot(
        row.target_quantiles, row.quantiles - row.target_quantiles, color=style.SECOND, lw=1.2
    )
    lower.set_ylim(-reach, reach)
    lower.set_ylabel("difference")
    if last:
        lower.set_xlabel("target quantile")
