"""The voxels of a scan: its image, which of them count, and their histogram."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import Histogram, tally, trimmed
from ndflow.density.condense import joint_histogram
from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.files.fingerprints import Hashes
from ndflow.image.mask import (
    AUTO,
    BRAIN,
    MIN_VOXELS,
    BoolArray,
    FoundMask,
    Inside,
    Nonzero,
    foreground,
    read_mask,
    to_be_found,
)
from ndflow.image.read import Source, read_volume
from ndflow.image.subject import Scan
from ndflow.image.volume import PIECE, Volume
from ndflow.options import Options
from ndflow.preparation.brain import (
    brain_mask,
    check_deepbet,
    deepbet_version,
    refuse_other_contrasts,
)
from ndflow.subject.channels import Subject, check_grids
from ndflow.values import FloatArray, Record

_PIECE = 1 << 16  # voxels counted at a time; a histogram of the whole would double the memory
_FEW_LEVELS = 16
_BACKGROUND = 0.5  # of the voxels, with one and the same value
_MASK = "give a mask of the brain with --mask FILE, or try --mask brain or --mask auto"


@dataclass(frozen=True)
class VoxelCounts(Record):
    """How many voxels a fit used, and how many it did not.

    Attributes
    ----------
    fitted : used.
    excluded : inside the mask, but excluded by the user.
    outliers : too far out to be part of the density, see `trimmed`.
    not_finite : NaN or infinite, in the whole image.
    excluded_ml : the volume of the excluded voxels in millilitres; None where there are none, or
        voxels have no size.
    """

    fitted: int
    excluded: int
    outliers: int
    not_finite: int
    excluded_ml: float | None = None


class ScanVoxels(NamedTuple):
    """A scan that was read.

    Attributes
    ----------
    volume : the image.
    inside : which voxels are inside the mask.
    histogram : of the voxels that count: inside, finite and not excluded.
    excluded : how many voxels are inside and finite, but were excluded by the user.
    not_finite : how many voxels of the whole image are NaN or infinite.
    warnings : for the user.
    files : that were read, with their hashes.
    lesion : which voxels were excluded by the user.
    found_brain : whether the mask is that of a brain that deepbet found, now or before.
    """

    volume: Volume
    inside: Inside
    histogram: Histogram
    excluded: int
    not_finite: int
    warnings: tuple[str, ...]
    files: Hashes
    lesion: BoolArray | None = None
    found_brain: bool = False

    @property
    def counts(self) -> VoxelCounts:
        """How many voxels a fit uses, and how many it does not."""
        used = int(trimmed(self.histogram).total)
        outliers = int(self.histogram.total) - used
        volume = None
        if self.excluded and self.volume.placed:
            size = self.volume.voxel_mm3
            volume = self.excluded * size / 1000 if math.isfinite(size) else None
        return VoxelCounts(used, self.excluded, outliers, self.not_finite, volume)


def read_scan(scan: Scan, options: Options) -> ScanVoxels:
    """Read the image and the masks of a scan."""
    limit = options.max_bytes
    excluded = None
    if scan.lesion is not None:
        excluded = read_mask(scan.lesion, fewest=0, max_bytes=limit)
    masked = read_masked(scan.image, scan.mask, max_bytes=limit)
    if excluded is not None:
        masked.warnings.extend(excluded.on(masked.volume))
        masked.files.update({"lesion": excluded.files} if excluded.files else {})
    return count_voxels(scan, masked, None if excluded is None else _flat(excluded.inside))


def count_voxels(scan: Scan, masked: MaskedVolume, lesion: BoolArray | None) -> ScanVoxels:
    """Count the voxels of an image that was read.

    Parameters
    ----------
    scan : what the user asked for, for messages.
    masked : the image and its mask.
    lesion : which voxels to leave out, flattened like `Volume.flat`.

    Raises
    ------
    FileError : if too few voxels are left, or they cannot be those of a scan.
    """
    volume, inside, warnings, files, found = masked
    counted, left_out, not_finite = _counted(volume, inside, lesion)
    total = int(counted.total) if counted else 0
    if counted is None or total < MIN_VOXELS:
        cause = f"{_count(total, 'voxel')} {'is' if total == 1 else 'are'} {_which(scan)}"
        hint = _MASK if scan.mask is None else "check the mask, and what is excluded"
        raise FileError(volume.path, cause, f"at least {MIN_VOXELS} are needed; {hint}")
    notes = [*warnings, *_suspicious(volume.path, counted)]
    if not_finite:
        notes.append(
            f"{volume.path}: {_count(not_finite, 'voxel')} NaN or infinite, left out of the fit"
        )
    return ScanVoxels(
        volume, inside, counted, left_out, not_finite, tuple(notes), files, lesion, found
    )


class MaskedVolume(NamedTuple):
    """An image that was read with its mask.

    Attributes
    ----------
    volume : the image.
    inside : which of its voxels are inside the mask.
    warnings : for the user.
    files : that were read, with their hashes.
    found_brain : whether the mask is that of a brain that deepbet found, now or before.
    """

    volume: Volume
    inside: Inside
    warnings: list[str]
    files: Hashes
    found_brain: bool = False


def read_masked(image: Source, mask: Source | None, *, max_bytes: int) -> MaskedVolume:
    """Read an image and its mask.

    The mask is read first: its file may be larger than that of the image, and is not kept.
    """
    given = None
    if mask is not None and not to_be_found(mask):
        given = read_mask(mask, max_bytes=max_bytes)
    volume = read_volume(image, max_bytes=max_bytes)
    files = {"image": volume.files} if volume.files else {}
    if given is not None:
        files |= {"mask": given.files} if given.files else {}
        return MaskedVolume(volume, _flat(given.inside), given.on(volume), files, given.found)
    if to_be_found(mask):
        return MaskedVolume(volume, _flat(_FINDERS[mask](volume)), [], files, mask == BRAIN)
    return MaskedVolume(volume, Nonzero(volume), [], files)


def check_found_mask(scan: Scan) -> None:
    """Raise an error, before any work, if the mask of a scan is to be found and cannot be."""
    if to_be_found(scan.mask) and scan.mask == BRAIN:
        check_deepbet()
        refuse_other_contrasts(scan.path)


class LesionVoxels(NamedTuple):
    """Which voxels of an image are excluded as a lesion.

    Attributes
    ----------
    inside : flattened like `Volume.flat`.
    warnings : for the user.
    files : that were read, with their hashes.
    """

    inside: BoolArray
    warnings: list[str]
    files: Hashes


def read_lesion(lesion: Source, volume: Volume, *, max_bytes: int) -> LesionVoxels:
    """Read the lesion mask of an image that was read before."""
    mask = read_mask(lesion, fewest=0, max_bytes=max_bytes)
    files = {"lesion": mask.files} if mask.files else {}
    return LesionVoxels(_flat(mask.inside), mask.on(volume), files)


def _flat(shaped: BoolArray) -> BoolArray:
    return shaped.reshape(-1, order="F")


def selection(scan: Scan) -> dict[str, str | bool]:
    """Return which voxels were asked for, for the record."""
    found = to_be_found(scan.mask)
    kind = "nonzero" if scan.mask is None else str(scan.mask) if found else "given"
    chosen: dict[str, str | bool] = {"mask": kind, "exclude": scan.lesion is not None}
    return chosen | ({"deepbet": deepbet_version()} if kind == BRAIN else {})


def _foreground(volume: Volume) -> BoolArray:
    with error_about(volume.path):
        return foreground(_brightness(volume).reshape(volume.spatial_shape))


def _brightness(volume: Volume) -> NDArray[np.generic]:
    """Return the voxels in any units in which brighter is more; as they are stored, if possible."""
    return volume.stored if volume.slope > 0 else volume.values(volume.stored)


_FINDERS: Mapping[FoundMask, Callable[[Volume], BoolArray]] = {
    AUTO: _foreground,
    BRAIN: brain_mask,
}


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
        raise FileError(path, f"all voxels that count have the value {value}", _MASK)
    if levels == 2:
        cause = "holds two values only where it counts, like a mask"
        raise FileError(path, cause, "check that it is the right file, and its mask")
    if share > _BACKGROUND:
        cause = f"{share:.0%} of the voxels that count have the value {value}: background?"
        raise FileError(path, cause, _MASK)
    if levels < _FEW_LEVELS:
        return [f"{path}: holds {levels} different values only; is it a map of labels?"]
    return []


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _which(scan: Scan) -> str:
    """Say which voxels were asked for."""
    rule = "not 0" if scan.mask is None else "inside the mask"
    return f"finite and {rule}" + (", and not excluded" if scan.lesion is not None else "")


# ── several channels ──────────────────────────────────────────────────────────────────────────────
# The voxels of several channels: the images, which voxels count, and their joint histogram.
#
# The channels share one mask. A voxel counts if it is inside, not excluded, and finite in all
# channels; without a mask, those are inside that are not 0 in some channel.
#
# A joint density has more to it than that of one channel, and needs more evidence to show it: the
# effective count that the user chooses is that of one channel, and `EVIDENCE` times as much is
# used.

EVIDENCE = 10.0  # times that of one channel; chosen on the channels of two patients


class Channels(NamedTuple):
    """Images on one grid, and their mask.

    Attributes
    ----------
    volumes : one per channel, in order.
    inside : which voxels are inside the mask, flattened like `Volume.flat`.
    warnings : for the user.
    files : that were read, with their hashes: images by channel.
    found_brain : whether the mask is that of a brain that deepbet found, now or before.
    """

    volumes: tuple[Volume, ...]
    inside: BoolArray
    warnings: tuple[str, ...]
    files: Hashes
    found_brain: bool


class SubjectVoxels(NamedTuple):
    """Channels that were read and counted.

    Attributes
    ----------
    channels : the images.
    scans : each channel by itself, with the histogram of the voxels that count in all channels.
    rows : the values of these voxels, (n, d).
    cells : their joint histogram.
    excluded : how many voxels are inside and finite, but were excluded by the user.
    not_finite : how many voxels of the whole grid are NaN or infinite in some channel.
    """

    channels: Channels
    scans: dict[str, ScanVoxels]
    rows: FloatArray
    cells: Histogram
    excluded: int
    not_finite: int

    @property
    def counts(self) -> VoxelCounts:
        """How many voxels the joint fit uses, and how many it does not."""
        used = int(trimmed(self.cells).total)
        outliers = len(self.rows) - used
        volume = next(iter(self.scans.values())).counts.excluded_ml
        return VoxelCounts(used, self.excluded, outliers, self.not_finite, volume)


def read_channels(subject: Subject, options: Options) -> Channels:
    """Read the images of a subject and their mask."""
    limit = options.max_bytes
    warnings = check_grids(subject)
    files: Hashes = {}
    found, found_brain = None, False
    if subject.mask is not None:
        name = subject.mask_channel
        if to_be_found(subject.mask):
            check_found_mask(subject.scan(name))
            masked = read_masked(subject.images[name], subject.mask, max_bytes=limit)
            found, found_brain = masked.inside[:], masked.found_brain
        else:
            given = read_mask(subject.mask, max_bytes=limit)
            found, found_brain = given.inside.reshape(-1, order="F"), given.found
    volumes = []
    for name, image in subject.images.items():
        volumes.append(read_volume(image, max_bytes=limit, called=f"the image {name}"))
        files |= {name: volumes[-1].files} if volumes[-1].files else {}
    if subject.mask is not None and not to_be_found(subject.mask):
        warnings += given.on(volumes[0])
        files |= {"mask": given.files} if given.files else {}
    inside = ~zero_in_all(volumes) & finite_in_all(volumes) if found is None else found
    return Channels(tuple(volumes), inside, tuple(warnings), files, found_brain)


def read_subject(subject: Subject, options: Options) -> SubjectVoxels:
    """Read the channels of a subject and count their voxels."""
    lesion = None
    if subject.lesion is not None:
        excluded = read_mask(subject.lesion, fewest=0, max_bytes=options.max_bytes)
        lesion = excluded.inside.reshape(-1, order="F")
    channels = read_channels(subject, options)
    if subject.lesion is not None:
        more = excluded.on(channels.volumes[0])
        files = channels.files | ({"lesion": excluded.files} if excluded.files else {})
        channels = channels._replace(warnings=(*channels.warnings, *more), files=files)
    finite = finite_in_all(channels.volumes)
    counting = channels.inside & finite
    scans = {}
    for name, volume in zip(subject.names, channels.volumes, strict=True):
        own = {"image": volume.files} if volume.files else {}
        masked = MaskedVolume(volume, counting, [], own, channels.found_brain)
        scans[name] = count_voxels(subject.scan(name), masked, lesion)
    left_out = 0 if lesion is None else int(np.count_nonzero(counting & lesion))
    counted = counting if lesion is None else counting & ~lesion
    rows = _rows(channels.volumes, counted)
    with error_about(subject.path):
        cells = joint_histogram(rows)
    return SubjectVoxels(channels, scans, rows, cells, left_out, int(np.count_nonzero(~finite)))


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


def _rows(volumes: Sequence[Volume], chosen: BoolArray) -> FloatArray:
    """Return the values of some voxels, (n, d)."""
    rows = np.empty((int(np.count_nonzero(chosen)), len(volumes)))
    for channel, volume in enumerate(volumes):
        rows[:, channel] = volume.values(volume.flat[chosen])
    return rows
