"""Headers of FreeSurfer's MGH format: parsed and checked, and built for new images.

A file begins with a header of fixed size and ends with an optional footer (TR, TE and the like),
which nibabel counts as part of the header. Everything is big-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.layout import CONVERT, Header, Layout, refuse_shape
from ndflow.values import FloatArray

__all__ = [
    "MGH_START",
    "MGH_TYPES",
    "MGH_VERSION",
    "mgh_ends",
    "mgh_header",
    "mgh_layout",
    "with_footer",
]

MGH_VERSION = b"\0\0\0\1"  # the only one; every file begins with it
MGH_START = 284  # the offset of the first voxel, in every file
MGH_TYPES = ("uint8", "uint16", "int16", "int32", "float32")

_HEADER_BYTES, _FOOTER_BYTES = 90, 20  # that are used, before and after the voxels
_CODES = {0: ">u1", 1: ">i4", 3: ">f4", 4: ">i2", 10: ">u2"}
_REFUSED = {2: "long", 5: "bitmap", 6: "tensor", 7: "complex", 8: "double complex", 9: "RGB"}


def mgh_layout(path: str, block: bytes) -> Layout:
    """Parse and check the header of an MGH file.

    Parameters
    ----------
    path : the file, for messages.
    block : its first `MGH_START` bytes.

    Raises
    ------
    FileError : if the header is invalid, or not that of one volume of real numbers.
    """
    _, *dims, code = struct.unpack_from(">6i", block)
    shape = tuple(dims if dims[3] != 1 else dims[:3])
    refuse_shape(path, shape)
    if code not in _CODES:
        name = _REFUSED.get(code, "unknown")
        raise FileError(path, f"its voxels are of the type {name} (code {code})", CONVERT)
    return Layout(with_footer(block, b""), shape, np.dtype(_CODES[code]), MGH_START)


def with_footer(block: bytes, footer: bytes) -> Header:
    """Return nibabel's header for the bytes before the voxels and those after them."""
    make: Any = MGHHeader
    return make(block[:_HEADER_BYTES] + footer[:_FOOTER_BYTES].ljust(_FOOTER_BYTES, b"\0"))


def mgh_header(
    header: Header, shape: tuple[int, ...], affine: FloatArray, dtype: np.dtype[Any]
) -> Any:
    """Return an MGH header for a new image with the geometry of another.

    Parameters
    ----------
    header : of the other image. All of an MGH header is kept except the type of the voxels.
    shape, affine : of the other image.
    dtype : the type of the new voxels, one of `MGH_TYPES`.
    """
    if dtype.name not in MGH_TYPES:
        raise InvalidValueError(f"MGH files cannot hold {dtype.name}; use {', '.join(MGH_TYPES)}")
    new: Any = MGHHeader()  # type: ignore[no-untyped-call]
    if isinstance(header, MGHHeader):
        new = header.copy()  # type: ignore[no-untyped-call]
    else:
        lengths = np.array((*shape[:3], 1, 1)[:3])
        sizes = np.linalg.norm(affine[:3, :3], axis=0)
        new.set_data_shape(lengths)
        new["delta"], new["Mdc"] = sizes, (affine[:3, :3] / sizes).T
        new["Pxyz_c"] = affine[:3, :3] @ (lengths / 2) + affine[:3, 3]
    new.set_data_dtype(dtype)
    return new


def mgh_ends(
    header: Header, shape: tuple[int, ...], affine: FloatArray, dtype: np.dtype[Any]
) -> tuple[bytes, np.dtype[Any], bytes]:
    """Return the bytes around the voxels of a new MGH file; parameters as for `mgh_header`.

    Returns
    -------
    head : the bytes before the voxels.
    dtype : the type of the voxels, with their byte order.
    tail : the bytes after the voxels.
    """
    block: bytes = mgh_header(header, shape, affine, dtype).binaryblock
    head, tail = block[:_HEADER_BYTES], block[_HEADER_BYTES:]
    return head.ljust(MGH_START, b"\0"), dtype.newbyteorder(">"), tail
