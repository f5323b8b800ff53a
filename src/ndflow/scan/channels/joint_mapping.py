"""The voxels of several channels, mapped together.

All channels of a voxel are needed to map any of them, so the results of all channels are computed
before the first of them is written: eight bytes per mapped voxel and channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.scan.channels.channel_voxels import Channels, finite_in_all, zero_in_all
from ndflow.scan.settings import Outside
from ndflow.transport import IntensityMap

__all__ = ["mapped_jointly"]

_PIECE = 1 << 16  # voxels at a time: few enough for a processor's cache
_LARGEST = np.finfo(np.float64).max


def mapped_jointly(
    channels: Channels, imap: IntensityMap, outside: Outside | None
) -> list[Iterator[NDArray[Any]]]:
    """Return, for each channel, the mapped voxels in pieces, in the order of `Volume.flat`.

    A voxel that is not finite in some channel stays as it is in all of them, unless everything
    outside the mask becomes zero. By default, what is 0 in all channels outside the mask stays 0.

    Parameters
    ----------
    channels : the images and their mask.
    imap : the map, of as many channels.
    outside : what becomes of voxels outside the mask, see `Writing`.
    """
    finite, within = finite_in_all(channels.volumes), channels.inside
    cleared = np.zeros_like(finite)
    if outside is None:
        cleared = ~within & zero_in_all(channels.volumes)
        moved = finite & ~cleared
    elif outside == "map":
        moved = finite
    else:
        moved = finite & within
        if outside == "zero":
            cleared = ~within
    results = _results(channels, imap, moved)
    return [
        _pieces(channels, place, moved, cleared, results[:, place])
        for place in range(len(channels.volumes))
    ]


def _results(
    channels: Channels, imap: IntensityMap, moved: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Map the voxels that move, all channels of a piece at a time, (n, d)."""
    results = np.empty((int(np.count_nonzero(moved)), len(channels.volumes)))
    done = 0
    for start in range(0, moved.size, _PIECE):
        piece = slice(start, start + _PIECE)
        chosen = moved[piece]
        points = np.stack(
            [
                volume.values(volume.flat[piece][chosen]).astype(np.float64)
                for volume in channels.volumes
            ],
            axis=1,
        )
        if len(points):
            with np.errstate(over="ignore", invalid="ignore"):
                # Finite values stay finite; the writer counts those that its type cannot hold.
                results[done : done + len(points)] = np.clip(imap(points), -_LARGEST, _LARGEST)
        done += len(points)
    return results


def _pieces(
    channels: Channels,
    place: int,
    moved: NDArray[np.bool_],
    cleared: NDArray[np.bool_],
    results: NDArray[np.float64],
) -> Iterator[NDArray[Any]]:
    volume = channels.volumes[place]
    done = 0
    for start in range(0, moved.size, _PIECE):
        piece = slice(start, start + _PIECE)
        values = volume.values(volume.flat[piece]).astype(np.float64)
        values[cleared[piece]] = 0.0
        count = int(np.count_nonzero(moved[piece]))
        values[moved[piece]] = results[done : done + count]
        done += count
        yield values
