"""The voxels of an image, mapped piece by piece.

Integer images of an ordinary range go through a look-up table: the map is evaluated once for each
integer that can occur, already in the data type of the result. Other images are computed voxel by
voxel, through a linear interpolant of the map where the result has no more than 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.image.mask import BoolArray, Inside, Nonzero
from ndflow.image.read import read_volume
from ndflow.image.volume import Volume
from ndflow.image.write import cast_to, make_array
from ndflow.options import Options, Outside
from ndflow.subject.voxels import Voxels, finite_in_all, zero_in_all
from ndflow.transport import IntensityMap, LinearInterpolant, linear_interpolant

Pieces = Iterator[NDArray[Any]]  # of mapped voxels, in the order of `Volume.flat`

_PIECE = 1 << 16  # voxels at a time: few enough for a processor's cache
_LARGEST = np.finfo(np.float64).max
_EXACT = 1 << 53  # up to here doubles represent every integer
_LONGEST = 1 << 18  # entries of a look-up table; more would cost more than they save
_MANY = 1 << 15  # voxels that are worth the search for a linear interpolant
_SAMPLE, _FEWEST = 1 << 16, 100  # voxels to sample for the range, and the least of them
_BULK, _REACH = (0.005, 0.995), 0.5  # their quantiles, and how far the interpolant extends


class _Tables(NamedTuple):
    """The results of the integers from `first` on, inside the mask and outside.

    Where the two differ in a single integer only, `apart` is that integer.
    """

    first: int
    inner: NDArray[Any]
    outer: NDArray[Any]
    apart: int | None


def mapped(
    volume: Volume,
    imap: IntensityMap,
    inside: Inside,
    outside: Outside | None,
    dtype: str = "float64",
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
    """
    if volume.stored.dtype.kind in "bui":
        first, last = int(volume.stored.min()), int(volume.stored.max())
        if last - first < _LONGEST and max(-first, last) <= _EXACT:
            tables = _tables(volume, imap, first, last, outside, np.dtype(dtype))
            return _looked_up(volume, inside, tables)
    return _computed(volume, imap, inside, outside, rounded=dtype == "float32")


def _tables(
    volume: Volume,
    imap: IntensityMap,
    first: int,
    last: int,
    outside: Outside | None,
    dtype: np.dtype[Any],
) -> _Tables:
    values = volume.values(np.arange(first, last + 1, dtype=np.int64))
    inner = _through(imap, values.astype(np.float64))
    outer, apart = inner, None
    if outside is None:
        zero = volume.is_zero(values)
        outer = np.where(zero, 0.0, inner)
        if np.count_nonzero(zero) == 1:
            apart = first + int(np.argmax(zero))
    elif outside != "map":
        outer = values.astype(np.float64) if outside == "keep" else np.zeros_like(inner)
    typed = [cast_to(table, dtype) for table in (inner, outer)]
    if any(clipped for _, clipped in typed):
        return _Tables(first, inner, outer, apart)
    return _Tables(first, typed[0][0], typed[1][0], apart)


def _looked_up(volume: Volume, inside: Inside, tables: _Tables) -> Iterator[NDArray[Any]]:
    flat = volume.flat
    never = tables.apart is not None and isinstance(inside, Nonzero)  # that integer is inside
    for start in range(0, flat.size, _PIECE):
        stored = flat[start : start + _PIECE]
        places = stored.astype(np.intp)
        if tables.first:
            places -= tables.first
        if never:
            yield tables.outer.take(places)
            continue
        within = inside[start : start + _PIECE]
        affected = within if tables.apart is None else within & (stored == tables.apart)
        if not affected.any():
            yield tables.outer.take(places)
            continue
        result = tables.inner.take(places)
        if not within.all():
            np.copyto(result, tables.outer.take(places), where=~within)
        yield result


def _computed(
    volume: Volume,
    imap: IntensityMap,
    inside: Inside,
    outside: Outside | None,
    *,
    rounded: bool,
) -> Iterator[NDArray[Any]]:
    flat = volume.flat
    through = None
    if rounded and flat.size >= _MANY:
        through = _interpolant(imap, volume.values(flat[:: _step(flat.size)]))
    for start in range(0, flat.size, _PIECE):
        values, within = volume.values(flat[start : start + _PIECE]), inside[start : start + _PIECE]
        result = values.astype(np.float64)
        moved = np.isfinite(values)
        if outside is None:
            still = ~within & volume.is_zero(values)
            result[still] = 0.0
            moved &= ~still
        elif outside != "map":
            moved &= within
            if outside == "zero":
                result[~within] = 0.0
        where = np.flatnonzero(moved)
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


def _step(size: int) -> int:
    """Return every how many voxels one is sampled."""
    return max(1, size // _SAMPLE)


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


def map_array(
    voxels: NDArray[Any], imap: IntensityMap, mask: BoolArray | None, outside: Outside | None
) -> NDArray[np.float32]:
    """Map an array in memory to 32-bit floats, as `mapped` does, but without putting it in order.

    An array of floats is not copied: only the voxels that a map moves are taken out of it.

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
    if voxels.dtype.kind == "f":
        return _mapped_floats(voxels, imap, mask, outside)
    # Short integers are all looked up, one by one, so that their order makes no difference.
    short = voxels.dtype.itemsize <= np.dtype(np.int16).itemsize
    turned = short and voxels.flags.c_contiguous and voxels.ndim <= 3
    volume = read_volume(voxels.T if turned else voxels)
    inside: Inside = Nonzero(volume)
    if mask is not None:
        inside = (mask.T if turned else mask).reshape(-1, order="F")
    result, _ = make_array(volume, mapped(volume, imap, inside, outside, "float32"))
    return result.T if turned else result


def _mapped_floats(
    voxels: NDArray[Any], imap: IntensityMap, mask: BoolArray | None, outside: Outside | None
) -> NDArray[np.float32]:
    order: Literal["C", "F"] = "F" if voxels.flags.f_contiguous else "C"
    flat = voxels.reshape(-1, order=order)
    inside = None if mask is None else mask.reshape(-1, order=order)
    result = np.zeros(flat.size, np.float32)
    if outside == "keep":
        result, _ = cast_to(flat, result.dtype)
        result = result.copy() if np.shares_memory(result, flat) else result
    through = None
    if flat.size >= _MANY:
        places = np.unravel_index(np.arange(0, flat.size, _step(flat.size)), voxels.shape, "F")
        through = _interpolant(imap, voxels[places])
    moved = _moved(flat, inside, outside)
    for start in range(0, moved.size, _PIECE):
        piece = moved[start : start + _PIECE]
        values = flat.take(piece).astype(np.float64)
        finite = np.isfinite(values)
        if finite.all():
            values = _through(imap, values, through)
        else:
            values[finite] = _through(imap, values[finite], through)
        result[piece], _ = cast_to(values, result.dtype)
    return result.reshape(voxels.shape, order=order)


def _moved(
    flat: NDArray[Any], inside: BoolArray | None, outside: Outside | None
) -> NDArray[np.intp]:
    """Return the places of the voxels that a map moves, if they are finite."""
    if outside == "map":
        return np.arange(flat.size)
    if outside is None:
        return np.flatnonzero(flat != 0 if inside is None else inside | (flat != 0))
    return np.flatnonzero((flat != 0) & np.isfinite(flat) if inside is None else inside)


# ── several channels ──────────────────────────────────────────────────────────────────────────────
# The voxels of several channels, mapped together.
#
# All channels of a voxel are needed to map any of them, so the results of all channels are computed
# before the first of them is written: eight bytes per mapped voxel and channel.


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
    finite, within = finite_in_all(volumes), voxels.inside[:]
    cleared = np.zeros_like(finite)
    if outside is None:
        cleared = ~within & zero_in_all(volumes)
        moved = finite & ~cleared
    elif outside == "map":
        moved = finite
    else:
        moved = finite & within
        if outside == "zero":
            cleared = ~within
    results = _results(volumes, imap, moved)
    return [
        _pieces(volume, moved, cleared, results[:, place]) for place, volume in enumerate(volumes)
    ]


def _results(
    volumes: Sequence[Volume], imap: IntensityMap, moved: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Map the voxels that move, all channels of a piece at a time, (n, d)."""
    results = np.empty((int(np.count_nonzero(moved)), len(volumes)))
    done = 0
    for start in range(0, moved.size, _PIECE):
        piece = slice(start, start + _PIECE)
        chosen = moved[piece]
        points = np.stack(
            [volume.values(volume.flat[piece][chosen]).astype(np.float64) for volume in volumes],
            axis=1,
        )
        if len(points):
            with np.errstate(over="ignore", invalid="ignore"):
                # Finite values stay finite; the writer counts those that its type cannot hold.
                results[done : done + len(points)] = np.clip(imap(points), -_LARGEST, _LARGEST)
        done += len(points)
    return results


def _pieces(
    volume: Volume,
    moved: NDArray[np.bool_],
    cleared: NDArray[np.bool_],
    results: NDArray[np.float64],
) -> Iterator[NDArray[Any]]:
    done = 0
    for start in range(0, moved.size, _PIECE):
        piece = slice(start, start + _PIECE)
        values = volume.values(volume.flat[piece]).astype(np.float64)
        values[cleared[piece]] = 0.0
        count = int(np.count_nonzero(moved[piece]))
        values[moved[piece]] = results[done : done + count]
        done += count
        yield values
