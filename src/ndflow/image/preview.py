"""Previews: three slices of a scan before and after, made while its voxels are in memory.

A report shows every scan of a study. Reading all images again would take longer than normalising
them did, so the run that writes an image writes a preview of it too: axial, coronal and sagittal
slices in full resolution, side by side, cropped to what the mask selects; before above after. They
go through the middle of the brain, or, where a lesion was outlined, through the largest part of it;
its outline is a path along the edges of pixels, as SVG writes it.

A preview is a PNG file of 8 bits, with a note: a JSON object in a chunk of text, by which the file
is known to be ours. In grey pictures 0 is transparent, so that whatever grey window a page chooses,
the background is that of the page. Pictures in colour have a palette.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import nibabel
import numpy as np
from nibabel.orientations import apply_orientation, io_orientation
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import open_file
from ndflow.image.mask import BoolArray
from ndflow.image.volume import Volume
from ndflow.values import FloatArray

Greys = NDArray[np.uint8]
Map = Callable[[FloatArray], FloatArray]  # from intensities to intensities
Window = tuple[float, float]  # the intensities that are black and white

_SHOWN = (0.5, 99.5)  # percentiles that are black and white
_AXES = (2, 1, 0)  # axial, coronal, sagittal
_GAP, _MARGIN = 2, 2  # pixels between slices, and around each
_COARSE = 24  # voxels per axis that are counted to find the middle slice
_LONGEST = 20  # times as long as wide, the longest voxel that is drawn
_PATH = re.compile(r"(M[0-9]+ [0-9]+[hv][0-9]+)*")
_MAX_LENGTH = 56  # voxels along each axis of a small volume

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = "ndflow"
_GREY, _PALETTE = 0, 3  # what the pixels mean
_SUB = 1  # the filter: each pixel less its left neighbour


@dataclass(frozen=True, eq=False)
class Preview:
    """Slices of a scan before and after; an image of one slice has only that.

    Attributes
    ----------
    before, after : (height, width), greys from 1 to 255; 0 is outside the mask.
    before_window, after_window : the intensities of the greys 1 and 255.
    widths : of the slices, in pixels: axial, coronal and sagittal.
    lesion : the outline of the lesion on the slices, a path in SVG; empty where there is none.
    """

    before: Greys
    after: Greys
    before_window: Window
    after_window: Window
    widths: tuple[int, ...]
    lesion: str = ""

    def axial(self, greys: Greys) -> Greys:
        """Return the first slice of `before` or `after`, as a rule the axial one, cropped."""
        part = greys[:, : self.widths[0]]
        filled = np.flatnonzero(self.before[:, : self.widths[0]].any(axis=1))
        if not filled.size:
            return part
        return part[max(0, filled[0] - _MARGIN) : filled[-1] + 1 + _MARGIN]


def preview_of(
    volume: Volume, inside: BoolArray, imap: Map | Volume, lesion: BoolArray | None = None
) -> Preview:
    """Return the preview of a scan.

    Parameters
    ----------
    volume : the scan.
    inside : which of its voxels to show, flattened like `Volume.flat`.
    imap : the intensity map that makes the result; or the result itself, on the same grid.
    lesion : which of its voxels are a lesion, flattened likewise; None if there is none.
    """
    orientation, spacing = axes_of(volume.affine)
    stored, within = (_turned(volume, flat, orientation) for flat in (volume.flat, inside))
    ill = None if lesion is None else _turned(volume, lesion & inside, orientation)
    if ill is not None and not ill.any():
        ill = None
    before, after, lesions = [], [], []
    for axis in _planes(within.shape):
        place = _middle(volume, stored, within, axis) if ill is None else _largest(ill, axis)
        plane = tuple(place if other == axis else slice(None) for other in range(3))
        values = volume.values(stored[plane]).astype(np.float64)
        shown = within[plane] & np.isfinite(values)
        sizes = tuple(size for other, size in enumerate(spacing) if other != axis)
        before.append(_drawn(values, shown, sizes))
        if isinstance(imap, Volume):
            result = _turned(volume, imap.flat, orientation)[plane]
            after.append(_drawn(imap.values(result), shown, sizes))
        else:
            after.append(before[-1].copy())
            drawn = np.isfinite(before[-1])
            with np.errstate(over="ignore", invalid="ignore"):
                after[-1][drawn] = imap(before[-1][drawn])
        if ill is not None:
            lesions.append(np.nan_to_num(_drawn(ill[plane], shown, sizes)))
    old, old_window = _greys(before)
    new, new_window = _greys(after)
    outline = outline_of(side_by_side(lesions, _GAP)) if lesions else ""
    widths = tuple(plane.shape[1] for plane in before)
    return Preview(old, new, old_window, new_window, widths, outline)


def outline_of(region: NDArray[np.generic]) -> str:
    """Return the outline of a region of a picture, along the edges of its pixels, as SVG draws it.

    Parameters
    ----------
    region : (height, width), not 0 inside.

    Examples
    --------
    >>> outline_of(np.array([[0, 0], [0, 1]]))
    'M1 1h1M1 2h1M1 1v1M2 1v1'
    """
    inside = np.pad(region != 0, 1)
    level = np.argwhere(inside[1:] != inside[:-1]).tolist()
    upright = np.argwhere(inside[:, 1:] != inside[:, :-1]).tolist()
    lines = [f"M{column - 1} {row}h1" for row, column in level]
    return "".join([*lines, *(f"M{column} {row - 1}v1" for row, column in upright)])


def preview_bytes(preview: Preview) -> bytes:
    """Return the file of a preview."""
    note = {
        "before": preview.before_window,
        "after": preview.after_window,
        "widths": preview.widths,
        "lesion": preview.lesion,
    }
    return encode_png(np.concatenate([preview.before, preview.after]), note)


def read_preview(path: AnyPath) -> Preview:
    """Read a preview; this needs Pillow, which comes with matplotlib.

    Raises
    ------
    FileError : if there is none, or it is damaged.
    """
    from PIL import Image

    with open_file(path) as file:
        content = io.BytesIO(file.read())
    try:
        with Image.open(content, formats=["PNG"]) as picture:
            greys = np.asarray(picture)
            note = json.loads(picture.info[_KEYWORD])
        before, after = ((float(a), float(b)) for a, b in (note["before"], note["after"]))
        widths = tuple(int(part) for part in note["widths"])
        half, lesion = len(greys) // 2, note["lesion"]
        if not _PATH.fullmatch(lesion):  # which goes into a page as it is
            raise ValueError("lesion")
        return Preview(greys[:half], greys[half:], before, after, widths, lesion)
    except (LookupError, TypeError, ValueError, ArithmeticError, OSError, SyntaxError):
        cause = "not a preview, or damaged"
        raise FileError(path, cause, "remove it, and run the study again") from None


def axes_of(affine: FloatArray) -> tuple[NDArray[Any], FloatArray]:
    """Return how axes are turned to point to the right, forward and up, and the spacing along them.

    An affine that cannot be right is ignored, and no voxel is drawn as a long needle.
    """
    valid = np.isfinite(affine).all() and np.linalg.matrix_rank(affine[:3, :3]) == 3
    affine = affine if valid else np.eye(4)
    orientation = io_orientation(affine)  # type: ignore[no-untyped-call]
    spacing = np.linalg.norm(affine[:3, :3], axis=0)[np.argsort(orientation[:, 0])]
    return orientation, np.maximum(spacing, spacing.max() / _LONGEST)


def _turned(volume: Volume, flat: NDArray[Any], orientation: NDArray[Any]) -> NDArray[Any]:
    """Return voxels, flattened like `Volume.flat`, along turned axes; a view, not a copy."""
    shaped = flat.reshape((*volume.spatial_shape, 1, 1)[:3], order="F")
    turned: NDArray[Any] = apply_orientation(shaped, orientation)  # type: ignore[no-untyped-call]
    return turned


def _planes(shape: Sequence[int]) -> list[int]:
    """Return the axes across which there are slices; an image of one slice has one plane."""
    planes = [a for a in _AXES if all(n > 1 for other, n in enumerate(shape) if other != a)]
    return planes or [_AXES[0]]


def _middle(volume: Volume, stored: NDArray[Any], within: BoolArray, axis: int) -> int:
    """Return the slice that halves the brighter voxels, be the mask a brain or the whole image.

    A coarse selection of the voxels of each slice is enough, unless none of them is inside.
    """
    coarse = tuple(
        slice(None, None, 1 if other == axis else max(1, length // _COARSE))
        for other, length in enumerate(within.shape)
    )
    if within[coarse].any():
        stored, within = stored[coarse], within[coarse]
    values = volume.values(stored)
    chosen = within & np.isfinite(values)
    if chosen.any():
        chosen &= values >= values[chosen].mean(dtype=np.float64)
    counts = chosen.sum(axis=tuple(other for other in range(3) if other != axis))
    return int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))


def _largest(region: BoolArray, axis: int) -> int:
    """Return the slice that shows most of a region."""
    return int(np.argmax(region.sum(axis=tuple(other for other in range(3) if other != axis))))


def _drawn(plane: NDArray[Any], shown: BoolArray, spacing: Sequence[float]) -> FloatArray:
    """Return a slice for display, cropped to what is shown, with a narrow margin; NaN elsewhere."""
    part = np.where(shown, plane, np.nan)
    first, second = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    if first.size:
        part = part[first[0] : first[-1] + 1, second[0] : second[-1] + 1]
        part = np.pad(part, _MARGIN, constant_values=np.nan)
    return np.rot90(_square(part, *spacing))


def _greys(planes: Sequence[FloatArray]) -> tuple[Greys, Window]:
    """Return slices side by side, in greys from 1 to 255, 0 for NaN; and their grey window."""
    values = np.concatenate([plane[np.isfinite(plane)] for plane in planes])
    low, high = np.percentile(values, _SHOWN).tolist() if values.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):  # all voxels are alike
        low, high = low - 0.5, low + 0.5
    scaled = (1 + 254 * np.clip((plane - low) / (high - low), 0, 1) for plane in planes)
    levels = [np.nan_to_num(np.rint(plane)).astype(np.uint8) for plane in scaled]
    return side_by_side(levels, _GAP), (low, high)


def side_by_side(planes: Sequence[NDArray[Any]], gap: int) -> NDArray[Any]:
    """Return slices in one row, each in the middle of its height, with a gap of 0 between them."""
    height = max(plane.shape[0] for plane in planes)
    parts = []
    for plane in planes:
        above = (height - plane.shape[0]) // 2
        parts.append(np.pad(plane, ((above, height - plane.shape[0] - above), (0, gap))))
    row: NDArray[Any] = np.concatenate(parts, axis=1)
    return row[:, :-gap]


# ── upright volumes, in slices of square pixels ───────────────────────────────────────────────────


def upright(volume: Volume, inside: BoolArray) -> tuple[FloatArray, tuple[float, ...]]:
    """Reorient a volume.

    Parameters
    ----------
    volume : the volume, in any orientation.
    inside : which of its voxels to show, flattened like `Volume.flat`.

    Returns
    -------
    picture : the values along axes that point to the right, forward and up (RAS+); NaN outside.
    spacing : the distance between voxels along each of these axes, in millimetres.
    """
    values = volume.values(volume.flat).astype(np.float64)
    values[~(inside & np.isfinite(values))] = np.nan
    orientation, spacing = axes_of(volume.affine)
    return _turned(volume, values, orientation), tuple(spacing.tolist())


def _square(plane: FloatArray, first: float, second: float) -> FloatArray:
    """Resample a plane of this spacing to square pixels, each that of the nearest voxel."""
    unit = min(first, second)
    rows, columns = (
        (np.arange(max(1, round(length * size / unit))) * unit / size).astype(int)
        for length, size in zip(plane.shape, (first, second), strict=True)
    )
    resampled: FloatArray = plane[np.ix_(rows, columns)]
    return resampled


def small_volume(picture: FloatArray, spacing: tuple[float, ...]) -> bytes:
    """Return an upright volume as a small NIfTI file, for a viewer in a web page.

    Parameters
    ----------
    picture, spacing : as returned by `upright`.

    Returns
    -------
    content : a ``.nii.gz`` file of unsigned bytes, cropped, and averaged over blocks to at most 56
        voxels along each axis. 0 is outside, and 1 to 255 span the 0.5th to the 99.5th percentile,
        whose intensities the scaling of the file gives.
    """
    filled = np.nonzero(np.isfinite(picture))
    picture = picture[tuple(slice(at.min(), at.max() + 1) for at in filled)]
    extent = max(length * size for length, size in zip(picture.shape, spacing, strict=True))
    steps = [max(1, int(np.ceil(extent / _MAX_LENGTH / size - 1e-9))) for size in spacing]
    low, high = np.percentile(picture[np.isfinite(picture)], _SHOWN).tolist()
    blocks = np.zeros([-(-n // step) for n, step in zip(picture.shape, steps, strict=True)])
    ends = [(0, -n % step) for n, step in zip(picture.shape[1:], steps[1:], strict=True)]
    for place in range(len(blocks)):  # slab by slab, for the sake of memory
        slab = picture[place * steps[0] : (place + 1) * steps[0]]
        scaled = np.clip((slab - low) / max(high - low, 1e-300), 0, 1)
        levels = np.pad(np.where(np.isfinite(slab), 1 + 254 * scaled, 0.0), [(0, 0), *ends])
        parts = levels.reshape(len(slab), blocks.shape[1], steps[1], blocks.shape[2], steps[2])
        blocks[place] = parts.sum(axis=(0, 2, 4)) / math.prod(steps)
    affine = np.diag([*(step * size for step, size in zip(steps, spacing, strict=True)), 1.0])
    affine[:3, 3] = -0.5 * np.array(blocks.shape) * np.diag(affine)[:3]
    slope = max(high - low, 1e-300) / 254
    image = nibabel.Nifti1Image(np.rint(blocks).astype(np.uint8), affine)  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(slope, low - slope)  # type: ignore[no-untyped-call]
    return gzip.compress(image.to_bytes(), 9, mtime=0)


# ── PNG ───────────────────────────────────────────────────────────────────────────────────────────


def encode_png(
    pixels: Greys, note: dict[str, Any] | None = None, palette: Sequence[str] = ()
) -> bytes:
    """Return a picture as a PNG file.

    Parameters
    ----------
    pixels : (height, width), the grey of each pixel, where 0 is transparent; or, with a palette,
        the number of its colour.
    note : to be kept in the file.
    palette : the colours, at most 256, each as ``#rrggbb``.
    """
    height, width = pixels.shape
    rows = np.empty((height, width + 1), np.uint8)
    rows[:, 0], rows[:, 1:] = _SUB, pixels
    np.subtract(pixels[:, 1:], pixels[:, :-1], out=rows[:, 2:])
    colour, level = (_PALETTE, 9) if palette else (_GREY, 1)  # 9 saves little of greys, and is slow
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))]
    if note is not None:
        chunks.append((b"tEXt", f"{_KEYWORD}\0{json.dumps(note)}".encode("ascii")))
    colours = bytes.fromhex("".join(palette).replace("#", ""))
    chunks.append((b"PLTE", colours) if palette else (b"tRNS", b"\0\0"))
    chunks += [(b"IDAT", zlib.compress(rows.tobytes(), level)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
