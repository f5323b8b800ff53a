"""Three slices of a scan, before and after normalisation.

Axial, coronal and sagittal slices are side by side at the same scale. Before, the grey window is
given by percentiles of the slices shown, because every scan has units of its own; after, it is the
same for all scans, so that figures of different scans can be compared: equal intensities have the
same grey.

Slices are cropped to the brain, reduced to at most `_SIDE` pixels per side by averaging areas, and
drawn in `_GREYS` shades, each pixel stored once: little is lost to the eye, and most of the file
size is saved. A pixel with more than half of its area outside the mask stays outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.figures import style
from ndflow.values import FloatArray, einsum, real

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["slices_figure"]

_VIEWS = ("axial", "coronal", "sagittal")
_WIDTH = 5.2  # inches
_SIDE, _GAP = 96, 4  # pixels, of a slice and between slices
_GREYS = 32
_WINDOW = (1, 99.5)  # percentiles of the slices before, for black and white


def slices_figure(
    before: Sequence[ArrayLike], after: Sequence[ArrayLike], name: str, window: tuple[float, float]
) -> Figure:
    """Draw slices of a scan before (above) and after normalisation (below).

    Parameters
    ----------
    before : the axial, the coronal and the sagittal slice, (rows, columns) from the top left, with
        square pixels of the same size; NaN outside the brain, which is drawn black.
    after : the same slices of the result.
    name : of the scan.
    window : intensities drawn black and white after, the same for all scans of a study.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.export` turns into a file.
    """
    above, below = _pictures(before, "before"), _pictures(after, "after")
    for view, old, new in zip(_VIEWS, above, below, strict=True):
        if old.shape != new.shape:
            raise InvalidValueError(
                f"the {view} slice must have the same shape before and after, "
                f"not {old.shape} and {new.shape}"
            )
    low, high = (real(end, "window") for end in window)
    if not low < high:
        raise InvalidValueError(f"window must be increasing, not from {low} to {high}")
    boxes = [_box(old, new) for old, new in zip(above, below, strict=True)]
    above, below = ([p[box] for p, box in zip(row, boxes, strict=True)] for row in (above, below))
    strips = _strip(above), _strip(below)
    rows, columns = strips[0].shape
    with style.new_figure(_WIDTH, 2 * (_WIDTH - 0.4) * rows / columns + 0.6) as figure:
        upper, lower = (figure.add_subplot(2, 1, i) for i in (1, 2))
        _draw(upper, strips[0], _window(above), "before")
        _draw(lower, strips[1], (low, high), "after")
        for view, at in zip(_VIEWS, _middles(above), strict=True):
            upper.text(
                at, -0.02 * rows, view, ha="center", va="bottom", fontsize=7, color="#555555"
            )
        upper.set_title(style.label(name), loc="center", pad=13)
    return figure


def _pictures(given: Sequence[ArrayLike], name: str) -> list[FloatArray]:
    if len(given) != len(_VIEWS):
        raise InvalidValueError(f"{name} must hold the {len(_VIEWS)} slices {', '.join(_VIEWS)}")
    pictures = [np.array(part, dtype=np.float64) for part in given]
    for view, picture in zip(_VIEWS, pictures, strict=True):
        if picture.ndim != 2 or not np.isfinite(picture).any():
            raise InvalidValueError(
                f"the {view} slice {name} must be a 2D image that is not all NaN"
            )
        picture[~np.isfinite(picture)] = np.nan
    return pictures


def _box(old: FloatArray, new: FloatArray) -> tuple[slice, slice]:
    """Return the bounding box of the finite pixels, before or after."""
    filled = np.isfinite(old) | np.isfinite(new)
    rows, columns = (np.flatnonzero(filled.any(axis=axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _window(pictures: Sequence[FloatArray]) -> tuple[float, float]:
    values = np.concatenate([picture[np.isfinite(picture)] for picture in pictures])
    low, high = np.percentile(values, _WINDOW).tolist()
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def _sizes(pictures: Sequence[FloatArray]) -> list[tuple[int, int]]:
    """Return the rows and columns of each picture as drawn, at the same scale for all."""
    scale = min(1.0, _SIDE / max(side for picture in pictures for side in picture.shape))
    return [
        (max(round(scale * picture.shape[0]), 1), max(round(scale * picture.shape[1]), 1))
        for picture in pictures
    ]


def _strip(pictures: Sequence[FloatArray]) -> FloatArray:
    """Return the pictures side by side, centred vertically."""
    sizes = _sizes(pictures)
    height = max(rows for rows, _ in sizes) + 2 * _GAP
    strip = np.full((height, sum(columns + _GAP for _, columns in sizes) + _GAP), np.nan)
    at = _GAP
    for picture, (rows, columns) in zip(pictures, sizes, strict=True):
        top = (height - rows) // 2
        strip[top : top + rows, at : at + columns] = _resampled(picture, rows, columns)
        at += columns + _GAP
    return strip


def _middles(pictures: Sequence[FloatArray]) -> list[float]:
    """Return the central column of each picture in a strip."""
    widths = np.array([columns for _, columns in _sizes(pictures)])
    starts = np.cumsum(widths + _GAP) - widths
    middles: list[float] = (starts + 0.5 * (widths - 1)).tolist()
    return middles


def _resampled(picture: FloatArray, rows: int, columns: int) -> FloatArray:
    """Return a picture resized by averaging areas; pixels outside are ignored."""
    inside = np.isfinite(picture)
    down, across = (
        _overlaps(old, new) for old, new in zip(picture.shape, (rows, columns), strict=True)
    )
    filled = np.where(inside, picture, 0.0)
    total, share = (
        einsum("im,jm->ij", einsum("ij,jk->ik", down, part), across)
        for part in (filled, inside.astype(np.float64))
    )
    mostly = share >= 0.5
    return np.where(mostly, total / np.where(mostly, share, 1.0), np.nan)


def _overlaps(old: int, new: int) -> FloatArray:
    """Return the share of each new interval that lies in each old one, (new, old)."""
    edges = np.linspace(0, old, new + 1)
    ends = np.clip(edges[:, np.newaxis] - np.arange(old), 0, 1)
    overlaps: FloatArray = np.diff(ends, axis=0) * (new / old)
    return overlaps


def _draw(axes: Axes, strip: FloatArray, window: tuple[float, float], row: str) -> None:
    from matplotlib import colormaps

    shades = colormaps["gray"].resampled(_GREYS).with_extremes(bad="black")
    axes.imshow(
        np.ma.masked_invalid(strip),
        cmap=shades,
        vmin=window[0],
        vmax=window[1],
        interpolation="none",  # an SVG stores the pixels themselves, not resampled ones
    )
    axes.set_ylabel(row, fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
