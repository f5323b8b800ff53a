"""Reading volumes: from files, nibabel images and arrays; and image formats by file name."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader, MGHImage
from nibabel.nifti1 import Nifti1Pair
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import DEFAULT_MAX_BYTES, is_compressed, open_stream, sha256_of
from ndflow.image.headers import (
    MOST_AFTER,
    MOST_BYTES,
    affine_of,
    new_nifti,
    read_header,
    refuse_other_type,
    shape_problem,
    whole_header,
    without_voxels,
)
from ndflow.image.volume import Header, Volume
from ndflow.values import FloatArray

Source = str | os.PathLike[str] | NDArray[Any] | SpatialImage
IMAGE_KINDS = (".nii", ".hdr", ".img", ".mgh")  # also compressed: .gz, and .mgz for .mgh.gz


def read_volume(
    source: Source, *, max_bytes: int = DEFAULT_MAX_BYTES, called: str = "the image"
) -> Volume:
    """Read one volume from a file, a nibabel image or an array.

    Parameters
    ----------
    source : a path (.nii, .hdr, .img or .mgh, also compressed), a nibabel image, or an array.
    max_bytes : the largest content of a file, decompressed, that is accepted.
    called : what messages call an image that has no file.

    Returns
    -------
    volume : the voxels as they are stored, with header and affine. An array has the identity as its
        affine, and is not ``placed``.

    Raises
    ------
    FileError : if a file cannot be read, is damaged, or does not hold one volume of real numbers.
    InvalidValueError : if an array or an image in memory is not such a volume.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source, called)
    if isinstance(source, SpatialImage):
        return _from_image(source, called)
    path = _path(source)
    head, data = pair_names(path) or (path, path)
    files = []
    with ExitStack() as stack:
        stream = stack.enter_context(open_stream(head, max_bytes=max_bytes))
        header, gap = read_header(stream, single=head == data)
        if head == data:
            before = stream.read(gap, "header extensions").tobytes()
        else:
            before = stream.finish(MOST_BYTES)
            files.append(FileHash(head, stream.sha256))
            stream = stack.enter_context(open_stream(data, max_bytes=max_bytes))
            stream.read(gap, "gap before the voxels")
        shape, dtype = _shape(header), header.get_data_dtype()
        voxels = stream.read(math.prod(shape) * dtype.itemsize, "voxels")
        stored = voxels.view(dtype).reshape(shape, order="F")
        after = stream.finish(MOST_AFTER)
        files.append(FileHash(data, stream.sha256))
    header = whole_header(path, header, before, after)
    if isinstance(header, MGHHeader):
        refuse_other_type(path, stored)
    slope, inter = header.get_slope_inter()
    if slope is None:
        slope, inter = 1.0, 0.0
    return Volume(path, tuple(files), stored, slope, inter, header, affine_of(path, header))


class Grid(NamedTuple):
    """Where the voxels of an image lie, see `Volume`."""

    path: str
    shape: tuple[int, ...]
    affine: FloatArray
    placed: bool

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        """The length of each spatial axis, without the axes of length 1 that may follow."""
        return self.shape[:3]


def read_grid(source: Source, *, called: str = "the image") -> Grid:
    """Return where the voxels of an image lie, from its header alone; see `read_volume`."""
    if isinstance(source, np.ndarray):
        _refuse_array(called, source)
        return Grid(called, source.shape, np.eye(4), placed=False)
    if isinstance(source, SpatialImage):
        name = source.get_filename() or called
        affine = affine_of(name, source.header) if source.affine is None else source.affine
        return Grid(name, source.shape, np.asarray(affine, dtype=np.float64), placed=True)
    path = _path(source)
    head, data = pair_names(path) or (path, path)
    with open_stream(head) as stream:
        header, _ = read_header(stream, single=head == data)
    return Grid(path, _shape(header), affine_of(path, header), placed=True)


def _shape(header: Header) -> tuple[int, ...]:
    return tuple(int(length) for length in header.get_data_shape())


def files_of(source: Source) -> tuple[str, ...]:
    """Return the files that an image is read from: none, one, or a pair of header and data."""
    if isinstance(source, np.ndarray):
        return ()
    if isinstance(source, SpatialImage):
        holders = (source.file_map or {}).values()
        return tuple(str(holder.filename) for holder in holders if holder.filename)
    path = _path(source)
    return pair_names(path) or (path,)


def _path(source: str | os.PathLike[str]) -> str:
    if not isinstance(source, str | os.PathLike):
        raise InvalidValueError(
            f"an image must be a path, a nibabel image or an array, not {type(source).__name__}"
        )
    return os.fspath(source)


def _from_array(array: NDArray[Any], called: str) -> Volume:
    _refuse_array(called, array)
    header = new_nifti(array.shape, np.eye(4))
    return Volume(called, (), _fortran(array), 1.0, 0.0, header, np.eye(4), placed=False)


def _from_image(image: SpatialImage, called: str) -> Volume:
    name = image.get_filename() or called
    data: Any = image.dataobj
    slope, inter = 1.0, 0.0
    files: tuple[FileHash, ...] = ()  # what is in memory may differ from the file it came from
    try:
        if hasattr(data, "get_unscaled"):  # not loaded yet: read it without scaling
            files = _hashed(image)
            slope, inter = float(data.slope), float(data.inter)
            data = data.get_unscaled()
            if _hashed(image) != files:
                raise FileError(name, "changed while it was read", "try again when it is complete")
        array = np.asanyarray(data)
    except (OSError, EOFError, ValueError) as error:
        raise FileError(name, f"cannot be read ({error})", "copy or download it again") from None
    _refuse_array(name, array)
    affine = read_grid(image, called=called).affine
    if not np.isfinite(affine).all():
        raise InvalidValueError(f"{name}: its affine is not finite; correct it")
    if isinstance(image, Nifti1Pair | MGHImage):  # nibabel makes the header agree with the image
        header = type(image)(without_voxels(array.shape), affine, image.header).header
    else:
        header = new_nifti(array.shape, affine)
    place = affine_of(name, header)
    return Volume(name, files, _fortran(array), slope, inter, header, place)


def _hashed(image: SpatialImage) -> tuple[FileHash, ...]:
    return tuple(FileHash(name, sha256_of(name)) for name in files_of(image))


def _refuse_array(name: str, array: NDArray[Any]) -> None:
    if problem := shape_problem(array.shape):
        raise InvalidValueError(f"{name}: {'; '.join(problem)}")
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise InvalidValueError(f"{name} holds {array.dtype}; convert it to float32 first")


def _fortran(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view in Fortran order; a copy if the order differs or the array maps a file."""
    plain = np.array(array, order="F") if isinstance(array, np.memmap) else np.asarray(array)
    return np.asfortranarray(plain.view(np.uint8) if plain.dtype == bool else plain).view()


# ── names of files ────────────────────────────────────────────────────────────────────────────────


def kind_of(name: str) -> str:
    """Return the extension of a file without that of its compression, in lower case.

    >>> kind_of("T1.NII.GZ"), kind_of("T1.mgz")
    ('.nii', '.mgh')
    """
    plain = name.lower().removesuffix(".gz")
    return ".mgh" if plain.endswith(".mgz") else Path(plain).suffix


def pair_names(name: str) -> tuple[str, str] | None:
    """Return the names of header and data if a file is one of such a pair, or None.

    >>> pair_names("T1.img.gz")
    ('T1.hdr.gz', 'T1.img.gz')
    """
    if kind_of(name) not in (".hdr", ".img"):
        return None
    compression = name[-3:] if is_compressed(name) else ""
    base = name.removesuffix(compression)
    upper = base[-4:].isupper()
    header, data = (base[:-4] + (kind.upper() if upper else kind) for kind in (".hdr", ".img"))
    return header + compression, data + compression
