"""What the figures of a comparison show, after those of the paper; `ndflow.figures` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.evaluation.comparison import UNNORMALISED, Comparison, Condition, shown_name
from ndflow.evaluation.distribution import EmpiricalDistribution
from ndflow.evaluation.tissues import TISSUE_ROWS
from ndflow.figures.cohort import DensityPanel, density_figure, tissue_figure
from ndflow.figures.style import png, svg
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# ── all figures ───────────────────────────────────────────────────────────────────────────────────

_BINS = 200
_ENDS = (0.0005, 0.9995)
_BEYOND = 0.08  # of the range, on either side
_LOGARITHMIC = 3.0  # medians that differ by this factor need a logarithmic axis
_UNITS = "standard deviations"


class Drawing(NamedTuple):
    """A figure that is still to be drawn, by any process.

    Attributes
    ----------
    name : of its files.
    draw : draws it; it holds the numbers that are shown, and nothing else.
    """

    name: str
    draw: Callable[[], Figure]

    def files(self) -> dict[str, bytes]:
        """Draw it, and return the content of its files by their names."""
        figure = self.draw()
        return {f"{self.name}.svg": svg(figure), f"{self.name}.png": png(figure)}


def drawings(comparison: Comparison) -> list[Drawing]:
    """Return all figures that the scans allow."""
    panels = [_panel(comparison, condition) for condition in comparison.conditions]
    found = [Drawing("populations", partial(density_figure, panels))]
    rows = {
        shown_name(one.name): one.tissues[:, :, :3]
        for one in comparison.conditions[1:]
        if one.tissues is not None
    }
    if rows:
        sites = [scan.site or "all scans" for scan in comparison.scans]
        draw = partial(tissue_figure, sites=sites, units=f"intensity, in {_UNITS}")
        for number, tissue in enumerate(TISSUE_ROWS):
            own = {name: quartiles[:, [number]] for name, quartiles in rows.items()}
            found.append(Drawing(f"tissues_{tissue}", partial(draw, own, tissue_names=[tissue])))
    return found


def _panel(comparison: Comparison, condition: Condition) -> DensityPanel:
    scans, units, logarithmic = condition.distributions, _UNITS, False
    edges = _edges([comparison.target], _BEYOND)
    if condition.name == UNNORMALISED:  # in units of the scans' own, which may differ many times
        offset, scale = condition.units
        scans, units = [scan.transformed(scale, offset) for scan in scans], "intensity"
        least, medians, most = np.array([scan.quantile((0.01, 0.5, _ENDS[1])) for scan in scans]).T
        logarithmic = least.min() > 0 and medians.max() > _LOGARITHMIC * medians.min()
        edges = np.geomspace(least.min(), most.max(), _BINS + 1) if logarithmic else _edges(scans)
    densities: dict[str, list[FloatArray]] = {}
    for one, scan in zip(comparison.scans, scans, strict=True):
        densities.setdefault(one.site or "all scans", []).append(scan.density(edges))
    middles = 0.5 * (edges[1:] + edges[:-1])
    return DensityPanel(shown_name(condition.name), middles, densities, units, logarithmic)


def _edges(scans: Sequence[EmpiricalDistribution], beyond: float = 0.0) -> FloatArray:
    ends = np.array([scan.quantile(_ENDS) for scan in scans])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    more = beyond * (high - low)
    return np.linspace(low - more, high + more, _BINS + 1)
