"""Headers of NIfTI-1 and NIfTI-2: parsed and checked, and built for new images.

Both byte orders, as a single file or as a pair of header and data. nibabel's classes take the
fields apart.
"""

from __future__ import annotations

import io
import logging
import math
import struct
from typing import Any

import numpy as np
from nibabel.nifti1 import (
    Nifti1Extension,
    Nifti1Header,
    Nifti1PairHeader,
    data_type_codes,
    xform_codes,
)
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader
from nibabel.spatialimages import HeaderDataError

from ndflow.errors import FileError
from ndflow.image.volume import (
    CONVERT,
    DAMAGED,
    Header,
    Layout,
    affine_of,
    describes,
    refuse_shape,
)
from ndflow.values import FloatArray

_SIZES = {348: Nifti1Header, 540: Nifti2Header}  # of the fixed part, with which it begins
_CLASSES: dict[tuple[bool, bool], Any] = {  # by version 2 or 1, and by single file or pair
    (False, True): Nifti1Header,
    (False, False): Nifti1PairHeader,
    (True, True): Nifti2Header,
    (True, False): Nifti2PairHeader,
}
_LONGEST_AXIS = 32767  # of NIfTI-1
_TYPES = {"float32", "float64"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}

# nibabel logs what it corrects in a header; silent unless the application configures logging.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def header_size(first: bytes) -> int | None:
    """Return the size of the NIfTI header that begins with four given bytes, or None."""
    sizes = {int.from_bytes(first, "little"), int.from_bytes(first, "big")}
    return next((size for size in _SIZES if size in sizes), None)


def nifti_layout(path: str, block: bytes, *, single: bool) -> Layout:
    """Parse and check the fixed part of a NIfTI header.

    Parameters
    ----------
    path : the file, for messages.
    block : the fixed part of the header, as long as `header_size` says.
    single : whether it is that of a single file, or of a pair of header and data.

    Raises
    ------
    FileError : if the header is invalid, or not that of one volume of real numbers.
    """
    size = len(block)
    endianness = "<" if int.from_bytes(block[:4], "little") == size else ">"
    kind = _CLASSES[_SIZES[size] is Nifti2Header, single]
    header = kind(block, endianness, check=False)
    magic = bytes(header["magic"].item())
    expected, other = kind.single_magic, kind.pair_magic
    if not single:
        expected, other = other, expected
    if magic == other:
        wrong = "the header of a pair, without its data" if single else "a single file, not a pair"
        raise FileError(path, wrong, "rename it to .hdr beside its .img" if single else "use .nii")
    if magic != expected:
        cause = f"not NIfTI: its magic is {magic!r} (ANALYZE 7.5 stores no orientation)"
        raise FileError(path, cause, "convert it to NIfTI first")
    axes = int(header["dim"][0])
    if not 1 <= axes <= 7:
        raise FileError(path, f"its header gives {axes} axes", DAMAGED)
    shape = tuple(int(length) for length in header["dim"][1 : axes + 1])
    refuse_shape(path, shape)
    dtype = np.dtype(endianness + _type(path, int(header["datatype"])))
    start = _vox_offset(path, float(header["vox_offset"]), size + 4 if single else 0)
    _refuse_orientation(path, header)
    try:
        slope, inter = header.get_slope_inter()
        header.check_fix(_LOG, 40)
    except HeaderDataError as error:
        raise FileError(path, f"its header is invalid ({error})", DAMAGED) from None
    if slope is None:
        return Layout(header, shape, dtype, start)
    return Layout(header, shape, dtype, start, slope, inter)


def add_extensions(path: str, area: bytes, layout: Layout) -> None:
    """Add header extensions, which lie between the fixed part and the voxels, to a header."""
    if not area[:1].strip(b"\0"):
        return  # the first byte says whether there are any
    at = 4
    while len(area) - at >= 16:
        size, code = struct.unpack_from(layout.header.endianness + "2i", area, at)
        if not 8 <= size <= len(area) - at:
            raise FileError(path, f"a header extension of {size} bytes", DAMAGED)
        # Always the generic class: the others would try to parse the content.
        content = area[at + 8 : at + size]
        layout.header.extensions.append(Nifti1Extension(code, content))
        at += size


def _type(path: str, code: int) -> str:
    known = code in data_type_codes.label
    name = str(data_type_codes.label[code]) if known else "unknown"
    if name not in _TYPES:
        raise FileError(path, f"its voxels are of the type {name} (code {code})", CONVERT)
    return np.dtype(name).str[1:]


def _refuse_orientation(path: str, header: Header) -> None:
    """Refuse an orientation that is not finite, or of a kind that is not known.

    nibabel would take another one where the code is not known, and FSL would not.
    """
    name = "sform_code" if header["sform_code"] != 0 else "qform_code"
    if int(header[name]) not in xform_codes.value_set("code"):
        raise FileError(path, f"its orientation has an unknown {name}, {header[name]}", DAMAGED)
    if not np.isfinite(affine_of(path, header)).all():
        raise FileError(path, "its orientation is not finite", DAMAGED)


def _vox_offset(path: str, offset: float, least: int) -> int:
    if offset == 0:
        return least
    if not (math.isfinite(offset) and offset >= least and offset == int(offset)):
        cause = f"its data begin at byte {offset:g} (vox_offset), but {least} is the least possible"
        raise FileError(path, cause, DAMAGED)
    return int(offset)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def nifti_header_for(header: Header | None, shape: tuple[int, ...], affine: FloatArray) -> Header:
    """Return a NIfTI header for an image in memory.

    Parameters
    ----------
    header : the header that came with the image, if any.
    shape, affine : of the image.

    Returns
    -------
    header : a copy of the given header, if it is NIfTI, or else a new one.
    """
    if not isinstance(header, Nifti1Header):
        return _new_header(shape, affine, "aligned")
    copy: Any = header.copy()  # type: ignore[no-untyped-call]
    if not describes(copy, shape, affine):  # the image was changed: the codes no longer hold
        copy.set_data_shape(shape)
        copy.set_sform(affine, "aligned")
        copy.set_qform(affine, "unknown")
    return copy


def nifti_header(
    header: Header,
    shape: tuple[int, ...],
    affine: FloatArray,
    dtype: np.dtype[Any],
    *,
    single: bool = True,
    scaling: tuple[float, float] = (1.0, 0.0),
) -> Any:
    """Return a NIfTI header for a new image with the geometry of another.

    Parameters
    ----------
    header : of the other image. All of a NIfTI header is kept except the type of the voxels, their
        scaling and the display range (``cal_min``, ``cal_max``).
    shape, affine : of the other image.
    dtype : the type of the new voxels.
    single : whether it is written as a single file, or as a pair of header and data.
    scaling : slope and intercept of the new voxels.
    """
    if not isinstance(header, Nifti1Header):
        header = _new_header(shape, affine, "scanner")
    kind = _CLASSES[isinstance(header, Nifti2Header), single]
    new = kind(header.binaryblock, header.endianness, False, header.extensions)
    new["magic"] = kind.single_magic if single else kind.pair_magic
    new.set_data_dtype(dtype)
    new["vox_offset"] = 0  # nibabel adds the length of the extensions
    new["scl_slope"], new["scl_inter"] = scaling
    new["cal_min"] = new["cal_max"] = 0
    return new


def nifti_head(
    header: Header,
    shape: tuple[int, ...],
    affine: FloatArray,
    dtype: np.dtype[Any],
    *,
    single: bool,
    scaling: tuple[float, float] = (1.0, 0.0),
) -> tuple[bytes, np.dtype[Any]]:
    """Return the bytes that precede the voxels of a new NIfTI file; parameters as `nifti_header`.

    Returns
    -------
    head : the header and its extensions.
    dtype : the type of the voxels, with their byte order.
    """
    new = nifti_header(header, shape, affine, dtype, single=single, scaling=scaling)
    head = io.BytesIO()
    new.write_to(head)
    return head.getvalue(), dtype.newbyteorder(new.endianness)


def _new_header(shape: tuple[int, ...], affine: FloatArray, code: str) -> Header:
    header: Any = _CLASSES[max(shape) > _LONGEST_AXIS, True]()
    header.set_data_shape(shape)
    header.set_sform(affine, code)
    header.set_qform(affine, code)
    header.set_xyzt_units("mm")
    return header
