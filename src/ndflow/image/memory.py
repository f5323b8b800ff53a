"""Images that are not written, but handed over in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import MGHHeader, MGHImage
from nibabel.nifti1 import Nifti1Image
from nibabel.nifti2 import Nifti2Header, Nifti2Image
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.image.new_headers import mgh_header, nifti_header
from ndflow.image.volume import Volume
from ndflow.image.write import cast_chunks

__all__ = ["make_array", "make_image"]


def make_array(
    like: Volume, chunks: Iterable[NDArray[Any]], *, dtype: str = "float32"
) -> tuple[NDArray[Any], int]:
    """Return an array in the shape of an image.

    And the number of values that did not fit the type, see `Written`.
    """
    kind = np.dtype(dtype)
    flat = np.empty(like.flat.size, kind)
    start = clipped = 0
    for piece, changed in cast_chunks(chunks, flat.size, kind):
        flat[start : start + piece.size] = piece
        start, clipped = start + piece.size, clipped + changed
    return flat.reshape(like.shape, order="F"), clipped


def make_image(
    like: Volume, chunks: Iterable[NDArray[Any]], *, dtype: str = "float32"
) -> tuple[SpatialImage, int]:
    """Return a nibabel image with the geometry and the header of another, and the same number."""
    geometry = (like.header, like.shape, like.affine, np.dtype(dtype))
    make: Any
    if isinstance(like.header, MGHHeader):
        make, header = MGHImage, mgh_header(*geometry)
    else:
        header = nifti_header(*geometry)
        make = Nifti2Image if isinstance(header, Nifti2Header) else Nifti1Image
    array, clipped = make_array(like, chunks, dtype=dtype)
    return make(array, header.get_best_affine(), header), clipped
