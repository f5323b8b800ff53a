"""The voxels of a subject: its images, which voxels count, their histograms, and their maps.

The channels of a subject share one grid and one mask. A voxel counts if it is inside the mask,
not excluded, and finite in all channels. Without a mask, all voxels are inside that are not 0 in
some channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import Histogram, tally, trimmed
from ndflow.density.condense import joint_histogram
from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.files.stream import FileHash, Hashes
from ndflow.image.mask import (
    BRAIN,
    MIN_VOXELS,
    BoolArray,
    finite_in_all,
    foreground,
    misalignment_warnings,
    nonzero,
    read_mask,
    to_be_found,
    zero_in_all,
)
from ndflow.image.read import Source, read_grid, read_volume, refuse_other_shape
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume, slices
from ndflow.image.write import cast_to, make_array
from ndflow.options import Options, Outside
from ndflow.preparation import brain
from ndflow.transport import IntensityMap, LinearInterpolant, linear_interpolant
from ndflow.values import FloatArray, Record, plural

_PIECE = 1 << 16  # voxels at a time: few enough for a processor's cache
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
    inside: BoolArray
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
        counting = finite_in_all(self.volumes)
        counting &= self.inside
        return counting

    def fitted(self) -> BoolArray:
        """Return which voxels count for a density: those, but not what the user excluded."""
        chosen = self.counting()
        if self.lesion is not None:
            chosen &= ~self.lesion
        return chosen

    def rows(self) -> FloatArray:
        """Return the values of the voxels that count for a density, (n, d)."""
        chosen = self.fitted()
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
    grid, warnings = check_grids(subject)
    masks = {}
    if subject.mask is not None and not to_be_found(subject.mask):
        masks["mask"] = read_mask(subject.mask, grid, max_bytes=max_bytes)
    if subject.lesion is not None:
        masks["lesion"] = read_mask(subject.lesion, grid, max_bytes=max_bytes, fewest=0)
    found, files = [], {}
    for name, image in subject.images.items():
        found.append(read_volume(image, max_bytes=max_bytes, called=_called(subject, name)))
        files[name if len(subject.images) > 1 else "image"] = found[-1].files
    volumes = tuple(found)
    if "mask" in masks:
        inside, found_brain = _flat(masks["mask"].inside), masks["mask"].found
    elif to_be_found(subject.mask):
        volume = volumes[subject.channels.index(subject.mask_channel)]
        finder = brain.brain_mask if subject.finds_brain else _foreground
        inside, found_brain = _flat(finder(volume)), subject.finds_brain
    else:
        inside, found_brain = nonzero(volumes), False
    for what, mask in masks.items():
        warnings += mask.warnings
        files[what] = mask.files
    lesion = _flat(masks["lesion"].inside) if "lesion" in masks else None
    known = {what: read for what, read in files.items() if read}
    return Voxels(volumes, inside, tuple(warnings), known, lesion, found_brain)


def count_voxels(subject: Subject, voxels: Voxels) -> Counted:
    """Count the voxels of a subject, those of several channels together."""
    volume, chosen = voxels.volume, voxels.fitted()
    total = int(np.count_nonzero(chosen))
    excluded = 0 if voxels.lesion is None else int(np.count_nonzero(voxels.counting())) - total
    not_finite = chosen.size - int(np.count_nonzero(finite_in_all(voxels.volumes)))
    if len(voxels.volumes) > 1:
        with error_about(subject.path):
            counted = joint_histogram(voxels.rows())
        notes = []
    else:
        if total < MIN_VOXELS:
            rule = "not 0" if subject.mask is None else "inside the mask"
            rule += "" if voxels.lesion is None else ", and not excluded"
            cause = f"{total or 'no'} voxels are finite and {rule}"
            hint = _MASK if subject.mask is None else "check the mask, and what is excluded"
            raise FileError(volume.path, cause, f"at least {MIN_VOXELS} are needed; {hint}")
        counted = _counted(volume, chosen)
        notes = _suspicious(volume.path, counted)
        if not_finite:
            notes.append(
                f"{volume.path}: {plural(not_finite, 'voxel')} NaN or infinite, left out of the fit"
            )
    used = int(trimmed(counted).total)
    size = volume.voxel_mm3 if excluded and volume.placed else math.nan
    excluded_ml = excluded * size / 1000 if math.isfinite(size) else None
    numbers = VoxelCounts(used, excluded, total - used, not_finite, excluded_ml)
    return Counted(counted, numbers, tuple(notes))


def check_found_mask(subject: Subject) -> None:
    """Raise an error, before any work, if the mask of a subject is to be found and cannot be."""
    if subject.finds_brain:
        brain.check_deepbet()
        brain.refuse_other_contrasts(subject.alone(subject.mask_channel).path)


def check_grids(subject: Subject) -> tuple[Volume, list[str]]:
    """Check that all channels have the same grid; return it, without voxels, and warnings."""
    images = subject.images.items()
    first, *others = (read_grid(image, called=_called(subject, name)) for name, image in images)
    warnings = []
    for other in others:
        refuse_other_shape(other.path, other.shape, first)
        warnings += misalignment_warnings(other, first)
    return first, warnings


def _called(subject: Subject, channel: str) -> str:
    return f"the image {channel}" if len(subject.images) > 1 else "the image"


def selection(subject: Subject) -> dict[str, str | bool]:
    """Return which voxels were asked for, for the record."""
    found = to_be_found(subject.mask)
    kind = "nonzero" if subject.mask is None else str(subject.mask) if found else "given"
    chosen: dict[str, str | bool] = {"mask": kind, "exclude": subject.lesion is not None}
    return chosen | ({"deepbet": brain.deepbet_version()} if kind == BRAIN else {})


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


def _counted(volume: Volume, chosen: BoolArray) -> Histogram:
    """Return the histogram of some voxels, at least one of them."""
    flat = volume.flat
    bounds = None if flat.dtype.kind == "f" else (int(flat.min()), int(flat.max()))

    def pieces() -> Iterator[NDArray[Any]]:
        return (flat[piece][chosen[piece]] for piece in slices(flat.size, _PIECE))

    with error_about(volume.path):
        return tally(pieces, bounds=bounds, slope=volume.slope, inter=volume.inter)


def _suspicious(path: str, counted: Histogram) -> list[str]:
    """Refuse intensities that cannot be those of a scan; warn where they are strange."""
    levels, most = len(counted.counts), int(np.argmax(counted.counts))
    share = counted.counts[most] / counted.total
    value = f"{counted.values[most, 0]:g}"
    if share > _BACKGROUND:
        cause = f"{share:.0%} of the voxels used have the value {value}: background, or a mask?"
        raise FileError(path, cause, _MASK)
    if levels < _FEW_LEVELS:
        return [f"{path}: holds {levels} different values only; is it a map of labels?"]
    return []


# ── tissue probability maps ───────────────────────────────────────────────────────────────────────


def read_map(source: Source, volume: Volume, max_bytes: int) -> tuple[Volume, list[str]]:
    """Read a tissue probability map on the grid of a scan; return it and warnings for the user."""
    called = "the tissue probability map"
    read = read_volume(source, max_bytes=max_bytes, called=called, like=volume)
    return read, misalignment_warnings(read, volume)


def probabilities(
    source: Source, volume: Volume, inside: BoolArray, max_bytes: int
) -> tuple[FloatArray, list[str], tuple[FileHash, ...]]:
    """Read a tissue probability map.

    Parameters
    ----------
    source : the map.
    volume : the scan, whose grid it must have.
    inside : which voxels are wanted.
    max_bytes : the largest file to read.

    Returns
    -------
    tuple of array, list of str and tuple of FileHash
        The probability of each voxel inside, warnings for the user, and the files that were read.

    Raises
    ------
    FileError : if it cannot be read, or is no such map of this scan.
    """
    read, warnings = read_map(source, volume, max_bytes)
    share = np.asarray(read.values(read.flat[inside]), np.float64)
    share[~np.isfinite(share)] = 0.0
    if share.min() < 0 or not share.any():
        cause = "no probability is positive inside the mask, or some are negative"
        raise FileError(read.path, cause, "check that it is a tissue probability map")
    return share, warnings, read.files


# ── voxels, mapped ────────────────────────────────────────────────────────────────────────────────
# Voxels are mapped piece by piece. Integer images of an ordinary range go through a look-up table:
# the map is evaluated once for each integer that can occur, already in the data type of the result.
# Other images are computed voxel by voxel, through a linear interpolant of the map where the result
# has no more than 32 bits.

Pieces = Iterator[NDArray[Any]]  # of mapped voxels, in the order of `Volume.flat`

_LARGEST = np.finfo(np.float64).max
_EXACT = 1 << 53  # up to here doubles represent every integer
_LONGEST = 1 << 18  # entries of a look-up table; more would cost more than they save
_MANY = 1 << 15  # voxels that are worth the search for a linear interpolant
_SAMPLE, _FEWEST = 1 << 16, 100  # voxels to sample for the range, and the least of them
_BULK, _REACH = (0.005, 0.995), 0.5  # their quantiles, and how far the interpolant extends


def mapped(
    volume: Volume,
    imap: IntensityMap,
    inside: BoolArray,
    outside: Outside | None,
    dtype: str = "float64",
    sample: NDArray[Any] | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield the mapped voxels, in the order of `Volume.flat`.

    Voxels that are not finite stay as they are, unless everything outside the mask becomes zero.

    Parameters
    ----------
    volume : the image.
    imap : the map.
    inside : the mask.
    outside : what becomes of voxels outside the mask, see `Options`.
    dtype : the data type of the result. The voxels that are yielded have it already where that
        saves time and none of them has to be clipped.
    sample : some of the values, whose range matters most. Default: every so many voxels.
    """
    if volume.stored.dtype.kind in "bui":
        first, last = int(volume.stored.min()), int(volume.stored.max())
        if last - first < _LONGEST and max(-first, last) <= _EXACT:
            integers = np.arange(first, last + 1, dtype=np.int64)
            table = _table(volume, imap, integers, outside, np.dtype(dtype))
            return _looked_up(volume, inside, first, table)
    through = None
    if dtype == "float32" and volume.flat.size >= _MANY:
        if sample is None:
            sample = volume.values(volume.flat[:: max(1, volume.flat.size // _SAMPLE)])
        through = _interpolant(imap, sample)
    return _computed(volume, imap, inside, outside, through)


def _table(
    volume: Volume,
    imap: IntensityMap,
    integers: NDArray[np.int64],
    outside: Outside | None,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    """Return the results of some integers where they are outside the mask, then inside."""
    values = volume.values(integers)
    own = values.astype(np.float64)
    inner = _through(imap, own)
    moved, cleared = _fates(outside, np.zeros(own.size, bool), volume.is_zero(values))
    outer = np.where(cleared, 0.0, np.where(moved, inner, own))
    both = np.concatenate([outer, inner])
    typed, clipped = cast_to(both, dtype)
    return both if clipped else typed


def _looked_up(
    volume: Volume, inside: BoolArray, first: int, table: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    flat, count = volume.flat, len(table) // 2
    for piece in slices(flat.size, _PIECE):
        places = flat[piece].astype(np.intp)
        places -= first
        places += count * inside[piece]
        yield table.take(places)


def _fates(
    outside: Outside | None, within: BoolArray, zero: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Return which voxels are mapped, if they are finite, and which become 0; others stay."""
    none = np.zeros_like(within)
    if outside == "map":
        return ~none, none
    if outside is None:
        cleared = ~within & zero
        return ~cleared, cleared
    return within, none if outside == "keep" else ~within


def _computed(
    volume: Volume,
    imap: IntensityMap,
    inside: BoolArray,
    outside: Outside | None,
    through: LinearInterpolant | None,
) -> Iterator[NDArray[Any]]:
    flat = volume.flat
    for piece in slices(flat.size, _PIECE):
        values, within = volume.values(flat[piece]), inside[piece]
        result = values.astype(np.float64)
        moved, cleared = _fates(outside, within, volume.is_zero(values))
        result[cleared] = 0.0
        where = np.flatnonzero(moved & np.isfinite(values))
        result[where] = _through(imap, result[where], through)
        yield result


def _through(
    imap: IntensityMap, values: NDArray[np.float64], fast: LinearInterpolant | None = None
) -> NDArray[np.float64]:
    """Map values; finite ones stay finite, and the writer counts those its type cannot hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        if fast is None:
            return np.clip(imap(values), -_LARGEST, _LARGEST)
        near = (values >= fast.low) & (values <= fast.high)
        if near.all():
            return fast(values)
        result = np.empty_like(values)
        result[near] = fast(values[near])
        result[~near] = _through(imap, values[~near])
        return result


def _interpolant(imap: IntensityMap, sample: NDArray[Any]) -> LinearInterpolant | None:
    """Return a linear interpolant of a map over the range of nearly all values of an image.

    Not of all of them: a single voxel far out would leave the others in one interval.
    """
    sample = sample[np.isfinite(sample) & (sample != 0)]
    if sample.size < _FEWEST:
        return None
    low, high = np.quantile(sample.astype(np.float64), _BULK).tolist()
    reach = _REACH * (high - low)
    with np.errstate(over="ignore", invalid="ignore"):
        return linear_interpolant(imap, low - reach, high + reach)


def in_order(voxels: NDArray[Any], mask: BoolArray | None) -> tuple[Volume, BoolArray, bool]:
    """Return an array as a volume, which of its voxels are inside, and whether axes are reversed.

    The axes of an array in C order are, so that no voxel has to be moved.

    Parameters
    ----------
    voxels : in any order in memory.
    mask : which voxels are inside, in the shape of `voxels`; None for all but 0.
    """
    turned = voxels.flags.c_contiguous and voxels.ndim <= 3
    volume = read_volume(voxels.T if turned else voxels)
    if mask is None:
        return volume, nonzero([volume]), turned
    return volume, (mask.T if turned else mask).reshape(-1, order="F"), turned


def map_array(
    voxels: NDArray[Any], imap: IntensityMap, mask: BoolArray | None, outside: Outside | None
) -> NDArray[np.float32]:
    """Map an array in memory to 32-bit floats, as `mapped` does, without changing its order.

    Parameters
    ----------
    voxels : a volume of real numbers, in any order in memory.
    imap : the map.
    mask : which voxels are inside, in the shape of `voxels`; None for all but 0.
    outside : what becomes of voxels outside the mask, see `Options`.

    Returns
    -------
    The mapped voxels: bit for bit what `mapped` gives, in the shape and the order of `voxels`.
    """
    volume, inside, turned = in_order(voxels, mask)
    sampled = np.arange(0, voxels.size, max(1, voxels.size // _SAMPLE))
    sample = voxels[np.unravel_index(sampled, voxels.shape, "F")] if turned else None
    result, _ = make_array(volume, mapped(volume, imap, inside, outside, "float32", sample))
    return result.T if turned else result


# All channels of a voxel are needed to map any of them, so the results of all channels are computed
# before the first of them is written: eight bytes per voxel and channel.


def map_voxels(voxels: Voxels, imap: IntensityMap, options: Options) -> list[Pieces]:
    """Return, for each channel of a subject, its mapped voxels in pieces.

    Parameters
    ----------
    voxels : of the subject.
    imap : the map of all its channels.
    options : what becomes of voxels outside the mask, and the data type of the result.
    """
    outside, volumes = options.outside, voxels.volumes
    if len(volumes) == 1:
        return [mapped(volumes[0], imap, voxels.inside, outside, options.dtype)]
    moved, cleared = _fates(outside, voxels.inside, zero_in_all(volumes))
    moved = moved & finite_in_all(volumes)
    results = [volume.values(volume.flat).astype(np.float64) for volume in volumes]
    for result in results:
        result[cleared] = 0.0
    starts = range(0, moved.size, _PIECE)
    for start in starts:
        where = start + np.flatnonzero(moved[start : start + _PIECE])
        if where.size:
            points = _through(imap, np.stack([result[where] for result in results], axis=1))
            for channel, result in enumerate(results):
                result[where] = points[:, channel]
    return [iter(np.split(result, starts[1:])) for result in results]
