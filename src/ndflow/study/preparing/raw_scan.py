"""A raw scan as it is read: its image, and what else the user has of it already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ndflow.errors import FileError
from ndflow.files.fingerprints import Hashes
from ndflow.image.mask import BoolArray, Nonzero, misalignment_warnings, read_mask
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.image.volume import Volume
from ndflow.preparation.brain_mask import brain_mask
from ndflow.preparation.prepare_volume import PreparedVolume, tissue_volumes
from ndflow.preparation.working_grid import Map
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.values import plural

__all__ = [
    "TISSUE_COLUMNS",
    "Choices",
    "RawScan",
    "brain_of",
    "choices_for",
    "read_raw",
    "with_given_maps",
]

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


def choices_for(plan: Preparation, scan: Scan) -> Choices:
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


def read_raw(scan: Scan, choices: Choices, max_bytes: int) -> RawScan:
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
