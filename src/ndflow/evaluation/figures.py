"""What the figures of a comparison show, after those of the paper; `ndflow.figures` draws them.

One of them is a pair of scans: slices, densities, and the map between. The source is the scan that
the alignment leaves furthest from the average of all scans, the target the scan of another site
that is nearest to it. The map is made with the settings of the first study, from the one scan to
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.evaluation.classification import entropy
from ndflow.evaluation.comparison import UNNORMALISED, Comparison, Condition, read_voxels
from ndflow.evaluation.distribution import (
    EmpiricalDistribution,
    empirical_distribution,
    histogram_fit,
)
from ndflow.evaluation.tissues import TISSUE_ROWS
from ndflow.figures.curves import (
    DensityCurves,
    FitCell,
    FitCurves,
    MapCurves,
    PairSide,
    fit_figure,
    pair_panels,
)
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.style import png, svg
from ndflow.figures.tissues import ViolinPanel, tissue_figure, violin_figure
from ndflow.image.preview import fullest, slice_at, upright
from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options
from ndflow.study.finished import SharedScan
from ndflow.study.integrity import read_results, refuse_other_inputs
from ndflow.transport import IntensityMap, align
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# ── all figures ───────────────────────────────────────────────────────────────────────────────────

FIGURES = ("populations", "fitness", "tissues", "predictions", "pair")  # all there may be
PANELS = (*(f"tissues_{name}" for name in TISSUE_ROWS), "entropy", "confidence")  # parts of these

_EXPORTS = {"svg": svg, "png": png}
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
    formats : of its files.
    """

    name: str
    draw: Callable[[], Figure]
    formats: tuple[str, ...] = ("svg", "png")

    def files(self) -> dict[str, bytes]:
        """Draw it, and return the content of its files by their names."""
        figure = self.draw()
        return {f"{self.name}.{kind}": _EXPORTS[kind](figure) for kind in self.formats}


def drawings(comparison: Comparison) -> list[Drawing]:
    """Return all figures that the scans allow, and parts of some by themselves.

    A narrow page shows these parts one below another.
    """
    panels = [_panel(comparison, condition) for condition in comparison.conditions]
    found = [
        Drawing("populations", partial(density_figure, panels)),
        Drawing("fitness", _fitness(comparison)),
        Drawing("pair", partial(pair_panels, *pair_of_scans(comparison))),
    ]
    rows = {
        one.name: one.tissues[:, :, :3]
        for one in comparison.conditions[1:]
        if one.tissues is not None
    }
    if rows:
        draw = partial(
            tissue_figure,
            sites=[scan.site or "all scans" for scan in comparison.scans],
            units=f"intensity, in {_UNITS}",
        )
        found.append(Drawing("tissues", partial(draw, rows, tissue_names=TISSUE_ROWS)))
        for number, tissue in enumerate(TISSUE_ROWS):
            own = {name: quartiles[:, [number]] for name, quartiles in rows.items()}
            alone = partial(draw, own, tissue_names=[tissue], legend=False)
            found.append(Drawing(f"tissues_{tissue}", alone, ("svg",)))
    if comparison.classified:
        sure = _predictions(comparison)
        found.append(Drawing("predictions", partial(violin_figure, list(sure.values()))))
        for name, panel in sure.items():
            found.append(Drawing(name, partial(violin_figure, [panel]), ("svg",)))
    return found


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


def _fitness(comparison: Comparison) -> Callable[[], Figure]:
    """Show one scan under all conditions: that which the alignment leaves as far off as most."""
    off = [histogram_fit(scan, comparison.target).w1 for scan in comparison.affine.distributions]
    typical = int(np.argsort(off, kind="stable")[len(off) // 2])
    target = comparison.target
    edges = _edges([target], 1 + 2 * _BEYOND)
    cells = []
    for condition in comparison.conditions:
        if condition.name == UNNORMALISED:
            continue
        scan = condition.distributions[typical]
        found = histogram_fit(scan, target)
        cells.append(
            FitCell(
                f"{condition.name}: {comparison.scans[typical].name}",
                FitCurves(
                    _middles(edges),
                    scan.density(edges),
                    target.density(edges),
                    scan.quantile(QUANTILE_LEVELS),
                    target.quantile(QUANTILE_LEVELS),
                ),
                found.rmse,
                found.w1,
            )
        )
    return partial(fit_figure, cells, units=_UNITS)


def _predictions(comparison: Comparison) -> dict[str, ViolinPanel]:
    found = {name: one.probabilities for name, one in comparison.classified.items()}
    classes = len(set(comparison.sites or ()))
    return {
        "entropy": ViolinPanel(
            [(name, entropy(each)) for name, each in found.items()],
            "entropy of a prediction, bits (dashed: guessing)",
            float(np.log2(classes)),
        ),
        "confidence": ViolinPanel(
            [(name, each.max(axis=1)) for name, each in found.items()],
            "confidence of a prediction (dashed: guessing)",
            1 / classes,
        ),
    }


# ── the pair ──────────────────────────────────────────────────────────────────────────────────────

_POINTS = 240


class _Side(NamedTuple):
    """A scan: a slice of it, NaN outside the mask; its voxels; and what is known about them."""

    name: str
    slice_: FloatArray
    voxels: FloatArray
    model: DensityModel


def pair_of_scans(comparison: Comparison) -> tuple[PairSide, PairSide, PairSide, MapCurves]:
    """Return a scan, the scan it is matched to, the result, and the map, as they are drawn."""
    off = [histogram_fit(scan, comparison.target).w1 for scan in comparison.affine.distributions]
    scans = comparison.scans
    far = int(np.argmax(off))
    site = scans[far].site
    others = [i for i, scan in enumerate(scans) if i != far and scan.site != site]
    near = min(others or [i for i in range(len(scans)) if i != far], key=lambda i: off[i])
    source, target = (_read(comparison.shared[i], comparison.max_bytes) for i in (far, near))
    options = comparison.runs[0].study.options
    chosen = Options(
        method=options.method,
        objective=options.objective,
        regularisation=options.regularisation,
        solver=options.solver,
        landmarks=options.landmarks,
    )
    imap = method_of(chosen).solve(source.model, target.model, chosen).imap
    x = _grid(source.model.mixture)
    y, log_slope = imap.with_log_det_jacobian(x)
    straight = align(source.model.mixture, target.model.mixture)(x)
    return (
        _side(source, None),
        _side(target, None),
        _side(source._replace(name=f"matched to {target.name}"), imap),
        MapCurves(x, y, np.exp(log_slope), straight),
    )


def _side(scan: _Side, imap: IntensityMap | None) -> PairSide:
    """Return a scan as it is, or through a map: densities go along by the change of variables."""
    mixture = scan.model.mixture
    x = _grid(mixture)
    components = mixture.component_densities(x)
    voxels, slice_ = scan.voxels, scan.slice_
    if imap is not None:
        inside = np.isfinite(slice_)
        slice_ = slice_.copy()
        slice_[inside] = imap(slice_[inside])
        x, log_slope = imap.with_log_det_jacobian(x)
        components = components / np.exp(log_slope)
        levels, counts = np.unique(voxels, return_counts=True)
        found = empirical_distribution(imap(levels), counts)
    else:
        found = empirical_distribution(voxels)
    histogram = found.density(midpoint_edges(x))
    density = DensityCurves(x, histogram, components.sum(axis=0), components)
    return PairSide(scan.name, slice_, density)


def _grid(mixture: GaussianMixture) -> FloatArray:
    low, high = mixture.quantile(_ENDS).tolist()
    return np.linspace(low, high, _POINTS)


def _read(shared: SharedScan, max_bytes: int) -> _Side:
    scan, paths = shared.scan, shared.paths[0]
    model, record = read_results(paths)
    lesion = scan.lesion if record.setting("exclude") else None  # as its density was estimated
    masked, values, counts = read_voxels(scan, record, lesion=lesion, max_bytes=max_bytes)
    refuse_other_inputs(paths, record, masked.files)
    picture, spacing = upright(masked.volume, masked.inside)
    slice_ = slice_at(picture, spacing, 2, fullest(picture, 2))
    filled = np.isfinite(slice_)
    rows, columns = (np.flatnonzero(filled.any(axis=axis)) for axis in (1, 0))
    cut = slice_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return _Side(scan.name, cut, np.asarray(values[counts], np.float64), model.model)
