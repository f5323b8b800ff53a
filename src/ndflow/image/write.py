"""Images written piece by piece, never whole in memory, and complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, Hashed, check_new, new_file, sync
from ndflow.files.gzip import GzipWriter, gzip_writer, is_compressed
from ndflow.image.formats import IMAGE_KINDS, kind_of, pair_names
from ndflow.image.new_headers import MGH_TYPES, mgh_ends, nifti_head
from ndflow.image.volume import PIECE, Volume

__all__ = ["DTYPES", "Written", "cast_chunks", "cast_to", "check_output", "write_volume"]

_INTEGERS = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
DTYPES = ("float32", "float64", *_INTEGERS)


class Written(NamedTuple):
    """What was written.

    Attributes
    ----------
    clipped : the number of values that did not fit the type, and became the nearest that does:
        beyond its range, or NaN where the type has none (stored as 0).
    sha256 : of each file.
    """

    clipped: int
    sha256: tuple[str, ...]


def check_output(
    path: AnyPath, *, dtype: str = "float32", force: bool = False, inputs: Iterable[AnyPath] = ()
) -> None:
    """Say now what `write_volume` would say at the end; the parameters are the same."""
    inputs = tuple(inputs)
    names = _files(path)
    if kind_of(names[0]) == ".mgh" and dtype not in MGH_TYPES:
        cause = f"MGH files know no {dtype}"
        raise FileError(path, cause, f"use {', '.join(MGH_TYPES)}, or write NIfTI")
    for name in names:
        check_new(name, force=force, inputs=inputs)


def write_volume(
    path: AnyPath,
    like: Volume,
    chunks: Iterable[NDArray[Any]],
    *,
    dtype: str = "float32",
    force: bool = False,
    inputs: Iterable[AnyPath] = (),
    then: Callable[[Written], None] | None = None,
) -> Written:
    """Write an image with the geometry and the header of another.

    Parameters
    ----------
    path : where to; the name tells the format (.nii, .hdr, .img, .mgh, each also compressed).
    like : the other image.
    chunks : the values, flattened like `Volume.flat`, in consecutive pieces of any length.
    dtype : the type of a voxel, one of `DTYPES`. Values are stored as they are, unscaled.
    force : whether another file may be replaced.
    inputs : files that must not be replaced; those of `like` never are.
    then : called with the result when all is on the disc, just before the image takes its name;
        so that what belongs to the image can be written, or both not.

    """
    if dtype not in DTYPES:
        raise InvalidValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    names = _files(path)
    geometry = (like.header, like.shape, like.affine, np.dtype(dtype))
    tail = b""
    if kind_of(names[0]) == ".mgh":
        head, stored, tail = mgh_ends(*geometry)
    else:
        head, stored = nifti_head(*geometry, single=len(names) == 1)
    keep = (*inputs, *like.files)
    clipped = 0
    with ExitStack() as stack:
        files = [stack.enter_context(new_file(n, force=force, inputs=keep)) for n in names]
        hashed = [Hashed(file) for file in files]
        with ExitStack() as packers:
            writers: list[Hashed | GzipWriter] = [
                packers.enter_context(gzip_writer(file)) if is_compressed(name) else file
                for name, file in zip(names, hashed, strict=True)
            ]
            writers[0].write(head)
            for piece, changed in cast_chunks(chunks, like.flat.size, stored):
                writers[-1].write(piece.view(np.uint8).data)
                clipped += changed
            writers[-1].write(tail)
        written = Written(clipped, tuple(file.digest() for file in hashed))
        if then is not None:
            for file in files:
                sync(file)
            then(written)
    return written


def cast_chunks(
    chunks: Iterable[NDArray[Any]], size: int, dtype: np.dtype[Any]
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield small pieces in another type, and how many values of each did not fit."""
    left = size
    for chunk in chunks:
        flat = np.asarray(chunk).reshape(-1, order="F")
        left -= flat.size
        if left < 0:
            break
        for start in range(0, flat.size, PIECE):
            yield cast_to(flat[start : start + PIECE], dtype)
    if left:
        wrong = "more" if left < 0 else f"{left} fewer"
        raise InvalidValueError(f"chunks hold {wrong} values than the {size} voxels of the image")


def cast_to(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
    """Return values in another type, rounded and clipped, and how many of them were clipped."""
    if values.dtype == dtype:
        return np.ascontiguousarray(values), 0
    if values.dtype.kind not in "buif":
        raise InvalidValueError(f"chunks must hold real numbers, not {values.dtype}")
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    if dtype.kind == "f":
        limit = np.finfo(dtype).max
        beyond = np.isfinite(values) & (np.abs(values) > limit)
        if beyond.any():
            values = np.where(beyond, np.copysign(limit, values), values)
        return values.astype(dtype), int(np.count_nonzero(beyond))
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if values.dtype.kind == "f":
        values = np.rint(values.astype(np.float64))
    # Not `> high`: as a double, 2**63 - 1 is 2**63. Its successor is a double, for every type.
    below, above, missing = values < low, values >= high + 1, np.isnan(values)
    fits = ~(below | above | missing)
    result = np.zeros(values.shape, dtype)
    result[fits] = values[fits].astype(dtype)
    result[below], result[above] = low, high
    return result, int(values.size - np.count_nonzero(fits))


def _files(path: AnyPath) -> tuple[str, ...]:
    """Return the files that make an image: one, or header and data."""
    name = os.fspath(path)
    if kind_of(name) not in IMAGE_KINDS:
        raise FileError(
            path,
            "its name tells no image format",
            "end it with .nii.gz, or with / if it is a folder",
        )
    return pair_names(name) or (name,)
