"""A raw scan as it is read: its image, and what else the user has of it already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import Hashes
from ndflow.image.mask import BoolArray, Nonzero, misalignment_warnings, read_mask
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume
from ndflow.preparation.brain import T1W, brain_mask, refuse_other_contrasts
from ndflow.preparation.grid import Map
from ndflow.preparation.volume import PreparedVolume, tissue_volumes
from ndflow.study.plan import Preparation
from ndflow.study.prepared_study import contrast_of
from ndflow.values import plural

TISSUE_COLUMNS = ("csf", "gm", "wm")

_ROUNDING = 1e-5
_NEARLY = 0.05  # a sum that is as good as 1, as after interpolation


class Choices(NamedTuple):
    """What is to be done with a scan.

    Attributes
    ----------
    mask : "given", "brain" or "nonzero".
    bias_field : whether it is corrected.
    tissues : "given", "found" or "none".
    resolution : of an aligned copy, in mm; None if there is to be none.
    """

    mask: str
    bias_field: bool
    tissues: str
    resolution: float | None = None

    @property
    def steps(self) -> dict[str, str]:
        """What is to be done with the scan on its own grid, for the record."""
        corrected = "corrected" if self.bias_field else "left"
        return {"mask": self.mask, "bias field": corrected, "tissues": self.tissues}

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that make the results, and that these depend on."""
        found = self.tissues == "found"
        used = {
            "antspyx": self.bias_field or found,
            "deepbet": self.mask == "brain",
            "nilearn": found,
        }
        return tuple(name for name in used if used[name])


def choices_for(plan: Preparation, scan: Subject) -> Choices:
    """Return what is to be done with a scan."""
    kept, found = plan.keeps_tissues(scan), plan.finds_tissues(scan)
    return Choices(
        plan.preparing.mask if scan.mask is None else "given",
        not plan.preparing.no_bias_field,
        "given" if kept else "found" if found else "none",
        plan.preparing.resolution,
    )


class RawScan(NamedTuple):
    """A scan that was read.

    Attributes
    ----------
    volume : the image.
    mask : of the brain, if it was given.
    lesion : the voxels that the preparation does not see.
    maps : the tissue probability maps that are kept: three or none.
    warnings : for the user.
    files : that were read, with their hashes.
    """

    volume: Volume
    mask: BoolArray | None
    lesion: BoolArray | None
    maps: tuple[Volume, ...]
    warnings: tuple[str, ...]
    files: Hashes


def read_raw(scan: Subject, choices: Choices, max_bytes: int) -> RawScan:
    """Read a scan, its masks and maps, and check that they belong together."""
    volume = read_volume(scan.image, max_bytes=max_bytes)
    _refuse_unplaced(volume)
    files: Hashes = {"image": volume.files}
    warnings: list[str] = []
    masks: dict[str, BoolArray] = {}
    sources = {"mask": scan.mask if choices.mask == "given" else None, "lesion": scan.lesion}
    for what, source in sources.items():
        if source is not None:
            fewest = {"fewest": 0} if what == "lesion" else {}
            mask = read_mask(source, max_bytes=max_bytes, **fewest)
            warnings += mask.on(volume)
            files[what] = mask.files
            masks[what] = mask.inside
    maps: list[Volume] = []
    if choices.tissues == "given":
        for tissue, source in zip(TISSUE_COLUMNS, scan.tissues, strict=True):
            if source is not None:
                maps.append(_map(source, volume, max_bytes))
                warnings += misalignment_warnings(maps[-1], volume)
                files[tissue] = maps[-1].files
    if missing := int(np.count_nonzero(~np.isfinite(volume.stored))):
        are = ("is", "was") if missing == 1 else ("are", "were")
        cause = f"{plural(missing, 'voxel')} {are[0]} NaN or infinite, and {are[1]} set to 0"
        warnings.append(f"{volume.path}: {cause}")
    return RawScan(
        volume, masks.get("mask"), masks.get("lesion"), tuple(maps), tuple(warnings), files
    )


def _refuse_unplaced(volume: Volume) -> None:
    """Refuse a single slice, and a scan whose header does not say where its voxels are."""
    if len(volume.spatial_shape) < 3 or min(volume.spatial_shape) < 2:
        raise FileError(volume.path, "a single slice cannot be prepared", "give a whole volume")
    axes = volume.affine[:3, :3]
    if not np.isfinite(volume.affine).all() or np.linalg.matrix_rank(axes) < 3:
        cause = "its header does not say where its voxels are: the affine has no inverse"
        raise FileError(volume.path, cause, "correct its sform or qform, or convert it again")


def _map(source: Any, volume: Volume, max_bytes: int) -> Volume:
    read = read_volume(source, max_bytes=max_bytes, called="the tissue probability map")
    if read.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {read.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(read.path, cause, "give a map on the grid of the scan")
    return read


def with_given_maps(
    found: PreparedVolume, given: RawScan
) -> tuple[PreparedVolume, tuple[str, ...]]:
    """Return a prepared scan with the tissues that it came with, and warnings about them.

    Programs write probabilities as numbers up to 1, 100 or 255. Whatever it is, the three tissues
    of a voxel inside the brain have it as their sum.
    """
    tissues: Map = np.stack([np.asarray(one.spatial_values, np.float32) for one in given.maps])
    tissues = np.nan_to_num(tissues, posinf=0, neginf=0)
    seen = found.brain if given.lesion is None else found.brain & ~given.lesion
    sums = tissues[:, seen].sum(axis=0)
    warnings: tuple[str, ...] = ()
    if tissues.max() > 1 + _ROUNDING and (sums > 0).any():
        whole = float(np.median(sums[sums > 0]))
        tissues /= np.float32(whole)
        if abs(whole - 1) > _NEARLY:
            told = (
                f"{given.maps[0].path}: the tissue probability maps add up to {whole:.4g} in the "
            )
            warnings = (f"{told}brain, not to 1; for volumes and picture, they were divided by it",)
    measures = replace(found.measures, tissues_ml=tissue_volumes(tissues, seen, given.volume))
    return found._replace(tissues=tissues, measures=measures), warnings


def brain_of(given: RawScan, choices: Choices) -> BoolArray:
    """Return which voxels are inside the brain, in three dimensions."""
    if given.mask is not None:
        return given.mask
    if choices.mask == "brain":
        return brain_mask(given.volume)
    return Nonzero(given.volume)[:].reshape(given.volume.spatial_shape, order="F")


# ── what has to be installed ──────────────────────────────────────────────────────────────────────
# What must be there before scans can be prepared.
#
# The packages that are needed; masks of scans that are not T1w; tissue maps of all tissues or none.

_MODULES = {"antspyx": "ants"}  # where they are not called like their packages


def check_requirements(plan: Preparation) -> None:
    """Raise an error, before any work, where a package or something of a scan is missing."""
    choices = {scan.name: choices_for(plan, scan) for scan in plan.scans}
    for scan in plan.scans:
        if plan.preparing.tissues != "find":
            _refuse_some_tissues(scan)
        if choices[scan.name].mask == "brain":
            refuse_other_contrasts(scan.path)
            if (contrast := contrast_of(scan, plan.channel)) != T1W:
                cause = f"not a T1w image, but {contrast}; brains are found in T1w images only"
                raise FileError(scan.path, cause, "give its mask, in the column mask of the table")
    needed = {name for one in choices.values() for name in one.packages}
    needed |= {"torch"} if "deepbet" in needed else set()
    missing = [name for name in sorted(needed) if find_spec(_MODULES.get(name, name)) is None]
    if missing:
        raise InvalidValueError(
            f"preparing these scans needs {_listed(missing)}, not installed here; "
            "try pip install 'ndflow[prepare]'"
        )


def _refuse_some_tissues(scan: Subject) -> None:
    """Refuse a scan with maps of one or two tissues, which would be lost."""
    given = [tissue for tissue, source in scan.tissues._asdict().items() if source is not None]
    if given and not scan.tissues.complete:
        cause = f"{scan.origin}: has a tissue map of {_listed(given)} only"
        raise FileError(scan.path, cause, "give csf, gm and wm, or none of them")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
