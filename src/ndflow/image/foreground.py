"""The foreground of an image without a mask: the head, or the brain (``--mask auto``).

1. Padding is the most frequent value on the faces of the volume, if it covers a tenth of them.
   Padding and voxels that are not finite are left out of all that follows.
2. Otsu's threshold splits ``ln(x − zero + 1 % of the range)`` in two: intensities range over
   decades, and only on a logarithmic scale is the noise in the air a compact cluster. The range is
   that from the 1st to the 99th percentile, so that bright vessels and dead voxels do not matter.
3. The darker class is air if it is much darker (by a factor of four) and not rare (a quarter of the
   voxels). In an image whose background has been removed already, it is neither: there, the darker
   class is CSF or GM, and all voxels are kept.
4. Among the voxels brighter than air, the foreground is made of the large connected components,
   after an opening that separates them from specks of noise, with their holes filled. The largest
   component alone would not do: dark bone may separate the brain from the scalp, and the scalp may
   be the larger of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import DegenerateDataError
from ndflow.image.mask import MIN_VOXELS, BoolArray

__all__ = ["foreground"]

_PADDING = 0.1  # the share of the faces
_BINS = 512
_DARKER, _NOT_RARE = np.log(4.0), 0.25
_LARGE = 0.05  # relative to the largest component
_SAMPLE = 1 << 20  # voxels for the percentiles, roughly
_PIECE = 1 << 18  # voxels at a time
_TRY = "give a mask, or omit --mask auto to use all nonzero voxels"


def foreground(values: NDArray[Any]) -> BoolArray:
    """Find the foreground of an image, as the module describes.

    Parameters
    ----------
    values : the image, in its spatial shape.

    Returns
    -------
    inside : which voxels are in the foreground.

    Raises
    ------
    DegenerateDataError : if no foreground is found.
    """
    from scipy import ndimage  # slow to import, and rarely needed

    values = values.T  # from Fortran to C order; all that follows is symmetric in the axes
    candidates = np.isfinite(values)
    padding = _padding(values, candidates)
    if padding is not None:
        candidates &= values != padding
    low, high = _range(values, candidates)
    if np.count_nonzero(candidates) < MIN_VOXELS or low == high:
        raise DegenerateDataError(
            f"no foreground found: hardly any voxel differs from the others; {_TRY}"
        )
    threshold = _air(values, candidates, padding)
    if threshold is None and padding is None:
        raise DegenerateDataError(f"no foreground found: nothing looks like air; {_TRY}")
    if threshold is not None:
        candidates &= values > threshold
    found = _large_pieces(candidates)
    del candidates  # filling holes takes several times the memory of a mask
    found = ndimage.binary_fill_holes(found)
    if np.count_nonzero(found) < MIN_VOXELS:
        raise DegenerateDataError(f"no foreground found: only specks are brighter than air; {_TRY}")
    return found.T


def _chosen(values: NDArray[Any], where: BoolArray) -> Iterator[NDArray[Any]]:
    """Yield the chosen values, piece by piece."""
    flat, chosen = values.reshape(-1), where.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        yield flat[piece][chosen[piece]]


def _range(values: NDArray[Any], where: BoolArray) -> tuple[Any, Any]:
    ends = [(part.min(), part.max()) for part in _chosen(values, where) if part.size]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0, 0)


def _padding(values: NDArray[Any], finite: BoolArray) -> Any | None:
    """Return the value that fills the image where nothing was measured, or None."""
    faces = [
        np.moveaxis(values, axis, 0)[end][np.moveaxis(finite, axis, 0)[end]]
        for axis in range(values.ndim)
        if values.shape[axis] > 1
        for end in (0, -1)
    ]
    levels, counts = np.unique(np.concatenate(faces), return_counts=True)
    total = sum(face.size for face in faces)
    return levels[counts.argmax()] if total and counts.max() >= _PADDING * total else None


def _air(values: NDArray[Any], where: BoolArray, padding: Any | None) -> float | None:
    """Return the threshold between air and the object, or None if there is no air."""
    step = 1 + int(np.count_nonzero(where)) // _SAMPLE
    some = values.reshape(-1)[::step][where.reshape(-1)[::step]]
    low, high = (float(end) for end in np.percentile(some, (1, 99)))
    zero = low if padding is None else min(low, float(padding))
    floor = 0.01 * (high - zero)
    if floor <= 0:
        return None
    edges = np.linspace(np.log(floor), np.log(high - zero + floor), _BINS + 1)
    counts = np.zeros(_BINS)
    for part in _chosen(values, where):
        clipped = np.clip(part.astype(np.float64), zero, high)
        counts += np.histogram(np.log(clipped - zero + floor), edges)[0]
    if counts.max() == counts.sum():
        return None  # all in one bin, because the padding value lies far below
    centres = (edges[1:] + edges[:-1]) / 2
    below, sums = np.cumsum(counts), np.cumsum(counts * centres)
    above = below[-1] - below
    with np.errstate(invalid="ignore", divide="ignore"):
        dark, bright = sums / below, (sums[-1] - sums) / above
        between = below * above * (bright - dark) ** 2
    cut = int(np.nanargmax(between))
    is_air = bright[cut] - dark[cut] > _DARKER and below[cut] > _NOT_RARE * below[-1]
    return float(np.exp(edges[cut + 1])) + zero - floor if is_air else None


def _large_pieces(candidates: BoolArray) -> BoolArray:
    from scipy import ndimage

    opened = ndimage.binary_opening(candidates)
    labels, pieces = _labelled(opened)
    if not pieces:
        return opened
    flat = labels.reshape(-1)
    sizes = np.zeros(pieces + 1, dtype=np.int64)
    for start in range(0, flat.size, _PIECE):
        sizes += np.bincount(flat[start : start + _PIECE], minlength=pieces + 1)
    sizes[0] = 0
    is_large = sizes >= _LARGE * sizes.max()
    large = opened.reshape(-1)  # overwrites `opened`, to save memory
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        large[piece] = is_large[flat[piece]]
    del flat, labels
    # Restores what the opening took from the surface, and no more.
    return ndimage.binary_dilation(opened, iterations=2, mask=candidates)


def _labelled(opened: BoolArray) -> tuple[NDArray[Any], int]:
    """Label the connected components, in 16 bits unless there are too many."""
    from scipy import ndimage

    for kind in (np.uint16, np.int32):
        labels = np.empty(opened.shape, kind)
        try:
            return labels, int(ndimage.label(opened, output=labels))
        except RuntimeError:  # more components than the type can number
            continue
    raise AssertionError("no image has so many voxels")
