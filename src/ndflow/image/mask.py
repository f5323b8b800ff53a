"""Masks: which voxels of an image count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import DEFAULT_MAX_BYTES
from ndflow.image.found_masks import holds_found_brain
from ndflow.image.read import Grid, Source, read_volume
from ndflow.image.volume import Volume
from ndflow.values import FloatArray

__all__ = [
    "ALIGNED",
    "MIN_VOXELS",
    "TOLERATED",
    "BoolArray",
    "Inside",
    "Mask",
    "Nonzero",
    "misalignment_warnings",
    "read_mask",
    "voxels_apart",
]

BoolArray = NDArray[np.bool_]

MIN_VOXELS = 100  # the fewest that a density can be estimated from, and not well

ALIGNED, TOLERATED = 1e-2, 0.5  # distances of a mask from its image, in voxels
_ROUNDING = 1e-6  # of 255 · (1/255), with 1/255 rounded to the seven digits of a header


@dataclass(frozen=True, eq=False)
class Mask:
    """Which voxels count, and where in space they lie.

    Attributes
    ----------
    path : the file, or what messages call a mask that has no file.
    inside : which voxels count, in the spatial shape of the mask.
    affine, placed : see `Volume`.
    warnings : messages for the user.
    files : see `Volume`.
    found : whether its header says that deepbet found it, see `ndflow.image.found_masks`.
    """

    path: str
    inside: BoolArray
    affine: FloatArray
    placed: bool
    warnings: tuple[str, ...]
    files: tuple[FileHash, ...] = ()
    found: bool = False

    def on(self, like: Volume) -> list[str]:
        """Check that the mask belongs to an image, and return all warnings.

        It must have the shape of the image and lie in the same place: corners up to 1/100 of a
        voxel apart are accepted, up to half a voxel with a warning, and more are refused.
        """
        if self.inside.shape != like.spatial_shape:
            cause = (
                f"a mask of the shape {self.inside.shape}, but {like.path} is {like.spatial_shape}"
            )
            raise FileError(self.path, cause, "resample the mask onto the image's grid")
        return [*misalignment_warnings(self, like), *self.warnings]


def read_mask(
    source: Source, *, fewest: int = MIN_VOXELS, max_bytes: int = DEFAULT_MAX_BYTES
) -> Mask:
    """Read a mask.

    If all values lie in [0, 1], as in a probability map, those above ½ are inside; otherwise, as in
    a label image, those that are not 0. NaN and infinity are outside.

    Parameters
    ----------
    source : as for `read_volume`.
    fewest : the fewest voxels that it must have; a mask of voxels to exclude may be empty.
    max_bytes : as for `read_volume`.

    Returns
    -------
    mask : in its own space; `Mask.on` checks that it belongs to an image.

    Raises
    ------
    FileError : if the mask cannot be read, or has too few voxels.
    """
    mask = read_volume(source, max_bytes=max_bytes, called="the mask")
    warnings = []
    found = _summary(mask)
    within = found.low >= 0 and found.high <= 1 + _ROUNDING
    if within and mask.unscaled_integers and mask.stored.itemsize == 1:
        inside = mask.stored.reshape(mask.spatial_shape, order="F").view(np.bool_)  # 0 and 1
    elif within and not mask.unscaled_integers:
        inside = _selected(mask, lambda piece: piece > 0.5)
    else:
        inside = _selected(mask, lambda piece: piece != 0)
    count = int(np.count_nonzero(inside))
    if count < fewest:
        cause = f"a mask of {count} voxels only" if count else "an empty mask"
        raise FileError(mask.path, cause, f"at least {fewest} voxels are needed: check the mask")
    if found.infinite:
        warnings.append(
            f"{mask.path}: {found.infinite} voxels are not finite, and count as outside"
        )
    if found.other_values:
        rule = "values above 0.5" if within else "all values but 0"
        warnings.append(f"{mask.path}: holds other values than 0 and 1; {rule} count as inside")
    deepbet = holds_found_brain(mask.header)
    return Mask(mask.path, inside, mask.affine, mask.placed, tuple(warnings), mask.files, deepbet)


class Inside(Protocol):
    """Which voxels count, flattened like `Volume.flat`: an array, or anything sliced like one."""

    def __getitem__(self, piece: slice, /) -> BoolArray:
        """Return which voxels of a piece count."""


class Nonzero:
    """The mask of all voxels whose value is finite and not 0, see `Volume.is_zero`.

    It is computed piece by piece when needed, which is faster than storing it.
    """

    def __init__(self, volume: Volume) -> None:
        self._volume = volume

    def __getitem__(self, piece: slice, /) -> BoolArray:
        """Return which voxels of a piece count."""
        values = self._volume.values(self._volume.flat[piece])
        inside = ~self._volume.is_zero(values)
        if values.dtype.kind == "f":
            inside &= np.isfinite(values)
        return inside


def _selected(volume: Volume, rule: Callable[[NDArray[Any]], BoolArray]) -> BoolArray:
    """Return where the values of an image are finite and satisfy a rule."""
    if volume.unscaled_integers:
        return np.asarray(rule(volume.stored)).reshape(volume.spatial_shape, order="F")
    inside = np.empty(volume.flat.size, dtype=bool)
    start = 0
    for piece in volume.pieces():
        inside[start : start + piece.size] = rule(piece) & np.isfinite(piece)
        start += piece.size
    return inside.reshape(volume.spatial_shape, order="F")


@dataclass(frozen=True)
class _Summary:
    low: float
    high: float
    infinite: int
    other_values: bool  # than 0 and 1


def _summary(mask: Volume) -> _Summary:
    """Look at all values once, to find out whether they are binary, probabilities or labels."""
    if mask.unscaled_integers:
        least, most = int(mask.flat.min()), int(mask.flat.max())
        return _Summary(least, most, 0, least < 0 or most > 1)
    low, high, infinite, other_values = np.inf, -np.inf, 0, False
    for piece in mask.pieces():
        finite = piece[np.isfinite(piece)]
        infinite += piece.size - finite.size
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            other_values = other_values or _other_than_0_and_1(finite)
    return _Summary(low, high, infinite, other_values)


def _other_than_0_and_1(values: NDArray[Any]) -> bool:
    return bool(((values != 0) & (np.abs(values - 1.0) > _ROUNDING)).any())


def misalignment_warnings(mask: Mask | Volume, like: Volume) -> list[str]:
    """Compare the place of a mask, or of a tissue probability map, with that of its image.

    Parameters
    ----------
    mask : the mask or map.
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
    what = "a mask that lies" if isinstance(mask, Mask) else "lies"
    cause = f"{what} {apart:.3g} voxels away from {like.path}"
    raise FileError(mask.path, cause, "resample it onto the image's grid, or mend its header")


def voxels_apart(one: Mask | Volume | Grid, like: Volume | Grid) -> float:
    """Return the largest distance between corners of two images of one shape, in voxels."""
    if not (one.placed and like.placed) or np.array_equal(one.affine, like.affine, True):
        return 0.0
    ends = [(0, length - 1) for length in (*like.spatial_shape, 1, 1)[:3]]
    corners = np.array([(*corner, 1) for corner in product(*ends)], dtype=np.float64)
    distances = np.linalg.norm((corners @ (one.affine - like.affine).T)[:, :3], axis=1)
    voxel = float(np.linalg.norm(like.affine[:3, :3], axis=0).min())
    return float(distances.max() / voxel) if voxel > 0 else np.inf
