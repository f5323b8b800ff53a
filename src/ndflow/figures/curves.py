"""Curves that several figures show: a density, an intensity map, and how well a scan fits a target.

- A density: the histogram with the fitted mixture and its components.
- An intensity map ``f`` with the affine alignment, and below it ``f′`` as a multiple of the affine
  slope: above 1 the map expands intensities, below 1 it compresses them.
- A fit: the histogram with the target density, and ``Q_scan(p) − Q_target(p)`` against
  ``Q_target(p)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.density.binning import midpoint_edges
from ndflow.figures import style
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def draw_density(axes: Axes, curves: DensityCurves, colour: str) -> None:
    """Draw a histogram with the mixture and its components."""
    _draw_histogram(axes, curves.x, curves.histogram, curves.mixture)
    for k, part in enumerate(curves.components):
        axes.plot(curves.x, part, color=colour, lw=0.6, label=None if k else "components")
    axes.plot(curves.x, curves.mixture, color=colour, lw=1.4, label="mixture")
    axes.set_xlabel("intensity")


def draw_map(upper: Axes, lower: Axes, imap: MapCurves) -> None:
    """Draw an intensity map, and below it its slope."""
    upper.plot(imap.x, imap.straight, color=style.INK, lw=0.8, ls="--", label="affine")
    upper.plot(imap.x, imap.y, color=style.ACCENT, lw=1.4, label="map")
    upper.set_title("intensity map")
    upper.set_ylabel("after")
    upper.tick_params(labelbottom=False)
    draw_legend(upper)
    affine_slope = (imap.straight[-1] - imap.straight[0]) / (imap.x[-1] - imap.x[0])
    lower.axhline(1, color=style.INK, lw=0.8, ls="--")
    lower.plot(imap.x, imap.slope / affine_slope, color=style.ACCENT, lw=1.4)
    lower.set_ylim(bottom=0)  # the slope of a flat map
    lower.set_xlim(imap.x[0], imap.x[-1])
    lower.set_ylabel("slope\n÷ affine")
    lower.set_xlabel("intensity as scanned")


def draw_fit(axes: Axes, fit: FitCurves) -> None:
    """Draw a histogram with the target density, if there is one."""
    _draw_histogram(axes, fit.x, fit.histogram, fit.target)
    if fit.target is not None:
        axes.plot(fit.x, fit.target, color=style.INK, lw=1.2, label="target")


def draw_differences(axes: Axes, fit: FitCurves, reach: float) -> None:
    """Draw the differences of quantiles, from ``-reach`` to `reach`."""
    axes.axhline(0, color=style.INK, lw=0.8, ls="--")
    axes.plot(np.asarray(fit.target_quantiles), fit.differences, color=style.ACCENT, lw=1.4)
    axes.set_ylim(-reach, reach)
    axes.set_ylabel("Q–Q\ndifference")


def draw_legend(axes: Axes) -> None:
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
