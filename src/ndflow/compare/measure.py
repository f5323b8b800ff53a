"""One scan, looked at under every condition that is compared: as it came, aligned, and in each run.

What is kept of it is small: distributions, quartiles of tissues, the slopes of its maps, and a
lattice of its voxels for the classification of sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.fingerprints import content_hashes
from ndflow.files.json_model import read_model
from ndflow.image.mask import BoolArray
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume
from ndflow.metrics.distribution import (
    EmpiricalDistribution,
    average_distribution,
    empirical_distribution,
)
from ndflow.metrics.tissue_quartiles import quartiles
from ndflow.scan.model_files import load_map
from ndflow.scan.reading import AUTO, input_files, read_masked
from ndflow.scan.results import hashes
from ndflow.scan.tissue_maps import probabilities
from ndflow.study.finished import Subject
from ndflow.study.scan_jobs import Member, portrait_of_member
from ndflow.transport import DETERMINED_RANGE, IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["TISSUES", "ConditionMeasures", "ScanMeasures", "mask_of", "measure_scan"]

TISSUES = ("WM", "GM", "CSF")

_LATTICE = 40_000  # voxels of the whole grid that are kept
_CORNERS = 2001  # of a distribution
_SLOPES = 1001  # of a map
_GRID = 1e-3  # two grids are the same, in millimetres


class ConditionMeasures(NamedTuple):
    """A scan under one condition.

    Attributes
    ----------
    distribution : of the intensities inside the mask.
    quartiles : (3, 3), of the tissues in the order of `TISSUES`; None without maps of them.
    slopes : of the map that made it, evenly spaced over the range where it is determined, in units
        of the scan's own standard deviation; None where there is no map.
    """

    distribution: EmpiricalDistribution
    quartiles: FloatArray | None
    slopes: FloatArray | None


class ScanMeasures(NamedTuple):
    """A scan under all conditions.

    Attributes
    ----------
    raw, affine : as it came, and with zero mean and unit spread.
    runs : in each of the runs.
    grid : the shape and the affine of the image; scans with equal grids are in a common space.
    lattice : voxels of the image as it came, at the same places of the grid for every scan of a
        grid; NaN outside the mask.
    warnings : for the user.
    """

    raw: ConditionMeasures
    affine: ConditionMeasures
    runs: list[ConditionMeasures]
    grid: tuple[tuple[int, ...], tuple[float, ...]]
    lattice: NDArray[np.float32]
    warnings: tuple[str, ...] = ()


def measure_scan(subject: Subject, *, max_bytes: int) -> ScanMeasures:
    """Look at a scan under every condition."""
    first = subject.members[0]
    _refuse_changed(subject)
    volume, mask, warnings = read_masked(first.image, mask_of(first), max_bytes=max_bytes)
    raw = volume.values(volume.flat)
    inside = mask[:] & np.isfinite(raw)
    tissues = _tissues(subject, volume, inside, max_bytes, warnings)
    portrait = portrait_of_member(first)
    alignment = align(portrait.mixture)
    low, high = portrait.mixture.quantile(DETERMINED_RANGE).tolist()
    grid = np.linspace(low, high, _SLOPES)
    own = 1 / float(alignment.matrix[0, 0])

    def slopes(imap: IntensityMap) -> FloatArray:
        return own * np.exp(imap.log_det_jacobian(grid))

    voxels = raw[inside]
    runs = []
    for member in subject.members:
        after = _same_grid(member, volume, max_bytes)[inside]
        runs.append(_seen(after, tissues, slopes(load_map(member.place.record)), member))
    return ScanMeasures(
        raw=_seen(voxels, tissues, None, first),
        affine=_seen(alignment(voxels), tissues, slopes(alignment), first),
        runs=runs,
        grid=_grid(volume),
        lattice=_lattice(np.where(inside, raw, np.nan).reshape(volume.spatial_shape, order="F")),
        warnings=tuple(warnings),
    )


def _seen(
    voxels: FloatArray, tissues: Sequence[FloatArray] | None, slopes: FloatArray | None, of: Member
) -> ConditionMeasures:
    if not np.isfinite(voxels).all():
        cause = "holds NaN or infinity inside the mask, where the scan does not"
        raise FileError(of.place.image, cause, "run the study again")
    levels, which = np.unique(voxels, return_inverse=True)
    distribution = empirical_distribution(levels, np.bincount(which))
    if distribution.edges.size > _CORNERS:
        distribution = average_distribution([distribution], points=_CORNERS)
    found = None
    if tissues is not None:
        weights = (np.bincount(which, share, minlength=levels.size) for share in tissues)
        found = np.array([quartiles(levels, weight) for weight in weights])
    return ConditionMeasures(distribution, found, slopes)


def mask_of(member: Member) -> str | None:
    """Return the mask that a run used; whether it looked for one itself stands in the record."""
    settings = read_model(member.place.record, "map")[1].get("settings", {})
    return AUTO if settings.get("mask") == AUTO else member.mask


def _refuse_changed(subject: Subject) -> None:
    """Refuse a scan or a mask that is no longer what a run has seen."""
    first = subject.members[0]
    now = hashes(input_files(image=first.image, mask=first.mask))
    for member in subject.members:
        seen = read_model(member.place.record, "map")[1].get("inputs")
        if seen is None or content_hashes(seen) != content_hashes(now):
            cause = f"it, or its mask, is not what {member.place.record} was made from"
            raise FileError(first.image, cause, "run the study again; compare runs of one table")


def _same_grid(member: Member, volume: Volume, max_bytes: int) -> FloatArray:
    result = read_volume(member.place.image, max_bytes=max_bytes)
    if result.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {result.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(member.place.image, cause, "run the study again")
    return result.values(result.flat)


def _tissues(
    subject: Subject, volume: Volume, inside: BoolArray, max_bytes: int, warnings: list[str]
) -> list[FloatArray] | None:
    """Return the probability of each tissue in the voxels inside the mask; add to `warnings`."""
    row = subject.row
    names = {"WM": row.wm, "GM": row.gm, "CSF": row.csf}
    if None in names.values():
        return None
    maps = []
    for tissue in TISSUES:
        share, doubts = probabilities(str(names[tissue]), volume, inside, max_bytes)
        warnings += doubts
        maps.append(share)
    return maps


def _grid(volume: Volume) -> tuple[tuple[int, ...], tuple[float, ...]]:
    places = np.rint(np.asarray(volume.affine) / _GRID) * _GRID
    return volume.spatial_shape, tuple(places.ravel().tolist())


def _lattice(picture: FloatArray) -> NDArray[np.float32]:
    """Return every so manieth voxel along each axis, one after the other."""
    step = 1
    while np.prod([-(-length // step) for length in picture.shape]) > _LATTICE:
        step += 1
    kept = picture[tuple(slice((step - 1) // 2, None, step) for _ in picture.shape)]
    return kept.astype(np.float32).ravel(order="F")
