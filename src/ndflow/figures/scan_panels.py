"""One scan of a study: its density, its intensity map, and its density after normalisation.

- As scanned: the histogram with the fitted mixture and its components.
- The intensity map ``f`` with the affine alignment, and below it ``f′`` as a multiple of the affine
  slope: above 1 the map expands intensities, below 1 it compresses them.
- After normalisation: the histogram with the target density, and below it
  ``Q_scan(p) − Q_target(p)`` against ``Q_target(p)``. Methods without a target density have the
  histogram alone.

A study has many such figures on one page, so each is kept small: histograms are drawn in at most
`_POINTS` bins, which preserve the mass of the finer ones, and curves at as many points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndflow.density.binning import midpoint_edges
from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.figures.pair import MapCurve
from ndflow.values import FloatArray, real_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 9.0, 2.4  # inches
_POINTS = 160
_SPIKE = 1.6  # times the height of the curve to compare with: higher bins are cut off
_SMALL = 6.5  # points, the font size of legends


@dataclass(frozen=True, eq=False)
class ScanPanel:
    """A scan as the figure shows it.

    Attributes
    ----------
    x : (n,), increasing intensities as scanned.
    histogram, mixture : (n,), the densities there.
    components : (K, n), the weighted components, whose sum is the mixture.
    map_x : (m,), increasing intensities as scanned.
    map_y, map_slope : (m,), the intensity map and its derivative at `map_x`.
    map_straight : (m,), the affine alignment alone at `map_x`.
    y : (l,), increasing intensities after normalisation.
    result, target : (l,), the density of the scan at `y`, and the target density.
    quantiles, target_quantiles : (q,), after normalisation, at the same probabilities. These two
        and the target belong together: where a method has no target density, all three are None.
    """

    x: FloatArray
    histogram: FloatArray
    mixture: FloatArray
    components: FloatArray
    map_x: FloatArray
    map_y: FloatArray
    map_slope: FloatArray
    map_straight: FloatArray
    y: FloatArray
    result: FloatArray
    target: FloatArray | None = None
    quantiles: FloatArray | None = None
    target_quantiles: FloatArray | None = None

    def __post_init__(self) -> None:
        """Validate."""
        x, y = style.increasing(self.x, "x"), style.increasing(self.y, "y")
        imap = MapCurve(self.map_x, self.map_y, self.map_slope, self.map_straight)
        arrays = {
            "x": x,
            "histogram": real_array(self.histogram, "histogram", x.size),
            "mixture": real_array(self.mixture, "mixture", x.size),
            "components": real_array(self.components, "components", None, x.size),
            "map_x": imap.x,
            "map_y": imap.y,
            "map_slope": imap.slope,
            "map_straight": imap.straight,
            "y": y,
            "result": real_array(self.result, "result", y.size),
        }
        goal = (self.target, self.quantiles, self.target_quantiles)
        if self.target is not None and self.quantiles is not None and goal[2] is not None:
            quantiles = real_array(self.quantiles, "quantiles", None)
            if not quantiles.size:
                raise InvalidValueError("quantiles must hold at least one number")
            arrays |= {
                "target": real_array(self.target, "target", y.size),
                "quantiles": quantiles,
                "target_quantiles": real_array(goal[2], "target_quantiles", quantiles.size),
            }
        elif any(part is not None for part in goal):
            raise InvalidValueError(
                "target, quantiles and target_quantiles belong together: give all three, or none"
            )
        for name, array in arrays.items():
            object.__setattr__(self, name, array)


def scan_figure(panel: ScanPanel, *, colour: str = style.ACCENT) -> Figure:
    """Draw a scan before normalisation, its intensity map, and the scan after normalisation.

    Parameters
    ----------
    panel : the scan.
    colour : of its curves, for example that of its site.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    with style.new_figure(_WIDTH, _HEIGHT) as figure:
        grid = figure.add_gridspec(2, 3, height_ratios=(1.7, 1), width_ratios=(1.1, 1, 1.1))
        _before(figure.add_subplot(grid[:, 0]), panel, colour)
        upper = figure.add_subplot(grid[0, 1])
        lower = figure.add_subplot(grid[1, 1], sharex=upper)
        _map(upper, lower, panel, colour)
        figure.align_ylabels([upper, lower])
        if panel.target is None:
            _after(figure.add_subplot(grid[:, 2]), panel)
        else:
            upper = figure.add_subplot(grid[0, 2])
            _after(upper, panel)
            _differences(figure.add_subplot(grid[1, 2], sharex=upper), panel, colour)
    return figure


def _before(axes: Axes, panel: ScanPanel, colour: str) -> None:
    _steps(axes, panel.x, panel.histogram, panel.mixture)
    sparse = _sparse(panel.x.size)
    for k, part in enumerate(panel.components):
        axes.plot(
            panel.x[sparse], part[sparse], color=colour, lw=0.6, label=None if k else "components"
        )
    axes.plot(panel.x[sparse], panel.mixture[sparse], color=colour, lw=1.4, label="mixture")
    axes.set_title("as scanned")
    axes.set_xlabel("intensity")
    axes.legend(loc="best", handlelength=1.2, fontsize=_SMALL, borderaxespad=0.1)


def _map(upper: Axes, lower: Axes, panel: ScanPanel, colour: str) -> None:
    sparse = _sparse(panel.map_x.size)
    x = panel.map_x[sparse]
    ends = [0, -1]
    upper.plot(x[ends], panel.map_straight[ends], color=style.INK, lw=0.8, ls="--", label="affine")
    upper.plot(x, panel.map_y[sparse], color=colour, lw=1.4, label="map")
    upper.set_title("intensity map")
    upper.set_ylabel("after")
    upper.tick_params(labelbottom=False)
    upper.legend(loc="upper left", handlelength=1.6, fontsize=_SMALL, borderaxespad=0.1)
    rise, run = np.ptp(panel.map_straight[ends]), np.ptp(panel.map_x[ends])
    lower.axhline(1, color=style.INK, lw=0.8, ls="--")
    lower.plot(x, panel.map_slope[sparse] * (run / rise), color=colour, lw=1.4)
    lower.set_ylim(bottom=0)  # the slope of a flat map
    lower.set_xlim(x[0], x[-1])
    lower.set_ylabel("slope\n÷ affine")
    lower.set_xlabel("intensity as scanned")


def _after(axes: Axes, panel: ScanPanel) -> None:
    _steps(axes, panel.y, panel.result, panel.target)
    axes.set_title("after normalisation")
    if panel.target is None:
        axes.set_xlabel("intensity")
    else:
        sparse = _sparse(panel.y.size)
        axes.plot(panel.y[sparse], panel.target[sparse], color=style.INK, lw=1.2, label="target")
        axes.tick_params(labelbottom=False)
        axes.legend(loc="best", handlelength=1.2, fontsize=_SMALL, borderaxespad=0.1)


def _differences(axes: Axes, panel: ScanPanel, colour: str) -> None:
    wanted, found = np.asarray(panel.target_quantiles), np.asarray(panel.quantiles)
    sparse = _sparse(wanted.size)
    axes.axhline(0, color=style.INK, lw=0.8, ls="--")
    axes.plot(wanted[sparse], (found - wanted)[sparse], color=colour, lw=1.4)
    # Without a lower bound, rounding errors of a perfect fit would fill the axis.
    reach = max(1.1 * float(np.abs(found - wanted).max()), 0.005 * float(np.ptp(panel.y)))
    axes.set_ylim(-reach, reach)
    axes.set_ylabel("Q–Q\ndifference")
    axes.set_xlabel("intensity after normalisation")


def _steps(axes: Axes, x: FloatArray, density: FloatArray, curve: FloatArray | None) -> None:
    """Draw a histogram behind a curve; cut off spikes that would make the curve small."""
    edges, heights = _rebinned(x, density)
    axes.stairs(heights, edges, fill=True, color=style.FAINT, lw=0, label="histogram")
    top = float(heights.max())
    if curve is not None and curve.max() > 0:
        top = max(float(curve.max()), min(top, _SPIKE * float(curve.max())))
    axes.set_xlim(x[0], x[-1])
    style.density_axes(axes)
    axes.set_ylim(0, 1.05 * top if top > 0 else 1.0)


def _rebinned(x: FloatArray, density: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return edges and heights of at most `_POINTS` bins of the same mass, from bin centres."""
    edges = midpoint_edges(x)
    if x.size <= _POINTS:
        return edges, density
    below = np.concatenate([[0.0], np.cumsum(density * np.diff(edges))])
    fewer = np.linspace(edges[0], edges[-1], _POINTS + 1)
    return fewer, np.diff(np.interp(fewer, edges, below)) / np.diff(fewer)


def _sparse(size: int) -> list[int]:
    """Return the indices of the points of a curve that are drawn, including both ends."""
    chosen: list[int] = np.linspace(0, size - 1, min(size, _POINTS)).round().astype(int).tolist()
    return chosen
