"""The figures of a comparison, after those of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndflow.compare.comparison import UNNORMALISED, Comparison, Condition
from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.pair_figure import pair_figure
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.histogram_and_quantiles import QuantileRow, histogram_and_quantile_figure
from ndflow.figures.tissue_plot import TissueRow, tissue_figure
from ndflow.figures.violins import ViolinPanel, violin_figure
from ndflow.metrics.distribution import EmpiricalDistribution
from ndflow.metrics.histogram_fit import histogram_fit
from ndflow.metrics.predictions import confidence, entropy
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "PANELS", "figure_names", "figures", "panels"]

FIGURES = ("populations", "fitness", "tissues", "predictions", "pair")  # all there may be
PANELS = (*(f"tissues_{name}" for name in TISSUE_ROWS), "entropy", "confidence")  # parts of these

_BINS = 200
_ENDS = (0.0005, 0.9995)
_BEYOND = 0.08  # of the range, on either side
_LOGARITHMIC = 3.0  # medians that differ by this factor need a logarithmic axis
_UNITS = "standard deviations"


def figure_names(comparison: Comparison) -> list[str]:
    """Return the names of the figures that the scans allow."""
    missing = set()
    if all(one.quartiles is None for one in comparison.conditions[1:]):
        missing.add("tissues")
    if not comparison.classified:
        missing.add("predictions")
    return [name for name in FIGURES if name not in missing]


def figures(comparison: Comparison) -> Iterator[tuple[str, Figure]]:
    """Yield the name of each figure that the scans allow, and the figure."""
    yield "populations", _populations(comparison)
    yield "fitness", _fitness(comparison)
    rows = _tissue_rows(comparison)
    if rows:
        yield "tissues", tissue_figure(rows, TISSUE_ROWS)
    if comparison.classified:
        yield "predictions", violin_figure(list(_predictions(comparison).values()))
    yield "pair", pair_figure(comparison)


def panels(comparison: Comparison) -> Iterator[tuple[str, Figure]]:
    """Yield parts of these figures by themselves, which a narrow page shows one below another."""
    rows = _tissue_rows(comparison)
    for number, tissue in enumerate(TISSUE_ROWS if rows else ()):
        own = [replace(row, quartiles=row.quartiles[:, [number]]) for row in rows]
        yield f"tissues_{tissue}", tissue_figure(own, [tissue], legend=False)
    if comparison.classified:
        for name, panel in _predictions(comparison).items():
            yield name, violin_figure([panel])


def _tissue_rows(comparison: Comparison) -> list[TissueRow]:
    sites = [scan.site or "all scans" for scan in comparison.scans]
    return [
        TissueRow(one.name, one.quartiles, sites, f"intensity, in {_UNITS}")
        for one in comparison.conditions
        if one.name != UNNORMALISED and one.quartiles is not None
    ]


def _populations(comparison: Comparison) -> Figure:
    panels = [_panel(comparison, condition) for condition in comparison.conditions]
    return density_figure(panels)


def _panel(comparison: Comparison, condition: Condition) -> DensityPanel:
    scans = condition.distributions
    edges = _edges([comparison.target], 1 + 2 * _BEYOND)
    options: dict[str, Any] = {"units": _UNITS}
    if condition.name == UNNORMALISED:
        offset, scale = condition.units
        scans = [scan.transformed(scale, offset) for scan in scans]
        edges, options = _raw_edges(scans)
    densities: dict[str, list[FloatArray]] = {}
    for one, scan in zip(comparison.scans, scans, strict=True):
        densities.setdefault(one.site or "all scans", []).append(scan.density(edges))
    return DensityPanel(condition.name, _middles(edges), densities, **options)


def _raw_edges(scans: Sequence[EmpiricalDistribution]) -> tuple[FloatArray, dict[str, Any]]:
    """Return bins for scans in units of their own, which may differ many times."""
    medians = [float(scan.quantile(0.5)) for scan in scans]
    least = min(float(scan.quantile(0.01)) for scan in scans)
    if min(medians) > 0 and least > 0 and max(medians) > _LOGARITHMIC * min(medians):
        most = max(float(scan.quantile(_ENDS[1])) for scan in scans)
        return np.geomspace(least, most, _BINS + 1), {"logarithmic": True}
    return _edges(scans, 1.0), {}


def _edges(scans: Sequence[EmpiricalDistribution], reach: float) -> FloatArray:
    ends = np.array([scan.quantile(_ENDS) for scan in scans])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    more = 0.5 * (reach - 1) * (high - low)
    return np.linspace(low - more, high + more, _BINS + 1)


def _middles(edges: FloatArray) -> FloatArray:
    middles: FloatArray = 0.5 * (edges[1:] + edges[:-1])
    return middles


def _fitness(comparison: Comparison) -> Figure:
    """Draw one scan under all conditions: that which the alignment leaves as far off as most."""
    off = [histogram_fit(scan, comparison.target).w1 for scan in comparison.affine.distributions]
    typical = int(np.argsort(off, kind="stable")[len(off) // 2])
    target = comparison.target
    edges = _edges([target], 1 + 2 * _BEYOND)
    rows = []
    for condition in comparison.conditions:
        if condition.name == UNNORMALISED:
            continue
        scan = condition.distributions[typical]
        found = histogram_fit(scan, target)
        rows.append(
            QuantileRow(
                f"{condition.name}: {comparison.scans[typical].name}",
                _middles(edges),
                scan.density(edges),
                target.density(edges),
                scan.quantile(QUANTILE_LEVELS),
                target.quantile(QUANTILE_LEVELS),
                found.rmse,
                found.w1,
            )
        )
    return histogram_and_quantile_figure(rows, columns=1 if len(rows) < 3 else 2, units=_UNITS)


def _predictions(comparison: Comparison) -> dict[str, ViolinPanel]:
    sure = {name: found.predictions.probabilities for name, found in comparison.classified.items()}
    classes = len(next(iter(comparison.classified.values())).predictions.classes)
    return {
        "entropy": ViolinPanel(
            [(name, entropy(each)) for name, each in sure.items()],
            "entropy of a prediction, bits (dashed: guessing)",
            float(np.log2(classes)),
        ),
        "confidence": ViolinPanel(
            [(name, confidence(each)) for name, each in sure.items()],
            "confidence of a prediction (dashed: guessing)",
            1 / classes,
        ),
    }
