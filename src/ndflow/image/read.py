"""Reading volumes: from files, nibabel images and arrays; and image formats by file name.

NIfTI-1 and NIfTI-2 are read in both byte orders, and FreeSurfer's MGH. nibabel takes the fields of
a header apart; nothing in them is believed, and no memory is spent on what they announce, before it
has been checked.

An MGH file begins with a header of fixed size. After the voxels come a footer of five numbers (TR,
flip angle, TE, TI and field of view), which nibabel counts as part of the header, and tags of
FreeSurfer (command lines, a colour table), each with a small number. Both may be missing, but
nothing else may follow: a damaged header can give fewer voxels than there are, and then the rest of
them would be taken for a footer. Everything is big-endian.
"""

from __future__ import annotations

import logging
import math
import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1Pair, data_type_codes, xform_codes
from nibabel.nifti2 import Nifti2Header
from nibabel.spatialimages import HeaderDataError, SpatialImage
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import DEFAULT_MAX_BYTES, FileHash, Stream, open_stream, sha256_of
from ndflow.image.volume import Header, Volume
from ndflow.values import FloatArray

Source = str | os.PathLike[str] | NDArray[Any] | SpatialImage
IMAGE_KINDS = (".nii", ".mgh")  # also compressed: .gz, and .mgz for .mgh.gz
_MGH_START, _MGH_BYTES = 284, 90  # the offset of the first voxel, and bytes of the header in use

# Brains alone, of 64-bit floats, take up to 80 times as much memory as their files; label images,
# which may be larger, some hundred times. No scan of that many voxels is as empty.
_ANYWAY, _MOST_TIMES = 1 << 28, 100  # bytes, whatever the size of the file; or times its size
_MOST_BEFORE = 1 << 26  # bytes before the voxels: a header with all its extensions
_MOST_AFTER = 1 << 20  # bytes after the voxels; a colour table takes 100,000
_DAMAGED = "its header is damaged: copy or download it again"
_CONVERT = "convert it to a real-valued image first, one for each part or colour"
_NIFTI = {348: Nifti1Header, 540: Nifti2Header}  # by the size of the fixed part
_MGH_VERSION = b"\0\0\0\1"  # the only one; every file begins with it
_FOOTER_BYTES = 20
_PLAUSIBLE = 1e-6, 1e9  # magnitudes of the numbers in a footer, if they are not 0
_LAST_TAG = 255  # the highest that FreeSurfer has given out is below 50
_PADDING = 4096  # most zeros at the end of a file

# nibabel logs what it corrects in a header; silent unless the application configures logging.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


def read_volume(
    source: Source,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    called: str = "the image",
    like: Volume | None = None,
) -> Volume:
    """Read one volume from a file, a nibabel image or an array.

    Parameters
    ----------
    source : a path (.nii or .mgh, also compressed), a nibabel image, or an array.
    max_bytes : the largest content of a file, decompressed, that is accepted.
    called : what messages call an image that has no file.
    like : the image whose shape it must have, as masks must. Nothing is decompressed before that is
        known. Without it, a large volume must not be much larger than its file.

    Returns
    -------
    volume : the voxels as they are stored, with header and affine. An array has the identity as its
        affine, and is not ``placed``.

    Raises
    ------
    FileError : if a file cannot be read, is damaged, does not hold one volume of real numbers, or
        has another shape.
    InvalidValueError : if an array or an image in memory is not such a volume.
    """
    if isinstance(source, np.ndarray | SpatialImage):
        grid = read_grid(source, called=called)
        refuse_other_shape(grid.path, source.shape, like)
        if isinstance(source, SpatialImage):
            return _from_image(source, grid)
        return replace(grid, stored=_fortran(source))
    path = _path_of(source)
    with open_stream(path, max_bytes=max_bytes) as stream:
        header, gap = _read_header(stream)
        before = stream.read(gap, "header extensions").tobytes()
        shape, dtype = _shape(header), header.get_data_dtype()
        refuse_other_shape(path, shape, like)
        size = math.prod(shape) * dtype.itemsize
        most = stream.capacity if like else max(_ANYWAY, _MOST_TIMES * stream.size)
        if most < size <= stream.capacity:
            cause = f"its voxels take {size:,} bytes, {size // stream.size} times those of the file"
            raise FileError(path, cause, "no scan is so empty; if this one is, decompress it")
        voxels = stream.read(size, "voxels")
        stored = voxels.view(dtype).reshape(shape, order="F")
        after = stream.finish(_MOST_AFTER)
        file = FileHash(path, stream.sha256)
    header = _whole_header(path, header, before, after)
    slope, inter = header.get_slope_inter()
    if slope is None:
        slope, inter = 1.0, 0.0
    return Volume(path, (file,), stored, slope, inter, header, _affine(path, header))


def read_grid(source: Source, *, called: str = "the image") -> Volume:
    """Return an image without its voxels, from the header alone; see `read_volume`."""
    if isinstance(source, np.ndarray):
        _refuse_array(called, source)
        empty = _no_voxels(source.shape)
        return Volume(called, (), empty, 1.0, 0.0, None, np.eye(4), placed=False)
    if isinstance(source, SpatialImage):
        name, shape, header = source.get_filename() or called, source.shape, source.header
        affine = _affine(name, header) if source.affine is None else np.array(source.affine, float)
    else:
        name = _path_of(source)
        with open_stream(name) as stream:
            header, _ = _read_header(stream)
        shape, affine = _shape(header), _affine(name, header)
    return Volume(name, (), _no_voxels(shape), 1.0, 0.0, header, affine)


def refuse_other_shape(path: str, shape: tuple[int, ...], like: Volume | None) -> None:
    """Refuse a mask, a tissue probability map or a channel without the shape of its image."""
    if like is not None and shape[:3] != like.spatial_shape:
        cause = f"has the shape {shape[:3]}, but {like.path} {like.spatial_shape}"
        hint = "resample it onto the grid of that image, which is not done here"
        raise FileError(path, cause, hint)


def _no_voxels(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    return np.broadcast_to(np.uint8(0), shape)  # takes no memory


def files_of(source: Source) -> tuple[str, ...]:
    """Return the files that an image is read from; those of a nibabel image may be two."""
    if isinstance(source, np.ndarray):
        return ()
    if isinstance(source, SpatialImage):
        holders = (source.file_map or {}).values()
        return tuple(str(holder.filename) for holder in holders if holder.filename)
    return (_path_of(source),)


# ── images in memory ──────────────────────────────────────────────────────────────────────────────


def _from_image(image: SpatialImage, grid: Volume) -> Volume:
    name, affine = grid.path, grid.affine
    data: Any = image.dataobj
    slope, inter = 1.0, 0.0
    files: tuple[FileHash, ...] = ()  # what is in memory may differ from the file it came from
    try:
        if hasattr(data, "get_unscaled"):  # not loaded yet: read it without scaling
            files = tuple(FileHash(file, sha256_of(file)) for file in files_of(image))
            slope, inter = float(data.slope), float(data.inter)
            data = data.get_unscaled()
        array = np.asanyarray(data)
    except (OSError, EOFError, ValueError) as error:
        raise FileError(name, f"cannot be read ({error})", "copy or download it again") from None
    _refuse_array(name, array)
    if not np.isfinite(affine).all():
        raise InvalidValueError(f"{name}: its affine is not finite; correct it")
    header = None
    if isinstance(image, Nifti1Pair):  # nibabel makes the header agree with the image
        header = type(image)(_no_voxels(array.shape), affine, image.header).header
        affine = _affine(name, header)
    return Volume(name, files, _fortran(array), slope, inter, header, affine)


def _refuse_array(name: str, array: NDArray[Any]) -> None:
    if problem := _shape_problem(array.shape):
        raise InvalidValueError(f"{name}: {'; '.join(problem)}")
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise InvalidValueError(f"{name} holds {array.dtype}; convert it to float32 first")


def _fortran(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view in Fortran order; a copy if the order differs or the array maps a file."""
    plain = np.array(array, order="F") if isinstance(array, np.memmap) else np.asarray(array)
    return np.asfortranarray(plain.view(np.uint8) if plain.dtype == bool else plain).view()


# ── headers of files ──────────────────────────────────────────────────────────────────────────────


def _read_header(stream: Stream) -> tuple[Header, int]:
    """Read and check the fixed part of a header.

    Parameters
    ----------
    stream : the file, at its beginning.

    Returns
    -------
    header : nibabel's header, of the fixed part only.
    gap : how many bytes lie between the fixed part and the first voxel.

    Raises
    ------
    FileError : if the header is invalid, or not that of one volume of real numbers.
    """
    path = stream.path
    first = stream.read(4, "header").tobytes()
    orders = {int.from_bytes(first, "little"): "<", int.from_bytes(first, "big"): ">"}
    size = next((size for size in _NIFTI if size in orders), None)
    make: Any
    if size is not None:
        make = _NIFTI[size]
        block = first + stream.read(size - 4, "header").tobytes()
        header: Header = make(block, orders[size], check=False)
        shape, gap = _nifti_layout(path, header)
    elif first == _MGH_VERSION:
        make, gap = MGHHeader, 0
        header = make(first + stream.read(_MGH_START - 4, "header").tobytes()[: _MGH_BYTES - 4])
        shape = _shape(header)
    else:
        hint = "check that it is the right file, or convert it to NIfTI first"
        raise FileError(path, "neither NIfTI nor MGH", hint)
    if problem := _shape_problem(shape):
        raise FileError(path, *problem)
    _refuse_type(path, header)
    affine = _affine(path, header)
    is_mgh = size is None  # which stores directions, so that they must not be flat
    finite = np.isfinite(affine).all()
    if not finite or (is_mgh and np.linalg.matrix_rank(affine[:3, :3]) < 3):
        raise FileError(path, "its orientation is invalid: not finite, or flat", _DAMAGED)
    try:
        header.get_slope_inter()
        header.check_fix(_LOG, 40)
    except HeaderDataError as error:
        raise FileError(path, f"its header is invalid ({error})", _DAMAGED) from None
    return header, gap


def _nifti_layout(path: str, header: Header) -> tuple[tuple[int, ...], int]:
    """Check what only NIfTI has; return the shape, and the gap as `_read_header` does."""
    magic = bytes(header["magic"].item())
    if magic != header.single_magic:
        hint = "convert ANALYZE 7.5, and pairs of .hdr and .img, to a single .nii.gz"
        raise FileError(path, f"not a single NIfTI file: its magic is {magic!r}", hint)
    axes, *lengths = header["dim"].tolist()
    if not 1 <= axes <= 7:
        raise FileError(path, f"its header gives {axes} axes", _DAMAGED)
    # nibabel would take another orientation where the code is not known, and FSL would not.
    form = "sform_code" if header["sform_code"] != 0 else "qform_code"
    if int(header[form]) not in xform_codes.value_set("code"):
        raise FileError(path, f"its orientation has an unknown {form}, {header[form]}", _DAMAGED)
    least = header.single_vox_offset
    offset = float(header["vox_offset"]) or least
    if not (least <= offset <= _MOST_BEFORE and offset == int(offset)):
        ends = f"{least} is the least and {_MOST_BEFORE} the most"
        raise FileError(path, f"vox_offset is {offset:g}, where {ends}", _DAMAGED)
    return tuple(lengths[:axes]), int(offset) - header.sizeof_hdr


def _whole_header(path: str, header: Header, before: bytes, after: bytes) -> Header:
    """Complete a header with its extensions, and check what follows the voxels.

    Parameters
    ----------
    path : the file, for messages.
    header : of the fixed part.
    before : what lies between the fixed part and the voxels: header extensions of NIfTI.
    after : what follows the voxels, or the first `_MOST_AFTER` bytes of it.

    Raises
    ------
    FileError : if an extension is invalid, or something follows that is neither padding nor MGH's.
    """
    is_mgh = isinstance(header, MGHHeader)
    if after.strip(b"\0") if not is_mgh else not _is_mgh_end(after):
        cause = "holds more than the voxels that its header describes"
        raise FileError(path, cause, "its header is damaged, or belongs to another file")
    at = 4  # after four bytes of which the first says whether there are any
    while not is_mgh and before[:1].strip(b"\0") and len(before) - at >= 16:
        size, code = struct.unpack_from(header.endianness + "2i", before, at)
        if not 8 <= size <= len(before) - at:
            raise FileError(path, f"a header extension of {size} bytes", _DAMAGED)
        # Always the generic class: the others would try to parse the content.
        header.extensions.append(Nifti1Extension(code, before[at + 8 : at + size]))
        at += size
    return header


def _shape(header: Header) -> tuple[int, ...]:
    return tuple(int(length) for length in header.get_data_shape())


def _shape_problem(shape: tuple[int, ...]) -> tuple[str, str] | None:
    """Return what is wrong with a shape and what to try, or None for a single volume."""
    if not shape or min(shape) < 1:
        return f"an image of the shape {shape} has no voxels", _DAMAGED
    if math.prod(shape[3:]) > 1:
        several = f"{math.prod(shape[3:])} volumes in one image, of the shape {shape}"
        return several, "give one volume: extract it (fslroi), or average them (fslmaths -Tmean)"
    return None


def _affine(path: str, header: Header) -> FloatArray:
    """Return the affine from voxels to millimetres."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.array(header.get_best_affine(), dtype=np.float64)
    except (HeaderDataError, ValueError) as error:
        raise FileError(path, f"its orientation is invalid ({error})", _DAMAGED) from None


def _refuse_type(path: str, header: Header) -> None:
    """Refuse voxels that are not real numbers of 64 bits at most."""
    code = int(header["type" if isinstance(header, MGHHeader) else "datatype"])
    name = "unknown"
    with suppress(KeyError):
        dtype: np.dtype[Any] = header.get_data_dtype()
        if dtype.kind in "uif" and dtype.itemsize <= 8:
            return
        name = str(data_type_codes.label[code])
    raise FileError(path, f"its voxels are of the type {name} (code {code})", _CONVERT)


def _is_mgh_end(after: bytes) -> bool:
    """Return whether bytes can be a footer, of which the last number may lack, and tags."""
    footer, tags = after[:_FOOTER_BYTES], after[_FOOTER_BYTES:]
    if len(footer) % 4 or len(after) == _MOST_AFTER:
        return False
    sizes = np.abs(np.frombuffer(footer, ">f4"))
    low, high = _PLAUSIBLE
    plausible = bool(((sizes == 0) | ((sizes > low) & (sizes < high))).all())
    if not tags.strip(b"\0"):
        return plausible and len(tags) <= _PADDING
    return plausible and 0 < int.from_bytes(tags[:4]) <= _LAST_TAG


# ── names of files ────────────────────────────────────────────────────────────────────────────────


def kind_of(name: str) -> str:
    """Return the extension of a file without that of its compression, in lower case.

    >>> kind_of("T1.NII.GZ"), kind_of("T1.mgz")
    ('.nii', '.mgh')
    """
    plain = name.lower().removesuffix(".gz")
    return ".mgh" if plain.endswith(".mgz") else Path(plain).suffix


def _path_of(source: str | os.PathLike[str]) -> str:
    """Return the path of an image; refuse what is none."""
    if not isinstance(source, str | os.PathLike):
        raise InvalidValueError(
            f"an image must be a path, a nibabel image or an array, not {type(source).__name__}"
        )
    return os.fspath(source)
