"""Headers of NIfTI and of FreeSurfer's MGH: parsed and checked, and built for new images.

nibabel takes the fields apart; nothing in them is believed, and no memory is spent on what they
announce, before it has been checked. NIfTI-1 and NIfTI-2 are read in both byte orders, as a single
file or as a pair of header and data.

An MGH file begins with a header of fixed size. After the voxels come a footer of five numbers (TR,
flip angle, TE, TI and field of view), which nibabel counts as part of the header, and tags of
FreeSurfer (command lines, a colour table), each with a number and most with the length of their
content. Both may be missing, but nothing else may follow: a damaged header can give fewer voxels
than there are, and then the rest of them would be taken for a footer. Everything is big-endian.
"""

from __future__ import annotations

import io
import logging
import math
import struct
from contextlib import suppress
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader, MGHImage
from nibabel.nifti1 import (
    Nifti1Extension,
    Nifti1Header,
    Nifti1PairHeader,
    data_type_codes,
    xform_codes,
)
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import Stream
from ndflow.image.volume import Header, Volume, slices
from ndflow.values import FloatArray

MOST_BYTES = 1 << 26  # before the voxels: a header with all its extensions
MOST_AFTER = 1 << 20  # no file has as many bytes after its voxels; a colour table takes 100,000
MGH_TYPES = ("uint8", "uint16", "int16", "int32", "float32")

_DAMAGED = "its header is damaged: copy or download it again"
_CONVERT = "convert it to a real-valued image first, one for each part or colour"
_NIFTI = {348: Nifti1Header, 540: Nifti2Header}  # by the size of the fixed part
_LONGEST_AXIS = 32767  # of NIfTI-1
_MGH_VERSION = b"\0\0\0\1"  # the only one; every file begins with it
_MGH_START = 284  # the offset of the first voxel, in every file
_MGH_BYTES, _FOOTER_BYTES = 90, 20  # that are used, before and after the voxels
_PLAUSIBLE = 1e-6, 1e9  # magnitudes of the numbers in a footer, if they are not 0
_LAST_TAG = 255  # the highest that FreeSurfer has given out is below 50
_WITHOUT_LENGTH = (1, 2, 10, 11, 12, 20)  # tags whose content is not preceded by its length
_SHORT_LENGTH = 30  # a tag whose length has 4 bytes, not 8
_PADDING = 4096  # most zeros at the end of a file

# nibabel logs what it corrects in a header; silent unless the application configures logging.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_header(stream: Stream, *, single: bool) -> tuple[Header, int]:
    """Read and check the fixed part of a header.

    Parameters
    ----------
    stream : the file, at its beginning.
    single : whether the voxels follow in the same file.

    Returns
    -------
    header : nibabel's header, of the fixed part only.
    gap : how many bytes lie between the fixed part, or the beginning of a file of data alone, and
        the first voxel.

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
        shape, gap = _nifti_layout(path, header, single=single)
    elif first == _MGH_VERSION and single:
        make, gap = MGHHeader, 0
        header = make(first + stream.read(_MGH_START - 4, "header").tobytes()[: _MGH_BYTES - 4])
        shape = tuple(int(length) for length in header.get_data_shape())
    else:
        hint = "check that it is the right file, or convert it to NIfTI first"
        raise FileError(path, "neither NIfTI nor MGH", hint)
    if problem := shape_problem(shape):
        raise FileError(path, *problem)
    _refuse_type(path, header)
    affine = affine_of(path, header)
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


def whole_header(path: str, header: Header, before: bytes, after: bytes) -> Header:
    """Complete a header with what lies beyond its fixed part.

    Parameters
    ----------
    path : the file, for messages.
    header : of the fixed part.
    before : what lies between the fixed part and the voxels: header extensions of NIfTI.
    after : what follows the voxels, or the first `MOST_AFTER` bytes of it.

    Raises
    ------
    FileError : if an extension is invalid, or something follows that is neither padding nor MGH's.
    """
    is_mgh = isinstance(header, MGHHeader)
    footer, tags = after[:_FOOTER_BYTES], after[_FOOTER_BYTES:]
    surplus = not (_is_footer(footer) and _are_tags(tags)) if is_mgh else after.strip(b"\0")
    if surplus:
        cause = "holds more than the voxels that its header describes"
        raise FileError(path, cause, "its header is damaged, or belongs to another file")
    if is_mgh:
        make: Any = MGHHeader
        return make(header.binaryblock[:_MGH_BYTES] + footer)
    at = 4
    while before[:1].strip(b"\0") and len(before) - at >= 16:  # the first byte: whether there are
        size, code = struct.unpack_from(header.endianness + "2i", before, at)
        if not 8 <= size <= len(before) - at:
            raise FileError(path, f"a header extension of {size} bytes", _DAMAGED)
        # Always the generic class: the others would try to parse the content.
        header.extensions.append(Nifti1Extension(code, before[at + 8 : at + size]))
        at += size
    return header


def refuse_other_type(path: str, voxels: NDArray[Any]) -> None:
    """Refuse integers of MGH that are floats, and the reverse, because the header is wrong.

    Both take 4 bytes, and their codes differ in one bit. Any integer below 2²³ is a denormal number
    when read as a float; floats of any sensible size are integers beyond 2²⁸.
    """
    if voxels.dtype.itemsize != 4:
        return
    floats = voxels.dtype.kind == "f"
    flat = voxels.reshape(-1, order="F")
    for piece in slices(flat.size):
        sizes = np.abs(flat[piece] if floats else flat[piece].astype(np.int64))
        odd = sizes < np.finfo(np.float32).tiny if floats else (sizes == 0) | (sizes > 1 << 28)
        if not odd.all():
            return
    if flat.any():
        given, likely = ("float32", "int32") if floats else ("int32", "float32")
        raise FileError(path, f"its voxels look like {likely}, not {given}", _DAMAGED)


def shape_problem(shape: tuple[int, ...]) -> tuple[str, str] | None:
    """Return what is wrong with a shape and what to try, or None for a single volume."""
    if not shape or min(shape) < 1:
        return f"an image of the shape {shape} has no voxels", _DAMAGED
    if math.prod(shape[3:]) > 1:
        several = f"{math.prod(shape[3:])} volumes in one image, of the shape {shape}"
        return several, "give one volume: extract it (fslroi), or average them (fslmaths -Tmean)"
    return None


def affine_of(path: str, header: Header) -> FloatArray:
    """Return the affine from voxels to millimetres."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.array(header.get_best_affine(), dtype=np.float64)
    except (HeaderDataError, ValueError) as error:
        raise FileError(path, f"its orientation is invalid ({error})", _DAMAGED) from None


def _nifti_layout(path: str, header: Header, *, single: bool) -> tuple[tuple[int, ...], int]:
    """Check what only NIfTI has; return the shape, and the gap as `read_header` does."""
    magic = bytes(header["magic"].item())
    if magic != (header.single_magic if single else header.pair_magic):
        cause = f"not a {'single NIfTI file' if single else 'NIfTI header'}: its magic is {magic!r}"
        hint = "name a single file .nii, and a pair .hdr and .img; convert ANALYZE 7.5 to NIfTI"
        raise FileError(path, cause, hint)
    axes, *lengths = header["dim"].tolist()
    if not 1 <= axes <= 7:
        raise FileError(path, f"its header gives {axes} axes", _DAMAGED)
    # nibabel would take another orientation where the code is not known, and FSL would not.
    form = "sform_code" if header["sform_code"] != 0 else "qform_code"
    if int(header[form]) not in xform_codes.value_set("code"):
        raise FileError(path, f"its orientation has an unknown {form}, {header[form]}", _DAMAGED)
    least = header.single_vox_offset if single else 0
    offset = float(header["vox_offset"]) or least
    if not (least <= offset <= MOST_BYTES and offset == int(offset)):
        ends = f"{least} is the least and {MOST_BYTES} the most"
        raise FileError(path, f"vox_offset is {offset:g}, where {ends}", _DAMAGED)
    return tuple(lengths[:axes]), int(offset) - (header.sizeof_hdr if single else 0)


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
    while area[at:].strip(b"\0"):
        tag = int.from_bytes(area[at : at + 4], signed=True)
        if tag in _WITHOUT_LENGTH:
            return len(area) - at >= 8 and len(area) < MOST_AFTER - _FOOTER_BYTES
        size = 4 if tag == _SHORT_LENGTH else 8
        length = int.from_bytes(area[at + 4 : at + 4 + size], signed=True)
        at += 4 + size + length
        # FreeSurfer may count a final NUL that it omits.
        if not 0 < tag <= _LAST_TAG or length < 0 or at > len(area) + 1:
            return False
    return len(area) - at <= _PADDING


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def new_nifti(shape: tuple[int, ...], affine: FloatArray, code: str = "aligned") -> Header:
    """Return a NIfTI header for an image that has none, with a code of nibabel for its affine."""
    header: Any = Nifti2Header() if max(shape) > _LONGEST_AXIS else Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_shape(shape)
    header.set_sform(affine, code)
    header.set_qform(affine, code)
    header.set_xyzt_units("mm")
    return header


def nifti_header(
    like: Volume, dtype: str, *, single: bool = True, scaling: tuple[float, float] = (1.0, 0.0)
) -> Any:
    """Return a NIfTI header for a new image with the geometry of another.

    Parameters
    ----------
    like : the other image. All of a NIfTI header is kept except the type of the voxels, their
        scaling and the display range (``cal_min``, ``cal_max``).
    dtype : the type of the new voxels.
    single : whether it is written as a single file, or as a pair of header and data.
    scaling : slope and intercept of the new voxels.
    """
    header = like.header
    if not isinstance(header, Nifti1Header):
        header = new_nifti(like.shape, like.affine, "scanner")
    kinds: Any = (Nifti1PairHeader, Nifti1Header)
    if isinstance(header, Nifti2Header):
        kinds = (Nifti2PairHeader, Nifti2Header)
    new = kinds[single](header.binaryblock, header.endianness, False, header.extensions)
    new["magic"] = new.single_magic if single else new.pair_magic
    new.set_data_dtype(np.dtype(dtype))
    new["vox_offset"] = 0  # nibabel adds the length of the extensions
    new["scl_slope"], new["scl_inter"] = scaling
    new["cal_min"] = new["cal_max"] = 0
    return new


def mgh_header(like: Volume, dtype: str) -> Any:
    """Return an MGH header for a new image with the geometry of another.

    Parameters
    ----------
    like : the other image. All of an MGH header is kept except the type of the voxels.
    dtype : the type of the new voxels, one of `MGH_TYPES`.
    """
    if dtype not in MGH_TYPES:
        raise InvalidValueError(f"MGH files cannot hold {dtype}; use {', '.join(MGH_TYPES)}")
    header = like.header
    if not isinstance(header, MGHHeader):
        if not (np.isfinite(like.affine).all() and like.affine[:3, :3].any(axis=0).all()):
            raise InvalidValueError("MGH files need a valid orientation; write NIfTI instead")
        make: Any = MGHImage
        header = make(without_voxels(like.spatial_shape), like.affine).header
    new: Any = header.copy()
    new.set_data_dtype(np.dtype(dtype))
    return new


def without_voxels(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an array that takes no memory, for images of which only the headers are needed."""
    return np.broadcast_to(np.uint8(0), shape)


def header_bytes(header: Header) -> tuple[bytes, bytes]:
    """Return the bytes before the voxels of a new file, and those after them."""
    if isinstance(header, MGHHeader):
        block: bytes = header.binaryblock
        return block[:_MGH_BYTES].ljust(_MGH_START, b"\0"), block[_MGH_BYTES:]
    head = io.BytesIO()
    header.write_to(head)
    return head.getvalue(), b""
