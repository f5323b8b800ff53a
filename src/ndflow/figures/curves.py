"""Figures made of curves: densities, intensity maps, and how well a scan fits a target.

- A density: the histogram with the fitted mixture and its components.
- An intensity map ``f`` with the affine alignment, and below it ``f′`` as a multiple of the affine
  slope: above 1 the map expands intensities, below 1 it compresses them.
- A fit: the histogram with the target density, and ``Q_scan(p) − Q_target(p)`` against
  ``Q_target(p)``.

`scan_figure` shows one scan: as scanned, its map, and the result. `fit_figure` shows the fit of
scans to a target under several conditions [castro2018, Fig. 3].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.density.binning import midpoint_edges
from ndflow.figures import style
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec

_LETTERS = 12  # per inch
_SPIKE = 1.6  # times the height of the curve to compare with: higher bins are cut off
_SMALL = 6.5  # points, the font size of legends


class DensityCurves(NamedTuple):
    """The density of a scan.

    Attributes
    ----------
    x : (n,), increasing intensities.
    histogram, mixture : (n,), the densities there.
    components : (K, n), the weighted components, whose sum is the mixture.
    """

    x: FloatArray
    histogram: FloatArray
    mixture: FloatArray
    components: FloatArray


class MapCurves(NamedTuple):
    """An intensity map.

    Attributes
    ----------
    x : (n,), increasing intensities as scanned.
    y, slope : (n,), the map and its derivative at `x`.
    straight : (n,), the affine alignment alone at `x`.
    """

    x: FloatArray
    y: FloatArray
    slope: FloatArray
    straight: FloatArray


class FitCurves(NamedTuple):
    """A scan beside its target.

    Attributes
    ----------
    x : (n,), increasing intensities.
    histogram, target : (n,), the densities there.
    quantiles, target_quantiles : (m,), at the same probabilities. These two and the target are None
        where a method has no target density.
    """

    x: FloatArray
    histogram: FloatArray
    target: FloatArray | None = None
    quantiles: FloatArray | None = None
    target_quantiles: FloatArray | None = None

    @property
    def differences(self) -> FloatArray:
        """The differences of quantiles from those of the target."""
        off: FloatArray = np.asarray(self.quantiles) - np.asarray(self.target_quantiles)
        return off


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


# ── figures ───────────────────────────────────────────────────────────────────────────────────────


def scan_figure(before: DensityCurves, imap: MapCurves, after: FitCurves) -> Figure:
    """Draw a scan before normalisation, its intensity map, and the scan after normalisation.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    with style.new_figure(9.0, 2.4) as figure:
        grid = figure.add_gridspec(2, 3, height_ratios=(1.7, 1), width_ratios=(1.1, 1, 1.1))
        axes = figure.add_subplot(grid[:, 0])
        _draw_density(axes, before)
        axes.set_title("as scanned")
        _draw_legend(axes)
        _draw_map(figure, grid, imap)
        fitted = after.target is not None
        axes = last = figure.add_subplot(grid[0, 2] if fitted else grid[:, 2])
        _draw_fit(axes, after)
        axes.set_title("after normalisation")
        if fitted:
            _draw_legend(axes)
            axes.tick_params(labelbottom=False)
            last = figure.add_subplot(grid[1, 2], sharex=axes)
            # Without a lower bound, rounding errors of a perfect fit would fill the axis.
            most = float(np.abs(after.differences).max())
            _draw_differences(last, after, max(1.1 * most, 0.005 * float(np.ptp(after.x))))
        last.set_xlabel("intensity after normalisation")
    return figure


def fit_figure(cells: Sequence[FitCell], *, units: str = "intensity") -> Figure:
    """Draw histograms, Q–Q plots, and differences of quantiles, which a diagonal would hide.

    All differences have the same scale.

    Parameters
    ----------
    cells : in reading order.
    units : of the intensities.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    across = 1 if len(cells) < 3 else 2
    down = -(-len(cells) // across)
    width = 9.6 if across > 1 else 6.72
    reach = max(float(np.abs(cell.fit.differences).max()) for cell in cells)
    lefts: list[Axes] = []
    with style.new_figure(width, 2.0 * down + 0.3) as figure:
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
            _draw_fit(left, cell.fit)
            title = style.label(cell.name, int(_LETTERS * width / across))
            left.set_title(f"{title}\nRMSE {cell.rmse:.3g} · W1 {cell.w1:.3g}", fontsize=8.5)
            target = np.asarray(cell.fit.target_quantiles)
            ends = [target.min(), target.max()]
            upper.plot(ends, ends, color=style.INK, lw=0.8, ls="--")
            upper.plot(target, np.asarray(cell.fit.quantiles), color=style.ACCENT, lw=1.4)
            upper.set_ylabel("scan quantile")
            upper.tick_params(labelbottom=False)
            _draw_differences(lower, cell.fit, 1.1 * reach or 1.0)
            figure.align_ylabels([upper, lower])
            if i + across >= len(cells):
                left.set_xlabel(units)
                lower.set_xlabel("target quantile")
        top = max(axes.get_ylim()[1] for axes in lefts)
        for axes in lefts:
            axes.set_ylim(0, top)
        _draw_legend(lefts[0])
    return figure


# ── panels ────────────────────────────────────────────────────────────────────────────────────────


def _draw_density(axes: Axes, curves: DensityCurves) -> None:
    """Draw a histogram with the mixture and its components."""
    _draw_histogram(axes, curves.x, curves.histogram, curves.mixture)
    colour = style.ACCENT
    for k, part in enumerate(curves.components):
        axes.plot(curves.x, part, color=colour, lw=0.6, label=None if k else "components")
    axes.plot(curves.x, curves.mixture, color=colour, lw=1.4, label="mixture")
    axes.set_xlabel("intensity")


def _draw_map(figure: Figure, grid: GridSpec, imap: MapCurves) -> None:
    """Draw an intensity map in the middle of a grid, and its slope below."""
    upper = figure.add_subplot(grid[0, 1])
    lower = figure.add_subplot(grid[1, 1], sharex=upper)
    upper.plot(imap.x, imap.straight, color=style.INK, lw=0.8, ls="--", label="z-scored")
    upper.plot(imap.x, imap.y, color=style.ACCENT, lw=1.4, label="map")
    upper.set_title("intensity map")
    upper.set_ylabel("after")
    upper.tick_params(labelbottom=False)
    _draw_legend(upper)
    affine_slope = (imap.straight[-1] - imap.straight[0]) / (imap.x[-1] - imap.x[0])
    lower.axhline(1, color=style.INK, lw=0.8, ls="--")
    lower.plot(imap.x, imap.slope / affine_slope, color=style.ACCENT, lw=1.4)
    lower.set_ylim(bottom=0)  # the slope of a flat map
    lower.set_xlim(imap.x[0], imap.x[-1])
    lower.set_ylabel("slope\n÷ affine")
    lower.set_xlabel("intensity as scanned")
    figure.align_ylabels([upper, lower])


def _draw_fit(axes: Axes, fit: FitCurves) -> None:
    """Draw a histogram with the target density, if there is one."""
    _draw_histogram(axes, fit.x, fit.histogram, fit.target)
    if fit.target is not None:
        axes.plot(fit.x, fit.target, color=style.INK, lw=1.2, label="target")


def _draw_differences(axes: Axes, fit: FitCurves, reach: float) -> None:
    """Draw the differences of quantiles, from ``-reach`` to `reach`."""
    axes.axhline(0, color=style.INK, lw=0.8, ls="--")
    axes.plot(np.asarray(fit.target_quantiles), fit.differences, color=style.ACCENT, lw=1.4)
    axes.set_ylim(-reach, reach)
    axes.set_ylabel("Q–Q\ndifference")


def _draw_legend(axes: Axes) -> None:
    """Draw a small legend where it hides least."""
    axes.legend(loc="best", handlelength=1.2, fontsize=_SMALL, borderaxespad=0.1)


def _draw_histogram(
    axes: Axes, x: FloatArray, density: FloatArray, curve: FloatArray | None
) -> None:
    """Draw a histogram behind a curve; cut off spikes that would make the curve small."""
    axes.stairs(density, midpoint_edges(x), fill=True, color=style.FAINT, lw=0, label="histogram")
    top = float(density.max())
    if curve is not None and curve.max() > 0:
        top = max(float(curve.max()), min(top, _SPIKE * float(curve.max())))
    axes.set_xlim(x[0], x[-1])
    style.density_axes(axes)
    axes.set_ylim(0, 1.05 * top if top > 0 else 1.0)
