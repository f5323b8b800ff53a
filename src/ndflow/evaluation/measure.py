"""One scan under every condition that is compared: unnormalised, aligned, and in each study.

What is kept of it is small: distributions, quartiles and moments of tissues, the slopes of its
maps, and a lattice of its voxels for the classification of sites. Voxels of its lesion mask are
left out of all of them, under every condition, as they were of its density.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.evaluation.distribution import (
    EmpiricalDistribution,
    average_distribution,
    empirical_distribution,
)
from ndflow.evaluation.tissues import quartiles, weighted_moments
from ndflow.image.mask import BoolArray
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume
from ndflow.study.finished import SharedScan, mask_used
from ndflow.study.integrity import read_results, refuse_other_image, refuse_other_inputs
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import MapRecord
from ndflow.subject.tissue_maps import probabilities
from ndflow.subject.voxels import read_lesion, read_masked
from ndflow.transport import DETERMINED_RANGE, IntensityMap, align
from ndflow.values import FloatArray

TISSUE_ROWS = ("WM", "GM", "CSF")  # the order of the paper's Table 1, and of our tables

_LATTICE = 40_000  # voxels of the whole grid that are kept
_CORNERS = 2001  # of a distribution
_SLOPES = 1001  # of a map
_GRID = 1e-3  # millimetres: grids that differ by less are the same


class _Levels(NamedTuple):
    """Which voxels have the same intensity, from the lowest to the highest.

    Attributes
    ----------
    one : (levels,), a voxel of each level.
    of : (n,), the level of each voxel.
    counts : (levels,), how many voxels there are of each.
    weights : (levels,) for each tissue, the sum of its probabilities in these voxels.
    """

    one: NDArray[np.intp]
    of: NDArray[np.intp]
    counts: NDArray[np.intp]
    weights: list[FloatArray]


class ConditionMeasures(NamedTuple):
    """A scan under one condition.

    Attributes
    ----------
    distribution : of the intensities inside the mask, without lesions.
    quartiles : (3, 3), of the tissues in the order of `TISSUE_ROWS`; None without tissue
        probability maps.
    moments : (3, 2), mean and standard deviation of the same tissues; None without these.
    slopes : of the map that made it, evenly spaced over the range where it is determined, in units
        of the scan's own standard deviation; None where there is no map.
    """

    distribution: EmpiricalDistribution
    quartiles: FloatArray | None
    moments: FloatArray | None
    slopes: FloatArray | None


class ScanMeasures(NamedTuple):
    """A scan under all conditions.

    Attributes
    ----------
    raw, affine : unnormalised, and with zero mean and unit standard deviation.
    alignment : the map from the one to the other.
    runs : in each of the studies.
    grid : the shape and the affine of the image; scans with equal grids are in a common space.
    lattice : some voxels of the unnormalised image, at the same places for every scan of a grid;
        NaN outside the mask and in lesions.
    painted : the same voxels with every tissue in one intensity, the same for all scans; None
        without tissue probability maps.
    warnings : for the user.
    """

    raw: ConditionMeasures
    affine: ConditionMeasures
    alignment: IntensityMap
    runs: list[ConditionMeasures]
    grid: tuple[tuple[int, ...], tuple[float, ...]]
    lattice: NDArray[np.float32]
    painted: NDArray[np.float32] | None
    warnings: tuple[str, ...] = ()


def measure_scan(shared: SharedScan, *, max_bytes: int) -> ScanMeasures:
    """Measure a scan under every condition."""
    scan = shared.scan
    results = [read_results(paths) for paths in shared.paths]
    records = [one.record for one in results]
    mask = mask_used(scan, records[0])
    volume, inside_mask, warnings, files, _ = read_masked(scan.image, mask, max_bytes=max_bytes)
    raw = volume.values(volume.flat)
    inside = inside_mask[:] & np.isfinite(raw)
    if scan.lesion is not None:
        lesion = read_lesion(scan.lesion, volume, max_bytes=max_bytes)
        inside &= ~lesion.inside
        warnings, files = [*warnings, *lesion.warnings], files | lesion.files
    tissues, more = _tissues(scan, volume, inside, max_bytes)
    mixture = results[0].model.mixture
    alignment = align(mixture)
    low, high = mixture.quantile(DETERMINED_RANGE).tolist()
    grid = np.linspace(low, high, _SLOPES)
    own_sd = 1 / float(alignment.matrix[0, 0])

    def slopes(imap: IntensityMap) -> FloatArray:
        return own_sd * np.exp(imap.log_det_jacobian(grid))

    voxels = raw[inside]
    levels = _levels(voxels, tissues)
    runs = []
    for paths, record in zip(shared.paths, records, strict=True):
        refuse_other_inputs(paths, record, files)
        after = _result_voxels(paths, record, volume, max_bytes)[inside]
        runs.append(_measured(after, levels, tissues, slopes(record.map), paths))
    first = shared.paths[0]
    return ScanMeasures(
        raw=_measured(voxels, levels, tissues, None, first),
        affine=_measured(alignment(voxels), levels, tissues, slopes(alignment), first),
        alignment=alignment,
        runs=runs,
        grid=_grid(volume),
        lattice=_lattice(np.where(inside, raw, np.nan).reshape(volume.spatial_shape, order="F")),
        painted=None if tissues is None else _painted(tissues, inside, volume.spatial_shape),
        warnings=(*warnings, *more),
    )


def _levels(voxels: FloatArray, tissues: Sequence[FloatArray] | None) -> _Levels:
    _, one, of = np.unique(voxels, return_index=True, return_inverse=True)
    weights = (np.bincount(of, share, minlength=one.size) for share in tissues or ())
    return _Levels(one, of, np.bincount(of), [np.asarray(each, np.float64) for each in weights])


def _still(levels: _Levels, voxels: FloatArray) -> bool:
    """Return whether mapped voxels have the levels that they had before, in the same order."""
    values = voxels[levels.one]
    return bool((np.diff(values) > 0).all()) and np.array_equal(values[levels.of], voxels)


def _measured(
    voxels: FloatArray,
    before: _Levels,
    tissues: Sequence[FloatArray] | None,
    slopes: FloatArray | None,
    paths: ResultPaths,
) -> ConditionMeasures:
    if not np.isfinite(voxels).all():
        cause = "holds NaN or infinity inside the mask, where the scan does not"
        raise FileError(paths.image, cause, "run the study again")
    # An increasing map keeps the levels, so they need not be sorted again; rounding merges some.
    levels = before if _still(before, voxels) else _levels(voxels, tissues)
    values = voxels[levels.one]
    distribution = empirical_distribution(values, levels.counts)
    if distribution.edges.size > _CORNERS:
        distribution = average_distribution([distribution], points=_CORNERS)
    if tissues is None:
        return ConditionMeasures(distribution, None, None, slopes)
    return ConditionMeasures(
        distribution,
        np.array([quartiles(values, weight) for weight in levels.weights]),
        np.array([weighted_moments(values, weight) for weight in levels.weights]),
        slopes,
    )


def _result_voxels(
    paths: ResultPaths, record: MapRecord, volume: Volume, max_bytes: int
) -> FloatArray:
    """Return the voxels of a result, which must have the grid of its scan."""
    result = read_volume(paths.image, max_bytes=max_bytes)
    refuse_other_image(record, result)
    if result.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {result.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(paths.image, cause, "run the study again")
    return result.values(result.flat)


def _tissues(
    scan: Subject, volume: Volume, inside: BoolArray, max_bytes: int
) -> tuple[list[FloatArray] | None, list[str]]:
    """Return the probability of each tissue in the voxels that count, and warnings."""
    if not scan.tissues.complete:
        return None, []
    warnings: list[str] = []
    found = []
    for tissue in TISSUE_ROWS:
        source = getattr(scan.tissues, tissue.lower())
        read = probabilities(source, volume, inside, max_bytes)
        warnings += read.warnings
        found.append(read.share)
    return found, warnings


def _painted(
    tissues: Sequence[FloatArray], inside: BoolArray, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Return a lattice of the scan that its tissue maps alone would give: CSF 0, GM 1, WM 2."""
    wm, gm, csf = tissues
    whole = wm + gm + csf
    picture = np.full(inside.shape, np.nan)
    picture[inside] = np.divide(gm + 2 * wm, whole, out=np.zeros_like(whole), where=whole > 0)
    return _lattice(picture.reshape(shape, order="F"))


def _grid(volume: Volume) -> tuple[tuple[int, ...], tuple[float, ...]]:
    places = np.rint(np.asarray(volume.affine) / _GRID) * _GRID
    return volume.spatial_shape, tuple(places.ravel().tolist())


def _lattice(picture: FloatArray) -> NDArray[np.float32]:
    """Return every n-th voxel along each axis, flattened, with n large enough to keep few."""
    step = 1
    while np.prod([-(-length // step) for length in picture.shape]) > _LATTICE:
        step += 1
    kept = picture[tuple(slice((step - 1) // 2, None, step) for _ in picture.shape)]
    return kept.astype(np.float32).ravel(order="F")
