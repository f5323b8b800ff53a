"""The voxels of several channels: the images, which voxels count, and their joint histogram.

The channels share one mask. A voxel counts if it is inside, not excluded, and finite in all
channels; without a mask, those are inside that are not 0 in some channel.

A joint density has more to it than that of one channel, and needs more evidence to show it: the
effective count that the user chooses is that of one channel, and `EVIDENCE` times as much is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ndflow.density import Histogram, trimmed
from ndflow.density.joint_histogram import joint_histogram
from ndflow.files.fingerprints import Hashes
from ndflow.image.mask import BoolArray, read_mask, to_be_found
from ndflow.image.read import read_volume
from ndflow.image.volume import PIECE, Volume
from ndflow.scan.channels.channel_subject import Subject, check_grids
from ndflow.scan.reading import (
    MaskedVolume,
    ScanVoxels,
    VoxelCounts,
    check_found_mask,
    count_voxels,
    error_about,
    read_masked,
)
from ndflow.scan.settings import Reading
from ndflow.values import FloatArray

__all__ = [
    "EVIDENCE",
    "SubjectVoxels",
    "finite_in_all",
    "read_channels",
    "read_subject",
    "zero_in_all",
]

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


def read_channels(subject: Subject, reading: Reading) -> Channels:
    """Read the images of a subject and their mask."""
    limit = reading.max_bytes
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


def read_subject(subject: Subject, reading: Reading) -> SubjectVoxels:
    """Read the channels of a subject and count their voxels."""
    lesion = None
    if subject.lesion is not None:
        excluded = read_mask(subject.lesion, fewest=0, max_bytes=reading.max_bytes)
        lesion = excluded.inside.reshape(-1, order="F")
    channels = read_channels(subject, reading)
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
