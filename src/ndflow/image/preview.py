"""Previews: three slices of a scan before and after, made while its voxels are in memory.

A report shows every scan of a study. Reading all images again would take longer than normalising
them did, so the run that writes an image writes a preview of it too: axial, coronal and sagittal
slices in full resolution, side by side, cropped to what the mask selects; before above after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from nibabel.orientations import apply_orientation, io_orientation
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.stream import open_file
from ndflow.image.mask import BoolArray, Inside
from ndflow.image.orient import square
from ndflow.image.png import Greys, decode_png, encode_png
from ndflow.image.volume import Volume
from ndflow.values import FloatArray

__all__ = ["Preview", "Window", "preview_of", "read_preview", "write_preview"]

Map = Callable[[FloatArray], FloatArray]  # from intensities to intensities
Window = tuple[float, float]  # the intensities that are black and white

_SHOWN = (0.5, 99.5)  # percentiles of the slices that are black and white
_AXES = (2, 1, 0)  # axial, coronal, sagittal
_GAP, _MARGIN = 2, 2  # pixels between slices, and around each
_COARSE = 24  # voxels per axis that are counted to find the middle slice
_LONGEST = 20  # times as long as wide, the longest voxel that is drawn
_AS_STORED = np.array([[0, 1], [1, 1], [2, 1]])
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Preview:
    """Slices of a scan before and after; an image of one slice has only that.

    Attributes
    ----------
    before, after : (height, width), greys from 1 to 255; 0 is outside the mask.
    before_window, after_window : the intensities of the greys 1 and 255.
    widths : of the slices, in pixels: axial, coronal and sagittal.
    """

    before: Greys
    after: Greys
    before_window: Window
    after_window: Window
    widths: tuple[int, ...]

    def axial(self, greys: Greys) -> Greys:
        """Return the first slice of `before` or `after`, as a rule the axial one, cropped."""
        part = greys[:, : self.widths[0]]
        filled = np.flatnonzero(self.before[:, : self.widths[0]].any(axis=1))
        if not filled.size:
            return part
        return part[max(0, filled[0] - _MARGIN) : filled[-1] + 1 + _MARGIN]


def preview_of(volume: Volume, inside: Inside, imap: Map) -> Preview:
    """Return the preview of a scan.

    Parameters
    ----------
    volume : the scan.
    inside : which of its voxels to show, flattened like `Volume.flat`.
    imap : the intensity map that makes the result.
    """
    planes = _slices(volume, inside)
    height = max(plane.shape[0] for plane in planes)
    widths = tuple(plane.shape[1] for plane in planes)
    old, old_window = _greys(planes, height)
    new, new_window = _greys([_mapped(plane, imap) for plane in planes], height)
    return Preview(old, new, old_window, new_window, widths)


def write_preview(path: AnyPath, preview: Preview) -> None:
    """Write a preview; an earlier one is replaced."""
    note = {
        "before": preview.before_window,
        "after": preview.after_window,
        "widths": preview.widths,
    }
    content = encode_png(np.concatenate([preview.before, preview.after]), note)
    with new_file(path, force=True) as file:
        file.write(content)


def read_preview(path: AnyPath) -> Preview:
    """Read a preview.

    Raises
    ------
    FileError : if there is none, or it is damaged.
    """
    with open_file(path) as file:
        content = file.read(_MAX_BYTES)
    greys, note = decode_png(content, path)
    half = greys.shape[0] // 2
    try:
        before, after = (_window(note[name]) for name in ("before", "after"))
        widths = tuple(int(width) for width in note["widths"])
        if not (widths and min(widths) > 0 and sum(widths) <= greys.shape[1]):
            raise ValueError("widths")
    except (KeyError, TypeError, ValueError, OverflowError):
        cause = "not a preview, or damaged"
        raise FileError(path, cause, "remove it, and run the study again") from None
    return Preview(greys[:half], greys[half:], before, after, widths)


def _window(given: Any) -> Window:
    low, high = (float(end) for end in given)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("window")
    return low, high


def _slices(volume: Volume, inside: Inside) -> list[FloatArray]:
    """Return the middle slice across each axis, upright and cropped; NaN outside the mask."""
    shape = (*volume.spatial_shape, 1, 1)[:3]
    orientation, spacing = _geometry(volume.affine)
    stored, within = (  # views, not copies
        apply_orientation(flat.reshape(shape, order="F"), orientation)  # type: ignore[no-untyped-call]
        for flat in (volume.flat, inside[:])
    )
    found = []
    for axis in _planes(within.shape):
        coarse = _lattice(within, axis)
        place = _middle(volume.values(stored[coarse]), within[coarse], axis)
        plane = tuple(place if other == axis else slice(None) for other in range(3))
        values = volume.values(stored[plane]).astype(np.float64)
        shown = np.where(within[plane] & np.isfinite(values), values, np.nan)
        other, another = (float(spacing[other]) for other in range(3) if other != axis)
        found.append(np.rot90(square(_cropped(shown), other, another)))
    return found


def _geometry(affine: FloatArray) -> tuple[NDArray[Any], FloatArray]:
    """Return how axes are to be turned, and the distance of voxels along the turned ones.

    An affine that cannot be right is ignored, and no voxel is drawn as a long needle.
    """
    matrix = affine[:3, :3]
    lengths = np.linalg.norm(matrix, axis=0)
    if not (np.isfinite(matrix).all() and lengths.all() and np.linalg.matrix_rank(matrix) == 3):
        return _AS_STORED, np.ones(3)
    orientation = io_orientation(affine)  # type: ignore[no-untyped-call]
    if not np.isfinite(orientation).all():
        return _AS_STORED, np.ones(3)
    spacing = lengths[np.argsort(orientation[:, 0])]
    return orientation, np.maximum(spacing, spacing.max() / _LONGEST)


def _planes(shape: Sequence[int]) -> list[int]:
    """Return the axes across which there are slices; an image of one slice has one plane."""
    planes = [a for a in _AXES if all(n > 1 for other, n in enumerate(shape) if other != a)]
    return planes or [_AXES[0]]


def _lattice(within: BoolArray, axis: int) -> tuple[slice, ...]:
    """Return a coarse selection of the voxels of each slice across an axis, or all of them."""
    steps = [
        1 if other == axis else max(1, length // _COARSE)
        for other, length in enumerate(within.shape)
    ]
    coarse = tuple(slice(None, None, step) for step in steps)
    return coarse if within[coarse].any() else (slice(None),) * within.ndim


def _middle(values: NDArray[Any], within: BoolArray, axis: int) -> int:
    """Return the slice that halves the brighter voxels, be the mask a brain or the whole image."""
    chosen = within & np.isfinite(values)
    if chosen.any():
        chosen &= values >= values[chosen].mean(dtype=np.float64)
    counts = chosen.sum(axis=tuple(other for other in range(3) if other != axis))
    return int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))


def _cropped(plane: FloatArray) -> FloatArray:
    """Return a slice with a narrow margin around what is inside."""
    shown = np.isfinite(plane)
    first, second = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    if not first.size:
        return plane
    filled = plane[first[0] : first[-1] + 1, second[0] : second[-1] + 1]
    return np.pad(filled, _MARGIN, constant_values=np.nan)


def _mapped(plane: FloatArray, imap: Map) -> FloatArray:
    result = plane.copy()
    shown = np.isfinite(plane)
    with np.errstate(over="ignore", invalid="ignore"):
        result[shown] = imap(plane[shown])
    return result


def _greys(planes: Sequence[FloatArray], height: int) -> tuple[Greys, Window]:
    """Return slices side by side, each in the middle of its height, and their grey window."""
    values = np.concatenate([plane[np.isfinite(plane)] for plane in planes])
    low, high = np.percentile(values, _SHOWN).tolist() if values.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):  # all voxels are alike
        low, high = low - 0.5, low + 0.5
    columns: list[Greys] = []
    for plane in planes:
        above = (height - plane.shape[0]) // 2
        column = np.zeros((height, plane.shape[1] + _GAP), np.uint8)
        share = np.clip((plane - low) / (high - low), 0, 1)
        levels = np.where(np.isfinite(plane), np.rint(1 + 254 * share), 0)
        column[above : above + plane.shape[0], : plane.shape[1]] = levels
        columns.append(column)
    return np.concatenate(columns, axis=1)[:, :-_GAP], (low, high)
