"""Headers for new images, that keep all they can from the header of another."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Header, Nifti1PairHeader
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader

from ndflow.errors import InvalidValueError
from ndflow.image.headers import MGH_START, Header
from ndflow.values import FloatArray

__all__ = ["MGH_TYPES", "header_for", "mgh_ends", "mgh_header", "nifti_head", "nifti_header"]

_CLASSES: dict[tuple[bool, bool], Any] = {  # by version 2 or 1, and by single file or pair
    (False, True): Nifti1Header,
    (False, False): Nifti1PairHeader,
    (True, True): Nifti2Header,
    (True, False): Nifti2PairHeader,
}
_LONGEST_AXIS = 32767  # of NIfTI-1
_MGH_FIXED = 90
MGH_TYPES = ("uint8", "uint16", "int16", "int32", "float32")


def header_for(header: Header | None, shape: tuple[int, ...], affine: FloatArray) -> Header:
    """Return a header for an image in memory, of this shape and in this place."""
    if isinstance(header, MGHHeader) and _describes(header, shape, affine):
        return header.copy()  # type: ignore[no-untyped-call]
    if not isinstance(header, Nifti1Header):
        return _new_nifti(shape, affine, "aligned")
    copy: Any = header.copy()  # type: ignore[no-untyped-call]
    if not _describes(copy, shape, affine):  # changed by hand: its codes hold no longer
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
) -> Any:
    """Return a NIfTI header like another, for voxels of some type.

    Everything is kept from a NIfTI header but the type, the scaling and the range for display.
    """
    if not isinstance(header, Nifti1Header):
        header = _new_nifti(shape, affine, "scanner")
    make = _CLASSES[isinstance(header, Nifti2Header), single]
    new = make(header.binaryblock, header.endianness, False, header.extensions)
    new["magic"] = make.single_magic if single else make.pair_magic
    new.set_data_dtype(dtype)
    new["vox_offset"] = 0  # let nibabel count the extensions
    new["scl_slope"], new["scl_inter"] = 1, 0
    new["cal_min"] = new["cal_max"] = 0
    return new


def nifti_head(
    header: Header,
    shape: tuple[int, ...],
    affine: FloatArray,
    dtype: np.dtype[Any],
    *,
    single: bool,
) -> tuple[bytes, np.dtype[Any]]:
    """Return all that stands before the voxels of a NIfTI file, and the voxels' type."""
    new = nifti_header(header, shape, affine, dtype, single=single)
    head = io.BytesIO()
    new.write_to(head)
    return head.getvalue(), dtype.newbyteorder(new.endianness)


def mgh_header(
    header: Header, shape: tuple[int, ...], affine: FloatArray, dtype: np.dtype[Any]
) -> Any:
    """Return an MGH header like another, for voxels of some type."""
    if dtype.name not in MGH_TYPES:
        raise InvalidValueError(f"MGH files know no {dtype.name}; use {', '.join(MGH_TYPES)}")
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
    """Return what stands before the voxels of an MGH file, the voxels' type, and what follows."""
    block: bytes = mgh_header(header, shape, affine, dtype).binaryblock
    return block[:_MGH_FIXED].ljust(MGH_START, b"\0"), dtype.newbyteorder(">"), block[_MGH_FIXED:]


def _new_nifti(shape: tuple[int, ...], affine: FloatArray, code: str) -> Header:
    header: Any = _CLASSES[max(shape) > _LONGEST_AXIS, True]()
    header.set_data_shape(shape)
    header.set_sform(affine, code)
    header.set_qform(affine, code)
    header.set_xyzt_units("mm")
    return header


def _describes(header: Header, shape: tuple[int, ...], affine: FloatArray) -> bool:
    same_shape = tuple(header.get_data_shape()) == shape
    return same_shape and np.allclose(header.get_best_affine(), affine, equal_nan=True)
