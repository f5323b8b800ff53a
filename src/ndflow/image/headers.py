"""What the header of an image says, judged before it is believed and memory is spent.

nibabel's classes take the fields apart. The formats: NIfTI-1 and NIfTI-2, as one file or as a pair
of header and data, in both byte orders, and FreeSurfer's MGH.
"""

from __future__ import annotations

import logging
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1PairHeader
from nibabel.nifti1 import data_type_codes as nifti_types
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader
from nibabel.spatialimages import HeaderDataError

from ndflow.errors import FileError
from ndflow.values import FloatArray

__all__ = [
    "MGH_START",
    "MGH_VERSION",
    "Header",
    "Layout",
    "add_extensions",
    "affine_of",
    "header_size",
    "mgh_layout",
    "nifti_layout",
    "shape_problem",
    "with_footer",
]

Header = Any  # nibabel's headers carry no types

MGH_VERSION = b"\0\0\0\1"  # the only one, with which the file begins
MGH_START = 284  # the first byte of the first voxel, always

# Of each: the bytes a header begins with, its size, its magic and its class, alone and in a pair.
_NIFTI: tuple[tuple[int, dict[bool, bytes], dict[bool, Any]], ...] = (
    (348, {True: b"n+1", False: b"ni1"}, {True: Nifti1Header, False: Nifti1PairHeader}),
    (540, {True: b"n+2", False: b"ni2"}, {True: Nifti2Header, False: Nifti2PairHeader}),
)
_NIFTI_TYPES = {"float32", "float64"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
_MGH_BLOCK, _MGH_FOOTER = 90, 20  # used bytes before and behind the voxels
_MGH_TYPES = {0: ">u1", 1: ">i4", 3: ">f4", 4: ">i2", 10: ">u2"}
_MGH_NAMES = {2: "long", 5: "bitmap", 6: "tensor", 7: "complex", 8: "double complex", 9: "RGB"}
_DAMAGED = "its header is damaged: copy or download it again"
_CONVERT = "convert it to an image of plain numbers first, one for each part or colour"

# Where nibabel says what it mends; heard by those who listen, and nobody else.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True, eq=False)
class Layout:
    """Where in a file the voxels lie, and what they mean.

    Attributes
    ----------
    header : the header, without what may follow its fixed part.
    shape : the length of each axis, the first one varying fastest.
    dtype : the type of a voxel, with its byte order.
    start : the first byte of the first voxel.
    slope, inter : a value is ``slope · stored + inter``.
    """

    header: Header
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    slope: float = 1.0
    inter: float = 0.0

    @property
    def size(self) -> int:
        """The number of bytes of all voxels."""
        return math.prod(self.shape) * self.dtype.itemsize


def header_size(first: bytes) -> int | None:
    """Return the size of the NIfTI header that begins with these four bytes, if one does."""
    sizes = {int.from_bytes(first, "little"), int.from_bytes(first, "big")}
    return next((size for size, _, _ in _NIFTI if size in sizes), None)


def nifti_layout(path: str, block: bytes, *, single: bool) -> Layout:
    """Judge the fixed part of a NIfTI header, of a single file or of a pair."""
    size, magics, classes = next(row for row in _NIFTI if row[0] == len(block))
    endianness = "<" if int.from_bytes(block[:4], "little") == size else ">"
    header = classes[single](block, endianness, check=False)
    magic = bytes(header["magic"].item())
    if magic == magics[not single]:
        wrong = "the header of a pair, without its data" if single else "a single file, not a pair"
        raise FileError(path, wrong, "rename it to .hdr beside its .img" if single else "use .nii")
    if magic != magics[single]:
        cause = f"not NIfTI: its magic is {magic!r} (ANALYZE 7.5 knows no orientation)"
        raise FileError(path, cause, "convert it to NIfTI first")
    axes = int(header["dim"][0])
    if not 1 <= axes <= 7:
        raise FileError(path, f"its header gives {axes} axes", _DAMAGED)
    shape = tuple(int(length) for length in header["dim"][1 : axes + 1])
    _refuse_shape(path, shape)
    dtype = np.dtype(endianness + _nifti_type(path, int(header["datatype"])))
    start = _vox_offset(path, float(header["vox_offset"]), len(block) + 4 if single else 0)
    try:
        slope, inter = header.get_slope_inter()
        header.check_fix(_LOG, 40)
    except HeaderDataError as error:
        raise FileError(path, f"its header makes no sense ({error})", _DAMAGED) from None
    if slope is None:
        return Layout(header, shape, dtype, start)
    return Layout(header, shape, dtype, start, slope, inter)


def add_extensions(path: str, area: bytes, layout: Layout) -> None:
    """Add to a NIfTI header what lies between it and the voxels."""
    if not area[:1].strip(b"\0"):
        return  # the first byte says whether there are any
    at = 4
    while len(area) - at >= 16:
        size, code = struct.unpack_from(layout.header.endianness + "2i", area, at)
        if not 8 <= size <= len(area) - at:
            raise FileError(path, f"a header extension of {size} bytes", _DAMAGED)
        # Always the plainest kind of extension, since others would try to understand the content.
        content = area[at + 8 : at + size]
        layout.header.extensions.append(Nifti1Extension(code, content))
        at += size


def mgh_layout(path: str, block: bytes) -> Layout:
    """Judge the header of an MGH file."""
    _, *dims, code = struct.unpack_from(">6i", block)
    shape = tuple(dims if dims[3] != 1 else dims[:3])
    _refuse_shape(path, shape)
    if code not in _MGH_TYPES:
        name = _MGH_NAMES.get(code, "unknown")
        raise FileError(path, f"its voxels are of the type {name} (code {code})", _CONVERT)
    return Layout(with_footer(block, b""), shape, np.dtype(_MGH_TYPES[code]), MGH_START)


def with_footer(block: bytes, footer: bytes) -> Header:
    """Return an MGH header from what stands before the voxels, and what stands behind."""
    make: Any = MGHHeader
    return make(block[:_MGH_BLOCK] + footer[:_MGH_FOOTER].ljust(_MGH_FOOTER, b"\0"))


def affine_of(path: str, header: Header) -> FloatArray:
    """Return the affine from voxels to millimetres."""
    try:
        return np.array(header.get_best_affine(), dtype=np.float64)
    except (HeaderDataError, ValueError) as error:
        raise FileError(path, f"its orientation makes no sense ({error})", _DAMAGED) from None


def shape_problem(shape: tuple[int, ...]) -> tuple[str, str] | None:
    """Return what is wrong with a shape and what to try, if anything is."""
    if not shape or min(shape) < 1:
        return f"an image of the shape {shape} has no voxels", _DAMAGED
    if math.prod(shape[3:]) > 1:
        several = f"{math.prod(shape[3:])} volumes in one image, of the shape {shape}"
        return several, "give one volume: extract it (fslroi), or average them (fslmaths -Tmean)"
    return None


def _refuse_shape(path: str, shape: tuple[int, ...]) -> None:
    if problem := shape_problem(shape):
        raise FileError(path, *problem)


def _nifti_type(path: str, code: int) -> str:
    known = code in nifti_types.label
    name = str(nifti_types.label[code]) if known else "unknown"
    if name not in _NIFTI_TYPES:
        raise FileError(path, f"its voxels are of the type {name} (code {code})", _CONVERT)
    return np.dtype(name).str[1:]


def _vox_offset(path: str, offset: float, least: int) -> int:
    if offset == 0:
        return least
    if not (math.isfinite(offset) and offset >= least and offset == int(offset)):
        cause = f"its data begin at byte {offset:g} (vox_offset), where {least} is the least"
        raise FileError(path, cause, _DAMAGED)
    return int(offset)
