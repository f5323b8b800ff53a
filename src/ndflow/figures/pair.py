"""One scan matched to another: slices, densities, and the intensity map [castro2018, Fig. 1].

The columns are the source, the result and the target. Result and target are in the same units and
have the same grey window, the target's; the source has its own. Beside them is the intensity map
``f`` with its affine part, and its slope as a multiple of the affine slope: above 1 the map expands
intensities, below 1 it compresses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.values import FloatArray, real_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 10.4, 4.4  # inches
_WINDOW = (1, 99.5)  # percentiles of a slice, from black to white


@dataclass(frozen=True, eq=False)
class PairSide:
    """A scan as the figure shows it.

    Attributes
    ----------
    name : title of its column.
    slice_ : (rows, columns), the image; NaN outside the brain, which is drawn black.
    x : (n,), increasing intensities.
    histogram, mixture : (n,), the densities there.
    components : (K, n), the weighted components, whose sum is the mixture.
    """

    name: str
    slice_: FloatArray
    x: FloatArray
    histogram: FloatArray
    mixture: FloatArray
    components: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        slice_ = np.array(self.slice_, dtype=np.float64)
        if slice_.ndim != 2 or not np.isfinite(slice_).any():
            raise InvalidValueError(
                f"slice_ of {self.name!r} must be a 2D image that is not all NaN"
            )
        slice_.flags.writeable = False
        x = style.increasing(self.x, f"x of {self.name!r}")
        arrays = {
            "slice_": slice_,
            "x": x,
            "histogram": real_array(self.histogram, "histogram", x.size),
            "mixture": real_array(self.mixture, "mixture", x.size),
            "components": real_array(self.components, "components", None, x.size),
        }
        for name, array in arrays.items():
            object.__setattr__(self, name, array)


@dataclass(frozen=True, eq=False)
class MapCurve:
    """An intensity map as the figure shows it.

    Attributes
    ----------
    x : (n,), increasing intensities of the source.
    y, slope : (n,), the map and its derivative at `x`.
    straight : (n,), the affine alignment alone at `x`; `x` itself for the identity.
    """

    x: FloatArray
    y: FloatArray
    slope: FloatArray
    straight: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        x = style.increasing(self.x, "x of the map")
        object.__setattr__(self, "x", x)
        for name in ("y", "slope", "straight"):
            object.__setattr__(self, name, real_array(getattr(self, name), name, x.size))
        if not self.straight[-1] > self.straight[0]:
            raise InvalidValueError("straight must be an increasing line")


def pair_panels(source: PairSide, target: PairSide, result: PairSide, imap: MapCurve) -> Figure:
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
            _histogram(below[i], side, colours[i], legend=i == 0)
        top = max(axes.get_ylim()[1] for axes in below[1:])  # the same units, so the same scale
        ends = [axes.get_xlim() for axes in below[1:]]
        for axes in below[1:]:
            axes.set_ylim(0, top)
            axes.set_xlim(min(end[0] for end in ends), max(end[1] for end in ends))
        upper = figure.add_subplot(grid[0, 3])
        lower = figure.add_subplot(grid[1, 3], sharex=upper)
        _map(upper, lower, imap)
        figure.align_ylabels([upper, lower])
    return figure


def _window(side: PairSide) -> tuple[float, float]:
    low, high = np.percentile(side.slice_[np.isfinite(side.slice_)], _WINDOW).tolist()
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def _slice(axes: Axes, side: PairSide, window: tuple[float, float]) -> None:
    picture = np.where(np.isfinite(side.slice_), side.slice_, np.nan)  # NaN is transparent
    axes.imshow(picture, cmap="gray", vmin=window[0], vmax=window[1])
    axes.set_facecolor("black")  # outside the brain
    axes.set_title(style.label(side.name, 34), loc="center")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _histogram(axes: Axes, side: PairSide, colour: str, *, legend: bool) -> None:
    axes.fill_between(
        side.x, side.histogram, step="mid", color=style.FAINT, lw=0, label="histogram"
    )
    for k, part in enumerate(side.components):
        axes.plot(side.x, part, color=colour, lw=0.6, label=None if k else "components")
    axes.plot(side.x, side.mixture, color=colour, lw=1.4, label="mixture")
    axes.set_xlim(side.x[0], side.x[-1])
    axes.set_xlabel("intensity")
    style.density_axes(axes)
    if legend:
        axes.legend(loc="upper left", handlelength=1.2, fontsize=6.5, borderaxespad=0.1)


def _map(upper: Axes, lower: Axes, imap: MapCurve) -> None:
    upper.plot(imap.x, imap.straight, color=style.FAINT, lw=1.2, label="affine")
    upper.plot(imap.x, imap.y, color=style.ACCENT, lw=1.4, label="map")
    upper.set_title("intensity map", loc="center")
    upper.set_ylabel("result intensity")
    upper.tick_params(labelbottom=False)
    upper.legend(loc="upper left", handlelength=1.2, fontsize=7)
    steepness = (imap.straight[-1] - imap.straight[0]) / (imap.x[-1] - imap.x[0])
    lower.axhline(1, color=style.FAINT, lw=1.2)
    lower.plot(imap.x, imap.slope / steepness, color=style.ACCENT, lw=1.4)
    lower.set_ylabel("slope ÷ affine slope")
    lower.set_xlabel("source intensity")
    lower.set_xlim(imap.x[0], imap.x[-1])
