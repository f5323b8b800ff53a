"""Headers of FreeSurfer's MGH format: parsed and checked, and built for new images.

A file begins with a header of fixed size. After the voxels come a footer of five numbers (TR, flip
angle, TE, TI and field of view), which nibabel counts as part of the header, and tags of FreeSurfer
(command lines, a colour table), each with a number and most with the length of their content. Both
may be missing, but nothing else may follow: a damaged header can give fewer voxels than there are,
and then the rest of them would be taken for a footer. Everything is big-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.volume import CONVERT, DAMAGED, Header, Layout, affine_of, refuse_shape
from ndflow.values import FloatArray

MGH_VERSION = b"\0\0\0\1"  # the only one; every file begins with it
MGH_START = 284  # the offset of the first voxel, in every file
MGH_TAIL = 1 << 20  # no file has as many bytes after its voxels; a colour table takes 100,000
MGH_TYPES = ("uint8", "uint16", "int16", "int32", "float32")

_HEADER_BYTES, _FOOTER_BYTES = 90, 20  # that are used, before and after the voxels
_CODES = {0: ">u1", 1: ">i4", 3: ">f4", 4: ">i2", 10: ">u2"}
_PLAUSIBLE = 1e-6, 1e9  # magnitudes of the numbers in a footer, if they are not 0
_LAST_TAG = 255  # the highest that FreeSurfer has given out is below 50
_WITHOUT_LENGTH = (1, 2, 10, 11, 12, 20)  # tags whose content is not preceded by its length
_SHORT_LENGTH = 30  # a tag whose length has 4 bytes, not 8
_PADDING = 4096  # most zeros at the end of a file
_PIECE = 1 << 16  # voxels looked at together
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
    header = _header(block, b"")
    affine = affine_of(path, header)
    if not (np.isfinite(affine).all() and np.linalg.matrix_rank(affine[:3, :3]) == 3):
        raise FileError(path, "its orientation is invalid: not finite, or flat", DAMAGED)
    return Layout(header, shape, np.dtype(_CODES[code]), MGH_START)


def mgh_header_with_tail(path: str, block: bytes, tail: bytes) -> Header:
    """Return nibabel's header for the bytes before the voxels and those after them.

    Parameters
    ----------
    path : the file, for messages.
    block : its first `MGH_START` bytes.
    tail : all bytes after the voxels, or the first `MGH_TAIL` of more.

    Raises
    ------
    FileError : if what follows the voxels is neither a footer nor tags.
    """
    if not _is_footer(tail[:_FOOTER_BYTES]) or not _are_tags(tail[_FOOTER_BYTES:]):
        cause = "holds more than the voxels that its header describes"
        raise FileError(path, cause, "its header is damaged, or belongs to another file")
    return _header(block, tail[:_FOOTER_BYTES])


def refuse_other_type(path: str, voxels: NDArray[Any]) -> None:
    """Refuse integers that are floats, and the reverse, because the type in the header is wrong.

    Both take 4 bytes, and their codes differ in one bit. Any integer below 2²³ is a denormal number
    when read as a float; floats of any sensible size are integers beyond 2²⁸.
    """
    if voxels.dtype.itemsize != 4:
        return
    floats = voxels.dtype.kind == "f"
    found = False
    flat = voxels.reshape(-1, order="F")
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        sizes = np.abs(piece[piece != 0].astype(np.float64))
        odd = sizes < np.finfo(np.float32).tiny if floats else sizes > 1 << 28
        if not odd.all():
            return
        found = found or sizes.size > 0
    if found:
        given, likely = ("float32", "int32") if floats else ("int32", "float32")
        raise FileError(path, f"its voxels look like {likely}, not {given}", DAMAGED)


def _header(block: bytes, footer: bytes) -> Header:
    make: Any = MGHHeader
    return make(block[:_HEADER_BYTES] + footer.ljust(_FOOTER_BYTES, b"\0"))


def _is_footer(footer: bytes) -> bool:
    """Return whether bytes can be TR, flip angle, TE, TI and field of view; the last may lack."""
    if len(footer) % 4:
        return False
    sizes = np.abs(np.frombuffer(footer, ">f4"))
    low, high = _PLAUSIBLE
    return bool(((sizes == 0) | ((sizes > low) & (sizes < high))).all())


def _are_tags(area: bytes) -> bool:
    """Return whether bytes are nothing but tags and padding."""
    at = 0
    while at < len(area):
        if not area[at:].strip(b"\0"):
            return len(area) - at <= _PADDING
        if len(area) - at < 8 or len(area) >= MGH_TAIL - _FOOTER_BYTES:
            return False
        (tag,) = struct.unpack_from(">i", area, at)
        if not 0 < tag <= _LAST_TAG:
            return False
        if tag in _WITHOUT_LENGTH:
            return True
        at += 4
        size = 4 if tag == _SHORT_LENGTH else 8
        length = int.from_bytes(area[at : at + size], signed=True)
        at += size + length
        if length < 0 or at > len(area) + 1:  # FreeSurfer may count a final NUL that it omits
            return False
    return True


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
        if not (np.isfinite(affine).all() and sizes.all()):
            raise InvalidValueError("MGH files need a valid orientation; write NIfTI instead")
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
