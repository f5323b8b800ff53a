"""The volume of a tissue in every scan: against age where that is known, else by site.

A brain loses GM and gains CSF with age, and people differ. So a scan is suspicious if it lies far
from others of its age, and a preparation if a whole site does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.values import FloatArray, real_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["VolumePanel", "volume_picture"]

_WIDTH, _HEIGHT = 3.1, 2.3  # inches
_AXES = (0.13, 0.19, 0.84, 0.7)  # left, bottom, width, height
_MARKERS = ("o", "s", "^", "D")  # sites that share a colour differ in them
_PALETTE = 6  # colours
_SPREAD = 0.3  # of the distance between sites, over which their scans are spread
_NAMED = 6  # sites whose names fit below the axis


@dataclass(frozen=True, eq=False)
class VolumePanel:
    """The volumes of one tissue.

    Attributes
    ----------
    title : the tissue.
    volumes : (scans,), in millilitres.
    sites : (scans,), the site of each scan.
    ages : (scans,), NaN where an age is not known; None to draw scans by site.
    """

    title: str
    volumes: FloatArray
    sites: Sequence[str]
    ages: FloatArray | None = None

    def __post_init__(self) -> None:
        """Validate."""
        volumes = real_array(self.volumes, "volumes", None)
        if not volumes.size:
            raise InvalidValueError("volumes must hold at least one scan")
        for name, given in (("sites", self.sites), ("ages", self.ages)):
            if given is not None and len(given) != volumes.size:
                raise InvalidValueError(f"{name} must be {volumes.size}, one per scan")
        object.__setattr__(self, "volumes", volumes)


def volume_picture(panel: VolumePanel, *, sites: Iterable[str] = ()) -> Figure:
    """Draw the volumes of a tissue, without a legend, small enough for a phone.

    Parameters
    ----------
    panel : the volumes.
    sites : all sites of the study, on which colours depend.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.export` turns into a file.
    """
    all_sites = sorted({*sites, *panel.sites})
    with style.drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        axes = figure.add_axes(_AXES)
        colour = style.colours(all_sites)
        here = np.array([all_sites.index(site) for site in panel.sites])
        for number, site in enumerate(all_sites):
            own = here == number
            volumes, paint = panel.volumes[own], colour[site]
            if not volumes.size:
                continue
            marker = _MARKERS[number // _PALETTE % len(_MARKERS)]
            places = _spread(number, volumes.size)
            if panel.ages is not None:
                places = np.asarray(panel.ages, np.float64)[own]
            else:
                middle = np.median(volumes)
                axes.plot([number - 0.4, number + 0.4], [middle, middle], color=paint, lw=1.5)
            axes.plot(places, volumes, marker, color=paint, ms=3.2, mec="none", alpha=0.8)
        _label(axes, panel, all_sites)
    return figure


def _spread(number: int, count: int) -> FloatArray:
    """Return where the scans of a site are drawn: around its place, next ones not side by side."""
    step = np.arange(count) * 0.618 % 1 - 0.5 if count > 1 else np.zeros(1)
    return np.asarray(number + 2 * _SPREAD * step, np.float64)


def _label(axes: Axes, panel: VolumePanel, all_sites: Sequence[str]) -> None:
    axes.set_title(f"{style.label(panel.title, 36)}, ml")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(y=0.08)
    if panel.ages is not None:
        axes.set_xlabel("age")
        return
    axes.set_xlim(-0.7, len(all_sites) - 0.3)
    named = len(all_sites) <= _NAMED
    names = [style.label(site, 12) for site in all_sites] if named else []
    axes.set_xticks(range(len(names)), names)
    if not named:
        axes.set_xlabel("sites, in the order of their names")
