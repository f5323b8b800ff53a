"""The voxels of an image, mapped piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ndflow.io import BoolArray, Volume
from ndflow.transport import Affine, Chain, IntensityMap, Lookup
from ndflow.values import FloatArray
from ndflow.workflow.settings import Outside

__all__ = ["mapped"]

_PIECE = 1 << 14  # voxels at a time: what is computed for them stays in the processor's cache
_LARGEST = np.finfo(np.float64).max
_EXACT = 1 << 53  # up to here doubles tell integers apart
_LONGEST = 1 << 18  # of a look-up table; beyond, it would cost more than it saves


def mapped(
    volume: Volume, imap: IntensityMap, inside: BoolArray, outside: Outside | None
) -> Iterator[FloatArray]:
    """Yield the image of every voxel, in the order of `Volume.flat`.

    Voxels that are not finite stay what they are, unless everything outside the mask becomes zero.

    Parameters
    ----------
    volume : the image.
    imap : the map.
    inside : (voxels,), the mask.
    outside : what becomes of voxels outside the mask, see `Writing`.
    """
    flat = volume.flat
    through = _through(volume, imap)
    for start in range(0, flat.size, _PIECE):
        stored = flat[start : start + _PIECE]
        values = volume.values(stored)
        with np.errstate(over="ignore", invalid="ignore"):
            result = through(stored)
        # What is finite stays finite: the writer clips and counts what its type cannot hold.
        result = np.clip(result, -_LARGEST, _LARGEST)
        if stored.dtype.kind == "f":
            result = np.where(np.isfinite(values), result, values)
        if outside != "map":
            beyond = ~inside[start : start + _PIECE]
            if outside is None:
                beyond &= volume.is_zero(values)
            if beyond.any():
                result[beyond] = values[beyond] if outside == "keep" else 0.0
        yield result


def _through(volume: Volume, imap: IntensityMap) -> IntensityMap:
    """Return the map from stored numbers, with a look-up table where they are integers."""
    if (volume.slope, volume.inter) != (1, 0):
        imap = Chain((Affine(np.array([[volume.slope]]), np.array([volume.inter])), imap))
    if volume.stored.dtype.kind == "f":
        return imap
    first, last = int(volume.stored.min()), int(volume.stored.max())
    fits = last - first < _LONGEST and max(-first, last) <= _EXACT
    return Lookup(imap, first, last) if fits else imap
