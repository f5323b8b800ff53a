"""Two scans of a comparison as the paper shows a pair: slices, densities, and the map between.

The source is the scan that the alignment leaves furthest from the average of all scans, the target
the scan of another site that is nearest to it. The map is made with the settings of the first
study, from the one scan to the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ndflow.compare.comparison import Comparison
from ndflow.density import GaussianMixture
from ndflow.density.binning import midpoint_edges
from ndflow.figures.pair import MapCurve, PairSide
from ndflow.image.preview import fullest, slice_at, upright
from ndflow.methods.base import method_of
from ndflow.methods.matching import Matching
from ndflow.methods.model import DensityModel
from ndflow.metrics.distribution import empirical_distribution
from ndflow.metrics.histogram_fit import histogram_fit
from ndflow.scan.reading import read_lesion, read_masked
from ndflow.study.finished import SharedScan, mask_used
from ndflow.study.integrity import read_results, refuse_other_inputs
from ndflow.transport import IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["pair_of_scans"]

_ENDS = (0.0005, 0.9995)
_POINTS = 240


class _Side(NamedTuple):
    """A scan: a slice of it, NaN outside the mask; its voxels; and what is known about them."""

    name: str
    slice_: FloatArray
    voxels: FloatArray
    model: DensityModel


def pair_of_scans(comparison: Comparison) -> tuple[PairSide, PairSide, PairSide, MapCurve]:
    """Return a scan, the scan it is matched to, the result, and the map, as they are drawn."""
    off = [histogram_fit(scan, comparison.target).w1 for scan in comparison.affine.distributions]
    scans = comparison.scans
    far = int(np.argmax(off))
    site = scans[far].site
    others = [i for i, scan in enumerate(scans) if i != far and scan.site != site]
    near = min(others or [i for i in range(len(scans)) if i != far], key=lambda i: off[i])
    source, target = (_read(comparison.shared[i], comparison.max_bytes) for i in (far, near))
    matching = comparison.runs[0].study.matching
    chosen = Matching(
        method=matching.method,
        objective=matching.objective,
        regularisation=matching.regularisation,
        solver=matching.solver,
        landmarks=matching.landmarks,
    )
    imap = method_of(chosen).solve(source.model, target.model, chosen).imap
    x = _grid(source.model.mixture)
    y, log_slope = imap.with_log_det_jacobian(x)
    straight = align(source.model.mixture, target.model.mixture)(x)
    return (
        _side(source, None),
        _side(target, None),
        _side(source._replace(name=f"matched to {target.name}"), imap),
        MapCurve(x, y, np.exp(log_slope), straight),
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
    return PairSide(scan.name, slice_, x, histogram, components.sum(axis=0), components)


def _grid(mixture: GaussianMixture) -> FloatArray:
    low, high = mixture.quantile(_ENDS).tolist()
    return np.linspace(low, high, _POINTS)


def _read(shared: SharedScan, max_bytes: int) -> _Side:
    scan, paths = shared.scan, shared.paths[0]
    model, record = read_results(paths)
    mask = mask_used(scan, record)
    volume, inside, _, files, _ = read_masked(scan.image, mask, max_bytes=max_bytes)
    values = volume.values(volume.flat)
    seen = inside[:] & np.isfinite(values)
    if scan.lesion is not None and record.setting("exclude"):
        lesion = read_lesion(scan.lesion, volume, max_bytes=max_bytes)
        seen &= ~lesion.inside  # as its density was estimated
        files = files | lesion.files
    refuse_other_inputs(paths, record, files)
    picture, spacing = upright(volume, inside)
    slice_ = slice_at(picture, spacing, 2, fullest(picture, 2))
    filled = np.isfinite(slice_)
    rows, columns = (np.flatnonzero(filled.any(axis=axis)) for axis in (1, 0))
    cut = slice_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return _Side(scan.name, cut, np.asarray(values[seen], np.float64), model.model)
