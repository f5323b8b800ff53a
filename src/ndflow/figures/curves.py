"""Figures made of curves: densities, intensity maps, and how well a scan fits a target.

- A density: the histogram with the fitted mixture and its components.
- An intensity map ``f`` with the affine alignment, and below it ``f′`` as a multiple of the affine
  slope: above 1 the map expands intensities, below 1 it compresses them.
- A fit: the histogram with the target density, and ``Q_scan(p) − Q_target(p)`` against
  ``Q_target(p)``.

`scan_figure` shows one scan: as scanned, its map, and the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.density.binning import midpoint_edges
from ndflow.figures import style
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec

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
    quantiles, target_quantiles : (m,), at the same probabilities.
    bands : between which intensities each tissue lies, by its name, where that is known.
    """

    x: FloatArray
    histogram: FloatArray
    target: FloatArray
    quantiles: FloatArray
    target_quantiles: FloatArray
    bands: Mapping[str, tuple[float, float]] = MappingProxyType({})


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
        _draw_fit(figure, grid, after)
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


def _draw_fit(figure: Figure, grid: GridSpec, fit: FitCurves) -> None:
    """Draw a histogram with its target, and below it the differences of their quantiles."""
    upper = figure.add_subplot(grid[0, 2])
    lower = figure.add_subplot(grid[1, 2], sharex=upper)
    _draw_histogram(upper, fit.x, fit.histogram, fit.target)
    upper.plot(fit.x, fit.target, color=style.INK, lw=1.2, label="target")
    for name, band in fit.bands.items():
        upper.axvspan(*band, color=style.ACCENT, alpha=0.12, lw=0, zorder=0)
        upper.axvline(sum(band) / 2, color=style.ACCENT, lw=0.6, zorder=0)
        top = upper.get_xaxis_transform()
        upper.text(sum(band) / 2, 1.0, name, ha="center", fontsize=_SMALL, transform=top)
    upper.set_title("after normalisation", pad=10 if fit.bands else None)
    upper.tick_params(labelbottom=False)
    _draw_legend(upper)
    differences = fit.quantiles - fit.target_quantiles
    lower.axhline(0, color=style.INK, lw=0.8, ls="--")
    lower.plot(fit.target_quantiles, differences, color=style.ACCENT, lw=1.4)
    # Without a lower bound, rounding errors of a perfect fit would fill the axis.
    reach = max(1.1 * float(np.abs(differences).max()), 0.005 * float(np.ptp(fit.x)))
    lower.set_ylim(-reach, reach)
    lower.set_ylabel("Q–Q\ndifference")
    lower.set_xlabel("intensity after normalisation")


def _draw_legend(axes: Axes) -> None:
    """Draw a small legend where it hides least."""
    axes.legend(loc="best", handlelength=1.2, fontsize=_SMALL, borderaxespad=0.1)


def _draw_histogram(axes: Axes, x: FloatArray, density: FloatArray, curve: FloatArray) -> None:
    """Draw a histogram behind a curve; cut off spikes that would make the curve small."""
    axes.stairs(density, midpoint_edges(x), fill=True, color=style.FAINT, lw=0, label="histogram")
    top = float(density.max())
    if curve.max() > 0:
        top = max(float(curve.max()), min(top, _SPIKE * float(curve.max())))
    axes.set_xlim(x[0], x[-1])
    style.density_axes(axes)
    axes.set_ylim(0, 1.05 * top if top > 0 else 1.0)
