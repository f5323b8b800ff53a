"""The voxels of a subject: its images, which voxels count, and their histograms.

The channels of a subject share one grid and one mask. A voxel counts if it is inside the mask,
not excluded, and finite in all channels. Without a mask, all voxels are inside that are not 0 in
some channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import Histogram, tally, trimmed
from ndflow.density.condense import joint_histogram
from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash, Hashes
from ndflow.image.mask import (
    ALIGNED,
    BRAIN,
    MIN_VOXELS,
    TOLERATED,
    BoolArray,
    Inside,
    Nonzero,
    foreground,
    misalignment_warnings,
    read_mask,
    to_be_found,
    voxels_apart,
)
from ndflow.image.read import Source, read_grid, read_volume
from ndflow.image.subject import Subject
from ndflow.image.volume import PIECE, Volume
from ndflow.preparation.brain import (
    brain_mask,
    check_deepbet,
    deepbet_version,
    refuse_other_contrasts,
)
from ndflow.values import FloatArray, Record, plural

_PIECE = 1 << 16  # voxels counted at a time; a histogram of the whole would double the memory
_FEW_LEVELS = 16
_BACKGROUND = 0.5  # of the voxels, with one and the same value
_MASK = "give a mask of the brain with --mask FILE, or try --mask brain or --mask auto"


@dataclass(frozen=True)
class VoxelCounts(Record):
    """How many voxels a fit used, and how many it did not.

    Attributes
    ----------
    fitted : from which the density was estimated.
    excluded : by the user, such as those of a lesion.
    outliers : so far out that the density ignores them.
    not_finite : NaN or infinite, in the whole image.
    excluded_ml : the volume of the excluded ones in millilitres; None if none were, or if voxels
        have no size.
    """

    fitted: int
    excluded: int
    outliers: int
    not_finite: int
    excluded_ml: float | None = None


class Voxels(NamedTuple):
    """The images of a subject, and which of their voxels are inside.

    Attributes
    ----------
    volumes : one per channel.
    inside : which voxels are inside the mask, flattened like `Volume.flat`.
    warnings : for the user.
    files : that were read, with their hashes.
    lesion : which voxels were excluded by the user, if any were.
    found_brain : whether the mask is that of a brain that deepbet found, now or before.
    """

    volumes: tuple[Volume, ...]
    inside: Inside
    warnings: tuple[str, ...]
    files: Hashes
    lesion: BoolArray | None = None
    found_brain: bool = False

    @property
    def volume(self) -> Volume:
        """The image of the first channel."""
        return self.volumes[0]

    def counting(self) -> BoolArray:
        """Return which voxels are inside and finite in all channels."""
        return self.inside[:] & finite_in_all(self.volumes)

    def rows(self) -> FloatArray:
        """Return the values of the voxels that count, (n, d)."""
        chosen = self.counting()
        if self.lesion is not None:
            chosen &= ~self.lesion
        rows = np.empty((int(np.count_nonzero(chosen)), len(self.volumes)))
        for channel, volume in enumerate(self.volumes):
            rows[:, channel] = volume.values(volume.flat[chosen])
        return rows


class Counted(NamedTuple):
    """How often each intensity occurs among the voxels that count.

    Attributes
    ----------
    histogram : of one channel, or of all channels together.
    counts : how many voxels a fit uses, and how many it does not.
    warnings : for the user.
    """

    histogram: Histogram
    counts: VoxelCounts
    warnings: tuple[str, ...]


def read_voxels(subject: Subject, *, max_bytes: int) -> Voxels:
    """Read the images of a subject, its mask and its lesion mask.

    Masks are read first: their files may be larger than those of images, and are not kept.
    """
    several = len(subject.images) > 1
    warnings = check_grids(subject) if several else []
    masks = {}
    for what, source, fewest in (
        ("lesion", subject.lesion, {"fewest": 0}),
        ("mask", subject.mask, {}),
    ):
        if source is not None and not to_be_found(source):
            masks[what] = read_mask(source, max_bytes=max_bytes, **fewest)
    found, files = [], {}
    for name, image in subject.images.items():
        called = {"called": f"the image {name}"} if several else {}
        found.append(read_volume(image, max_bytes=max_bytes, **called))
        files[name if several else "image"] = found[-1].files
    volumes = tuple(found)
    inside: Inside
    if "mask" in masks:
        inside, found_brain = _flat(masks["mask"].inside), masks["mask"].found
    elif to_be_found(subject.mask):
        volume = volumes[subject.channels.index(subject.mask_channel)]
        finder = brain_mask if subject.finds_brain else _foreground
        inside, found_brain = _flat(finder(volume)), subject.finds_brain
    else:
        inside, found_brain = Nonzero(volumes[0]), False
        if several:
            inside = ~zero_in_all(volumes) & finite_in_all(volumes)
    for what in ("mask", "lesion"):
        if what in masks:
            warnings += masks[what].on(volumes[0])
            files[what] = masks[what].files
    lesion = _flat(masks["lesion"].inside) if "lesion" in masks else None
    known = {what: read for what, read in files.items() if read}
    return Voxels(volumes, inside, tuple(warnings), known, lesion, found_brain)


def count_voxels(subject: Subject, voxels: Voxels) -> Counted:
    """Count the voxels of a subject, those of several channels together."""
    volume, inside, lesion = voxels.volume, voxels.inside, voxels.lesion
    if len(voxels.volumes) > 1:
        rows = voxels.rows()
        total = len(rows)
        with error_about(subject.path):
            counted = joint_histogram(rows)
        excluded = 0 if lesion is None else int(np.count_nonzero(voxels.counting() & lesion))
        not_finite = int(np.count_nonzero(~finite_in_all(voxels.volumes)))
        notes = []
    else:
        found, excluded, not_finite = _counted(volume, inside, lesion)
        total = int(found.total) if found else 0
        if found is None or total < MIN_VOXELS:
            rule = "not 0" if subject.mask is None else "inside the mask"
            rule += "" if lesion is None else ", and not excluded"
            cause = f"{total or 'no'} voxels are finite and {rule}"
            hint = _MASK if subject.mask is None else "check the mask, and what is excluded"
            raise FileError(volume.path, cause, f"at least {MIN_VOXELS} are needed; {hint}")
        counted, notes = found, _suspicious(volume.path, found)
        if not_finite:
            notes.append(
                f"{volume.path}: {plural(not_finite, 'voxel')} NaN or infinite, left out of the fit"
            )
    used = int(trimmed(counted).total)
    numbers = VoxelCounts(used, excluded, total - used, not_finite, _ml(excluded, volume))
    return Counted(counted, numbers, tuple(notes))


def _ml(voxels: int, volume: Volume) -> float | None:
    size = volume.voxel_mm3 if voxels and volume.placed else math.nan
    return voxels * size / 1000 if math.isfinite(size) else None


def check_found_mask(subject: Subject) -> None:
    """Raise an error, before any work, if the mask of a subject is to be found and cannot be."""
    if subject.finds_brain:
        check_deepbet()
        refuse_other_contrasts(subject.alone(subject.mask_channel).path)


def check_grids(subject: Subject) -> list[str]:
    """Check that all channels have the same grid, from their headers alone; return warnings."""
    grids = [read_grid(image, called=f"the image {name}") for name, image in subject.images.items()]
    first, warnings = grids[0], []
    for other in grids[1:]:
        apart = voxels_apart(other, first) if other.spatial_shape == first.spatial_shape else None
        if apart is None or not apart < TOLERATED:
            shapes = [" × ".join(map(str, grid.spatial_shape)) for grid in (other, first)]
            cause = f"{shapes[0]} voxels, but {first.path} has {shapes[1]}"
            if apart is not None:
                cause = (
                    f"lies {apart:.3g} voxels away from {first.path}, although of the same shape"
                )
            hint = (
                "channels must share a grid, and nothing is resampled silently: register them, and "
                "resample them, for example with nibabel.processing.resample_from_to"
            )
            raise FileError(other.path, cause, hint)
        if apart > ALIGNED:
            warnings.append(
                f"{other.path}: lies {apart:.2g} voxels away from {first.path}; used nevertheless"
            )
    return warnings


def selection(subject: Subject) -> dict[str, str | bool]:
    """Return which voxels were asked for, for the record."""
    found = to_be_found(subject.mask)
    kind = "nonzero" if subject.mask is None else str(subject.mask) if found else "given"
    chosen: dict[str, str | bool] = {"mask": kind, "exclude": subject.lesion is not None}
    return chosen | ({"deepbet": deepbet_version()} if kind == BRAIN else {})


def finite_in_all(volumes: Sequence[Volume]) -> BoolArray:
    """Return which voxels are finite in every channel, flattened like `Volume.flat`."""
    finite = np.ones(volumes[0].flat.size, dtype=bool)
    for volume in volumes:
        if volume.stored.dtype.kind == "f":
            finite &= np.isfinite(volume.flat)
    return finite


def zero_in_all(volumes: Sequence[Volume]) -> BoolArray:
    """Return which voxels are 0 in every channel, flattened like `Volume.flat`."""
    zero = np.ones(volumes[0].flat.size, dtype=bool)
    for volume in volumes:
        for start in range(0, zero.size, PIECE):
            piece = slice(start, start + PIECE)
            zero[piece] &= volume.is_zero(volume.values(volume.flat[piece]))
    return zero


def _flat(shaped: BoolArray) -> BoolArray:
    return shaped.reshape(-1, order="F")


def _foreground(volume: Volume) -> BoolArray:
    # In any units in which brighter is more; as they are stored, if possible.
    brightness = volume.stored if volume.slope > 0 else volume.values(volume.stored)
    with error_about(volume.path):
        return foreground(brightness.reshape(volume.spatial_shape))


@contextmanager
def error_about(path: str, *, options: bool = False) -> Iterator[None]:
    """Name the file in errors of the mathematics, which knows no files.

    Parameters
    ----------
    path : the file.
    options : whether there are options of the caller that may be invalid; these are not the fault
        of the file.
    """
    try:
        yield
    except (DegenerateDataError, InvalidValueError) as error:
        if options and isinstance(error, InvalidValueError):
            raise
        cause, semicolon, hint = str(error).rpartition("; ")
        raise FileError(path, *((cause, hint) if semicolon else (hint,))) from error


def _counted(
    volume: Volume, inside: Inside, lesion: BoolArray | None
) -> tuple[Histogram | None, int, int]:
    """Return the histogram, and how many voxels were excluded and how many are not finite."""
    flat = volume.flat
    pieces = [slice(start, start + _PIECE) for start in range(0, flat.size, _PIECE)]
    excluded = not_finite = 0
    bounds = None
    if flat.dtype.kind == "f":
        not_finite = sum(int(np.count_nonzero(~np.isfinite(flat[piece]))) for piece in pieces)
    else:
        bounds = int(flat.min()), int(flat.max())

    def finite_inside(piece: slice) -> BoolArray:
        return inside[piece] & np.isfinite(flat[piece]) if not_finite else inside[piece]

    if lesion is not None:
        excluded = sum(
            int(np.count_nonzero(finite_inside(piece) & lesion[piece])) for piece in pieces
        )

    def chosen() -> Iterator[NDArray[Any]]:
        for piece in pieces:
            keep = finite_inside(piece)
            yield flat[piece][keep if lesion is None else keep & ~lesion[piece]]

    with error_about(volume.path):
        counted = tally(chosen, bounds=bounds, slope=volume.slope, inter=volume.inter)
    return counted, excluded, not_finite


def _suspicious(path: str, counted: Histogram) -> list[str]:
    """Refuse intensities that cannot be those of a scan; warn where they are strange."""
    levels, most = len(counted.counts), int(np.argmax(counted.counts))
    share = counted.counts[most] / counted.total
    value = f"{counted.values[most, 0]:g}"
    if levels == 1:
        raise FileError(path, f"all voxels used have the value {value}", _MASK)
    if levels == 2:
        cause = "holds two values only where it counts, like a mask"
        raise FileError(path, cause, "check that it is the right file, and its mask")
    if share > _BACKGROUND:
        cause = f"{share:.0%} of the voxels used have the value {value}: background?"
        raise FileError(path, cause, _MASK)
    if levels < _FEW_LEVELS:
        return [f"{path}: holds {levels} different values only; is it a map of labels?"]
    return []


# ── tissue probability maps ───────────────────────────────────────────────────────────────────────


class ProbabilityMap(NamedTuple):
    """A tissue probability map that was read.

    Attributes
    ----------
    share : the probability of each voxel inside the mask.
    warnings : for the user.
    files : that were read, with their hashes.
    """

    share: FloatArray
    warnings: list[str]
    files: tuple[FileHash, ...]


def probabilities(
    source: Source, volume: Volume, inside: BoolArray, max_bytes: int
) -> ProbabilityMap:
    """Read a tissue probability map.

    Parameters
    ----------
    source : the map.
    volume : the scan, whose grid it must have.
    inside : which voxels are wanted.
    max_bytes : the largest file to read.

    Raises
    ------
    FileError : if it cannot be read, or is no such map of this scan.
    """
    read = read_volume(source, max_bytes=max_bytes, called="the tissue probability map")
    if read.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {read.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(read.path, cause, "give a map on the grid of the scan")
    warnings = misalignment_warnings(read, volume)
    share = np.asarray(read.values(read.flat[inside]), np.float64)
    share[~np.isfinite(share)] = 0.0
    if share.min() < 0 or not share.any():
        cause = "no probability is positive inside the mask, or some are negative"
        raise FileError(read.path, cause, "check that it is a tissue probability map")
    return ProbabilityMap(share, warnings, read.files)
