"""Writing volumes: to a file, piece by piece, or to an array or nibabel image in memory.

A file is never held in memory as a whole, and appears complete or not at all.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nibabel.nifti1 import Nifti1Header, Nifti1Image
from nibabel.nifti2 import Nifti2Header, Nifti2Image
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, check_new, new_file, sync
from ndflow.files.stream import GzipWriter
from ndflow.image.read import kind_of
from ndflow.image.volume import Header, Volume, slices
from ndflow.values import FloatArray

_LONGEST_AXIS = 32767  # of NIfTI-1


class Written(NamedTuple):
    """The outcome of `write_volume`.

    Attributes
    ----------
    clipped : the number of values that the type could not hold: those beyond its range became the
        nearest end of the range, and NaN became 0 in integer types.
    sha256 : the hash of what the file holds, decompressed, by its path.
    """

    clipped: int
    sha256: dict[Path, str]


def check_output(path: AnyPath, *, force: bool = False, inputs: Iterable[AnyPath] = ()) -> None:
    """Raise, before any work, the error that `write_volume` would raise; parameters as there."""
    if kind_of(os.fspath(path)) != ".nii":
        cause = "its name does not end like that of a NIfTI image"
        raise FileError(path, cause, "end it with .nii.gz, or with / if it is a folder")
    check_new(path, force=force, inputs=inputs)


def write_volume(
    path: AnyPath,
    like: Volume,
    chunks: Iterable[NDArray[Any]],
    *,
    dtype: str = "float32",
    scaling: tuple[float, float] = (1.0, 0.0),
    force: bool = False,
    inputs: Iterable[AnyPath] = (),
    pending: ExitStack | None = None,
) -> Written:
    """Write an image with the geometry and the header of another.

    Parameters
    ----------
    path : the file, whose name says whether it is compressed: .nii or .nii.gz.
    like : the other image.
    chunks : the values, flattened like `Volume.flat`, in consecutive pieces of any length.
    dtype : the type of the voxels, a real one of 64 bits at most.
    scaling : slope and intercept for the header: `chunks` are the stored values, and a value is
        ``slope · stored + intercept``.
    force : whether an existing file may be replaced.
    inputs : files that must not be replaced, even with `force`; those of `like` never are.
    pending : the image appears under its name when this is closed, and not at all if that is due to
        an error; by default, at once. So a record can be written first.

    Returns
    -------
    written : how many values were clipped, and the hashes of the files.

    Raises
    ------
    FileError : if a file may not or cannot be written.
    InvalidValueError : if `chunks` do not hold one value per voxel.
    """
    name, keep = os.fspath(path), (*inputs, *(read.file for read in like.files))
    check_output(path, force=force, inputs=keep)
    header, head = nifti_header(like, dtype, scaling=scaling), io.BytesIO()
    header.write_to(head)
    stored = np.dtype(dtype).newbyteorder(header.endianness)
    clipped = 0
    with ExitStack() as own:
        file = (pending or own).enter_context(new_file(path, force=force, inputs=keep))
        writer = GzipWriter(file) if name.lower().endswith(".gz") else file
        writer.write(head.getvalue())
        hashed = hashlib.sha256(head.getvalue())
        for piece, count in _cast_chunks(chunks, like.flat.size, stored):
            data = piece.view(np.uint8).data
            writer.write(data)
            hashed.update(data)
            clipped += count
        if isinstance(writer, GzipWriter):
            writer.finish()
        sync(file)
    return Written(clipped, {Path(path): hashed.hexdigest()})


def make_array(
    like: Volume, chunks: Iterable[NDArray[Any]], *, dtype: str = "float32"
) -> tuple[NDArray[Any], int]:
    """Make an array of the shape of an image; parameters as for `write_volume`.

    Returns
    -------
    array : the values.
    clipped : see `Written`.
    """
    kind = np.dtype(dtype)
    flat = np.empty(like.flat.size, kind)
    start = clipped = 0
    for piece, count in _cast_chunks(chunks, flat.size, kind):
        flat[start : start + piece.size] = piece
        start, clipped = start + piece.size, clipped + count
    return flat.reshape(like.shape, order="F"), clipped


def make_image(
    like: Volume, chunks: Iterable[NDArray[Any]], *, dtype: str = "float32"
) -> tuple[SpatialImage, int]:
    """Make a NIfTI image with the geometry and the header of another; otherwise as `make_array`.

    Returns
    -------
    image : of nibabel.
    clipped : see `Written`.
    """
    header = nifti_header(like, dtype)
    kind: Any = Nifti2Image if isinstance(header, Nifti2Header) else Nifti1Image
    array, clipped = make_array(like, chunks, dtype=dtype)
    return kind(array, header.get_best_affine(), header), clipped


def cast_to(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
    """Convert values to another type: rounded to integers, and clipped to its range.

    Returns
    -------
    values : in the new type.
    clipped : how many values the type could not hold, see `Written`.
    """
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
    # Not `> high`: as a double, 2**63 - 1 becomes 2**63. But high + 1 is a double for every type.
    below, above = values < low, values >= high + 1
    fits = (values >= low) & ~above
    result = np.zeros(values.shape, dtype)
    result[fits] = values[fits].astype(dtype)
    result[below], result[above] = low, high
    return result, int(values.size - np.count_nonzero(fits))


def _cast_chunks(
    chunks: Iterable[NDArray[Any]], size: int, dtype: np.dtype[Any]
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield small pieces in another type, and the number of clipped values in each."""
    left = size
    for chunk in chunks:
        flat = np.asarray(chunk).reshape(-1, order="F")
        left -= flat.size
        if left < 0:
            break
        for piece in slices(flat.size):
            yield cast_to(flat[piece], dtype)
    if left:
        wrong = "more" if left < 0 else f"{left} fewer"
        raise InvalidValueError(f"chunks hold {wrong} values than the {size} voxels of the image")


# ── headers ───────────────────────────────────────────────────────────────────────────────────────


def new_nifti(shape: tuple[int, ...], affine: FloatArray, code: str) -> Header:
    """Return a NIfTI header for an image that has none, with a code of nibabel for its affine."""
    header: Any = Nifti2Header() if max(shape) > _LONGEST_AXIS else Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_shape(shape)
    header.set_sform(affine, code)
    header.set_qform(affine, code)
    header.set_xyzt_units("mm")
    return header


def nifti_header(like: Volume, dtype: str, *, scaling: tuple[float, float] = (1.0, 0.0)) -> Header:
    """Return a NIfTI header for a new image with the geometry of another.

    Parameters
    ----------
    like : the other image. All of a NIfTI header is kept except the type of the voxels, their
        scaling and the display range (``cal_min``, ``cal_max``).
    dtype : the type of the new voxels.
    scaling : slope and intercept of the new voxels.
    """
    header = like.header
    if not isinstance(header, Nifti1Header):
        header = new_nifti(like.shape, like.affine, "scanner" if like.placed else "aligned")
    kind: Any = Nifti2Header if isinstance(header, Nifti2Header) else Nifti1Header
    new = kind(header.binaryblock, header.endianness, False, header.extensions)
    new["magic"] = new.single_magic
    new.set_data_dtype(np.dtype(dtype))
    new["vox_offset"] = 0  # nibabel adds the length of the extensions
    new["scl_slope"], new["scl_inter"] = scaling
    new["cal_min"] = new["cal_max"] = 0
    return new
