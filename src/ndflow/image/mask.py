"""Masks: which voxels of an image count.

A mask is read from a file, or found in the image itself. Of the latter, ``brain`` is the brain in a
T1w image (`preparation.brain_mask`); the header of a file that holds such a mask says so, because
it is wider than those of other tools (`image.mask_doubts`). ``auto`` is the foreground: the head,
or the brain where all else was removed. It is found as follows.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from nibabel.nifti1 import Nifti1Header
from numpy.typing import NDArray

from ndflow.errors import DegenerateDataError, FileError
from ndflow.files.stream import DEFAULT_MAX_BYTES, FileHash
from ndflow.image.read import Source, read_volume
from ndflow.image.volume import Header, Volume, slices
from ndflow.image.write import nifti_header

BoolArray = NDArray[np.bool_]
FoundMask = Literal["auto", "brain"]
Unmasked = Literal["brain", "auto", "nonzero"]  # for scans without a mask

AUTO: FoundMask = "auto"
BRAIN: FoundMask = "brain"
MIN_VOXELS = 100  # the fewest that a density can be estimated from, and not well
ALIGNED, TOLERATED = 1e-2, 0.5  # distances of a mask from its image, in voxels

_ROUNDING = 1e-6  # of 255 · (1/255), with 1/255 rounded to the seven digits of a header
_OVERSHOOT = 0.5  # of interpolation by splines, which was seen to reach -.39 and 1.42
_MARK = "ndflow brain mask"  # in the header, which has room for 79 characters

_PADDING = 0.1  # the share of the faces
_BINS = 512
_DARKER, _NOT_RARE = np.log(4.0), 0.25
_LARGE = 0.05  # relative to the largest component
_SAMPLE = 1 << 20  # voxels for the percentiles, roughly
_TRY = "give a mask, or omit --mask auto to use all non-zero voxels"


@dataclass(frozen=True, eq=False)
class Mask:
    """Which voxels of an image count.

    Attributes
    ----------
    inside : which voxels count, in the spatial shape of the mask.
    warnings : messages for the user.
    files : see `Volume`.
    found : whether its header says that deepbet found it, see `like_found_brain`.
    """

    inside: BoolArray
    warnings: tuple[str, ...]
    files: tuple[FileHash, ...] = ()
    found: bool = False


def read_mask(
    source: Source, like: Volume, *, fewest: int = MIN_VOXELS, max_bytes: int = DEFAULT_MAX_BYTES
) -> Mask:
    """Read the mask of an image.

    It must have the shape of the image and lie in the same place: corners up to 1/100 of a voxel
    apart are accepted, up to half a voxel with a warning, and more are refused.

    If all values lie in [0, 1], as in a probability map, or at most ½ beyond, as in a mask that was
    interpolated by splines, those above ½ are inside; otherwise, as in a label image, those that
    are not 0. NaN and infinity are outside.

    Parameters
    ----------
    source : as for `read_volume`.
    like : the image, whose voxels need not be read.
    fewest : the fewest voxels that it must have; a mask of voxels to exclude may be empty.
    max_bytes : as for `read_volume`.

    Raises
    ------
    FileError : if the mask cannot be read, is not one of the image, or has too few voxels.
    """
    mask = read_volume(source, max_bytes=max_bytes, called="the mask", like=like)
    warnings = misalignment_warnings(mask, like)
    low, high, infinite, other_values = _summary(mask)
    within = low >= -_OVERSHOOT and high <= 1 + _OVERSHOOT
    likely = within and not mask.unscaled_integers
    inside = np.empty(mask.flat.size, dtype=bool)
    for piece in slices(inside.size):
        values = mask.values(mask.flat[piece])
        inside[piece] = values > 0.5 if likely else values != 0
        if values.dtype.kind == "f":
            inside[piece] &= np.isfinite(values)
    count = int(np.count_nonzero(inside))
    if count < fewest:
        cause = f"a mask of {count} voxels only" if count else "an empty mask"
        raise FileError(mask.path, cause, f"at least {fewest} voxels are needed: check the mask")
    if infinite:
        warnings.append(f"{mask.path}: {infinite} voxels are not finite, and count as outside")
    if other_values:
        rule = "values above 0.5" if within else "all values but 0"
        warnings.append(f"{mask.path}: holds other values than 0 and 1; {rule} count as inside")
    deepbet = _holds_found_brain(mask.header)
    shaped = inside.reshape(mask.spatial_shape, order="F")
    return Mask(shaped, tuple(warnings), mask.files, deepbet)


def nonzero(volumes: Sequence[Volume]) -> BoolArray:
    """Return which voxels are finite in every channel and not 0 in some, like `Volume.flat`."""
    inside = zero_in_all(volumes)
    np.logical_not(inside, out=inside)
    inside &= finite_in_all(volumes)
    return inside


def finite_in_all(volumes: Sequence[Volume]) -> BoolArray:
    """Return which voxels are finite in every channel, flattened like `Volume.flat`."""
    finite = np.ones(volumes[0].flat.size, dtype=bool)
    for volume in volumes:
        for piece in slices(finite.size if volume.stored.dtype.kind == "f" else 0):
            finite[piece] &= np.isfinite(volume.flat[piece])
    return finite


def zero_in_all(volumes: Sequence[Volume]) -> BoolArray:
    """Return which voxels are 0 in every channel, flattened like `Volume.flat`."""
    zero = np.ones(volumes[0].flat.size, dtype=bool)
    for volume in volumes:
        for piece in slices(zero.size):
            zero[piece] &= volume.is_zero(volume.values(volume.flat[piece]))
    return zero


def _summary(mask: Volume) -> tuple[float, float, int, bool]:
    """Return the range, how many are not finite, and whether there are others than 0 and 1."""
    if mask.unscaled_integers:
        least, most = int(mask.flat.min()), int(mask.flat.max())
        return least, most, 0, least < 0 or most > 1
    low, high, infinite, other_values = np.inf, -np.inf, 0, False
    for piece in mask.pieces():
        finite = piece[np.isfinite(piece)]
        infinite += piece.size - finite.size
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            other = (finite != 0) & (np.abs(finite - 1.0) > _ROUNDING)
            other_values = other_values or bool(other.any())
    return low, high, infinite, other_values


def misalignment_warnings(mask: Volume, like: Volume) -> list[str]:
    """Compare the place of a mask, a tissue probability map or a channel with that of its image.

    Parameters
    ----------
    mask : the mask, map or channel.
    like : the image, of the same shape.

    Returns
    -------
    warnings : none if their corners are at most 1/100 of a voxel apart, one up to half a voxel.

    Raises
    ------
    FileError : if they are farther apart.
    """
    apart = voxels_apart(mask, like)
    if apart <= ALIGNED:
        return []
    if apart < TOLERATED:
        return [f"{mask.path}: lies {apart:.2g} voxels away from {like.path}; used nevertheless"]
    cause = f"lies {apart:.3g} voxels away from {like.path}"
    raise FileError(mask.path, cause, "resample it onto the image's grid, or fix its header")


def same_grid(one: Volume, like: Volume) -> bool:
    """Tell whether two images have the same voxels."""
    return one.spatial_shape == like.spatial_shape and voxels_apart(one, like) <= ALIGNED


def voxels_apart(one: Volume, like: Volume) -> float:
    """Return the largest distance between corners of two images of one shape, in voxels."""
    if not (one.placed and like.placed) or np.array_equal(one.affine, like.affine, True):
        return 0.0
    ends = [(0, length - 1) for length in (*like.spatial_shape, 1, 1)[:3]]
    corners = np.array([(*corner, 1) for corner in product(*ends)], dtype=np.float64)
    distances = np.linalg.norm((corners @ (one.affine - like.affine).T)[:, :3], axis=1)
    voxel = float(np.linalg.norm(like.affine[:3, :3], axis=0).min())
    return float(distances.max() / voxel) if voxel > 0 else np.inf


# ── masks that are to be found ────────────────────────────────────────────────────────────────────


def to_be_found(mask: object) -> TypeGuard[FoundMask]:
    """Tell whether a mask is to be found in the image.

    >>> to_be_found("brain"), to_be_found("brain.nii.gz"), to_be_found(None)
    (True, False, False)
    """
    return isinstance(mask, str) and mask in get_args(FoundMask)


def found_for(unmasked: str | None) -> FoundMask | None:
    """Return the mask of scans without one; None for all voxels but 0.

    >>> found_for("brain"), found_for("nonzero"), found_for(None)
    ('brain', None, None)
    """
    return unmasked if to_be_found(unmasked) else None


def like_found_brain(scan: Volume, version: str) -> Volume:
    """Return a scan whose header says that it is a mask of the brain, found by deepbet.

    Parameters
    ----------
    scan : on whose grid the mask is.
    version : of deepbet.
    """
    header = nifti_header(scan, "uint8")
    header["descrip"] = f"{_MARK}, deepbet {version}"[:79]
    header["intent_code"], header["intent_name"], header["aux_file"] = 0, b"", b""
    return replace(scan, header=header)


def _holds_found_brain(header: Header) -> bool:
    """Tell whether a header says that the image is a mask of the brain that deepbet found."""
    if not isinstance(header, Nifti1Header):
        return False
    return bytes(header["descrip"].tobytes()).startswith(_MARK.encode())


# ── the foreground ────────────────────────────────────────────────────────────────────────────────


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
    threshold = None
    if np.count_nonzero(candidates) >= MIN_VOXELS:
        threshold = _air(values, candidates, padding)
    if threshold is not None:
        candidates &= values > threshold
    elif padding is None:
        raise DegenerateDataError(f"no foreground found: nothing looks like air; {_TRY}")
    found = _large_pieces(candidates)
    del candidates  # filling holes takes several times the memory of a mask
    found = ndimage.binary_fill_holes(found)
    if np.count_nonzero(found) < MIN_VOXELS:
        raise DegenerateDataError(f"no foreground found: only specks are brighter than air; {_TRY}")
    return found.T


def _padding(values: NDArray[Any], finite: BoolArray) -> Any | None:
    """Return the value that fills the image where nothing was measured, or None."""
    faces = [face[known] for face, known in zip(faces_of(values), faces_of(finite), strict=True)]
    levels, counts = np.unique(np.concatenate(faces), return_counts=True)
    total = sum(face.size for face in faces)
    return levels[counts.argmax()] if total and counts.max() >= _PADDING * total else None


def faces_of(volume: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the faces of a volume, those across axes of length 1 left out."""
    long = [axis for axis in range(volume.ndim) if volume.shape[axis] > 1]
    return [np.moveaxis(volume, axis, 0)[end] for axis in long for end in (0, -1)]


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
    flat, chosen = values.reshape(-1), where.reshape(-1)
    for piece in slices(flat.size):
        clipped = np.clip(flat[piece][chosen[piece]].astype(np.float64), zero, high)
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

    labels: NDArray[Any]
    labels, count = ndimage.label(ndimage.binary_opening(candidates))
    flat, sizes = labels.reshape(-1), np.zeros(count + 1, dtype=np.int64)
    for piece in slices(flat.size):  # for the sake of memory
        sizes += np.bincount(flat[piece], minlength=count + 1)
    is_large = sizes >= _LARGE * sizes[1:].max(initial=1)
    is_large[0] = False
    # Restores what the opening took from the surface, and no more.
    return ndimage.binary_dilation(is_large[labels], iterations=2, mask=candidates)
