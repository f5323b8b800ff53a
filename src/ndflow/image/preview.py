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
from ndflow.image.mask import BoolArray, Inside
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
_AS_STORED = np.array([[0, 1], [1, 1], [2, 1]])
_MAX_BYTES = 64 << 20
_PATH = re.compile(r"(M[0-9]+ [0-9]+[hv][0-9]+)*")
_MAX_LENGTH = 56  # voxels along each axis of a small volume

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"ndflow\0"
_GREY, _PALETTE = 0, 3  # what the pixels mean
_SUB, _UP = 1, 2  # the filters: each pixel less its left neighbour, or the one above
_LEVEL = 1  # of compression of grey pictures: others save a twentieth, and take longer
_SMALLEST = 9  # of compression of pictures in colour
_MOST_PIXELS = 1 << 28  # pixels that a file may claim to have


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
    volume: Volume, inside: Inside, imap: Map | Volume, lesion: BoolArray | None = None
) -> Preview:
    """Return the preview of a scan.

    Parameters
    ----------
    volume : the scan.
    inside : which of its voxels to show, flattened like `Volume.flat`.
    imap : the intensity map that makes the result; or the result itself, on the same grid.
    lesion : which of its voxels are a lesion, flattened likewise; None if there is none.
    """
    planes, lesions = _slices(volume, inside, lesion)
    height = max(plane.shape[0] for plane in planes)
    widths = tuple(plane.shape[1] for plane in planes)
    old, old_window = _greys(planes, height)
    if isinstance(imap, Volume):
        results, _ = _slices(volume, inside, lesion, shown_of=imap)
    else:
        results = [_mapped(plane, imap) for plane in planes]
    new, new_window = _greys(results, height)
    outline = outline_of(_beside(lesions, height)) if lesions else ""
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
    level = _runs(inside[1:] != inside[:-1])
    upright = _runs((inside[:, 1:] != inside[:, :-1]).T)
    lines = [f"M{start - 1} {row}h{length}" for row, start, length in level]
    return "".join([*lines, *(f"M{at} {start - 1}v{length}" for at, start, length in upright)])


def _runs(edges: BoolArray) -> list[tuple[int, int, int]]:
    """Return the row, the start and the length of every run of edges along a row."""
    found = []
    for row in np.flatnonzero(edges.any(axis=1)).tolist():
        ends = np.flatnonzero(np.diff(np.pad(edges[row].astype(np.int8), 1)))
        pairs = zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)
        found += [(row, start, end - start) for start, end in pairs]
    return found


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
        lesion = note["lesion"]
        if not _PATH.fullmatch(lesion):
            raise ValueError("lesion")
    except (KeyError, TypeError, ValueError, OverflowError):
        cause = "not a preview, or damaged"
        raise FileError(path, cause, "remove it, and run the study again") from None
    return Preview(greys[:half], greys[half:], before, after, widths, lesion)


def _window(given: Any) -> Window:
    low, high = (float(end) for end in given)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("window")
    return low, high


def _slices(
    volume: Volume, inside: Inside, lesion: BoolArray | None, shown_of: Volume | None = None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return a slice across each axis, upright and cropped; NaN outside the mask.

    The second list holds the lesion on these slices, 1 inside; it is empty if there is none. The
    same slices of another volume are shown, if there is one.
    """
    shape = (*volume.spatial_shape, 1, 1)[:3]
    orientation, spacing = _geometry(volume.affine)
    if lesion is not None and not (lesion & inside[:]).any():
        lesion = None
    stored, within, ill = (  # views, not copies
        apply_orientation(flat.reshape(shape, order="F"), orientation)  # type: ignore[no-untyped-call]
        for flat in (volume.flat, inside[:], inside[:] if lesion is None else lesion)
    )
    another = None
    if shown_of is not None:
        turned = shown_of.flat.reshape(shape, order="F")
        another = apply_orientation(turned, orientation)  # type: ignore[no-untyped-call]
    found, lesions = [], []
    for axis in _planes(within.shape):
        if lesion is None:
            coarse = _lattice(within, axis)
            place = _middle(volume.values(stored[coarse]), within[coarse], axis)
        else:
            place = _largest(ill & within, axis)
        plane = tuple(place if other == axis else slice(None) for other in range(3))
        values = volume.values(stored[plane]).astype(np.float64)
        shown = np.where(within[plane] & np.isfinite(values), values, np.nan)
        rows, columns = (float(spacing[other]) for other in range(3) if other != axis)
        crop = _crop(shown)
        seen = shown
        if shown_of is not None and another is not None:
            seen = np.where(np.isfinite(shown), shown_of.values(another[plane]), np.nan)
        found.append(np.rot90(square(_cropped(seen, crop), rows, columns)))
        if lesion is not None:
            marked = np.where(np.isfinite(shown) & ill[plane], 1.0, np.nan)
            lesions.append(np.rot90(square(_cropped(marked, crop), rows, columns)))
    return found, lesions


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


def _largest(region: BoolArray, axis: int) -> int:
    """Return the slice that shows most of a region."""
    counts = region.sum(axis=tuple(other for other in range(3) if other != axis))
    return int(np.argmax(counts))


def _crop(plane: FloatArray) -> tuple[slice, slice]:
    """Return the part of a slice that holds all that is inside."""
    shown = np.isfinite(plane)
    first, second = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    if not first.size:
        return slice(None), slice(None)
    return slice(first[0], first[-1] + 1), slice(second[0], second[-1] + 1)


def _cropped(plane: FloatArray, crop: tuple[slice, slice]) -> FloatArray:
    """Return a part of a slice with a narrow margin around it; all of it without one."""
    if crop == (slice(None), slice(None)):
        return plane
    return np.pad(plane[crop], _MARGIN, constant_values=np.nan)


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
    scaled = (1 + 254 * np.clip((plane - low) / (high - low), 0, 1) for plane in planes)
    return _beside([np.rint(plane) for plane in scaled], height), (low, high)


def _beside(planes: Sequence[FloatArray], height: int) -> Greys:
    """Return slices side by side, each in the middle of its height; 0 for NaN."""
    columns: list[Greys] = []
    for plane in planes:
        above = (height - plane.shape[0]) // 2
        column = np.zeros((height, plane.shape[1] + _GAP), np.uint8)
        levels = np.where(np.isfinite(plane), plane, 0)
        column[above : above + plane.shape[0], : plane.shape[1]] = levels
        columns.append(column)
    return np.concatenate(columns, axis=1)[:, :-_GAP]


# ── upright volumes, in slices of square pixels ───────────────────────────────────────────────────


def upright(volume: Volume, inside: Inside) -> tuple[FloatArray, tuple[float, ...]]:
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
    values[~(inside[:] & np.isfinite(values))] = np.nan
    shaped = values.reshape(volume.spatial_shape, order="F")
    orientation = io_orientation(volume.affine)  # type: ignore[no-untyped-call]
    picture: FloatArray = apply_orientation(shaped, orientation)  # type: ignore[no-untyped-call]
    spacing = np.linalg.norm(volume.affine[:3, :3], axis=0)[np.argsort(orientation[:, 0])]
    return picture, tuple(spacing.tolist())


def fullest(picture: FloatArray, axis: int) -> int:
    """Return the index along an axis of the slice with the most voxels inside (not NaN)."""
    others = tuple(other for other in range(3) if other != axis)
    return int(np.argmax(np.isfinite(picture).sum(axis=others)))


def slice_at(picture: FloatArray, spacing: tuple[float, ...], axis: int, place: int) -> FloatArray:
    """Return a slice of an upright volume for display, with square pixels.

    Parameters
    ----------
    picture, spacing : as returned by `upright`.
    axis, place : across which axis, and where along it.

    Returns
    -------
    plane : rows from top to bottom. Up (axial: front) is at the top, and right (sagittal: front) is
        on the right.
    """
    first, second = (size for other, size in enumerate(spacing) if other != axis)
    return np.rot90(square(np.take(picture, place, axis=axis), first, second))


def square(plane: FloatArray, first: float, second: float) -> FloatArray:
    """Resample a plane of this spacing to square pixels, each that of the nearest voxel."""
    unit = min(first, second)
    rows, columns = (
        (np.arange(max(1, round(length * size / unit))) * unit / size).astype(int)
        for length, size in zip(plane.shape, (first, second), strict=True)
    )
    square: FloatArray = plane[np.ix_(rows, columns)]
    return square


def small_volume(picture: FloatArray, spacing: tuple[float, ...]) -> bytes:
    """Return an upright volume as a small NIfTI file, for a viewer in a web page.

    Parameters
    ----------
    picture, spacing : as returned by `upright`.

    Returns
    -------
    content : a ``.nii.gz`` file of unsigned bytes, averaged over blocks to at most 56 voxels along
        each axis. 0 is outside, and 1 to 255 span the 0.5th to the 99.5th percentile.
    """
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
    image = nibabel.Nifti1Image(np.rint(blocks).astype(np.uint8), affine)  # type: ignore[no-untyped-call]
    return gzip.compress(image.to_bytes(), 9, mtime=0)


# ── PNG ───────────────────────────────────────────────────────────────────────────────────────────


def encode_png(greys: Greys, note: dict[str, Any] | None = None) -> bytes:
    """Return a picture as a PNG file.

    Parameters
    ----------
    greys : (height, width), the grey of each pixel; 0 is transparent.
    note : to be kept in the file.

    Examples
    --------
    >>> decode_png(encode_png(np.array([[0, 9]], np.uint8), {"a": 1}), "a.png")
    (array([[0, 9]], dtype=uint8), {'a': 1})
    """
    rows = _rows(greys, _SUB)
    np.subtract(greys[:, 1:], greys[:, :-1], out=rows[:, 2:])
    return _file(
        greys.shape, _GREY, [(b"tRNS", b"\0\0")], zlib.compress(rows.tobytes(), _LEVEL), note
    )


def encode_palette(
    numbers: Greys, palette: Sequence[str], note: dict[str, Any] | None = None
) -> bytes:
    """Return a picture in colour as a PNG file.

    Parameters
    ----------
    numbers : (height, width), the number of the colour of each pixel.
    palette : the colours, at most 256, each as ``#rrggbb``.
    note : to be kept in the file.
    """
    colours = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in palette)
    rows = _rows(numbers, _UP)
    np.subtract(numbers[1:], numbers[:-1], out=rows[1:, 1:])
    packed = zlib.compress(rows.tobytes(), _SMALLEST)
    return _file(numbers.shape, _PALETTE, [(b"PLTE", colours)], packed, note)


def decode_png(content: bytes, path: AnyPath) -> tuple[Greys, dict[str, Any]]:
    """Return the picture and the note in a PNG file that we wrote.

    Parameters
    ----------
    content : of the file.
    path : of the file, for messages.

    Raises
    ------
    FileError : if the file is not one of ours, or is damaged.
    """
    try:
        chunks = _chunks(content)
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        if not 0 < width * height <= _MOST_PIXELS:
            raise ValueError("size")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(chunks[b"IDAT"], (width + 1) * height)
        rows = np.frombuffer(data, np.uint8).reshape(height, width + 1)
        if not (rows[:, 0] == _SUB).all():
            raise ValueError("filter")
        note = json.loads(chunks[b"tEXt"].removeprefix(_KEYWORD))
        if not isinstance(note, dict):
            raise ValueError("note")
    except (KeyError, ValueError, struct.error, zlib.error) as error:
        cause = "not a picture that ndflow wrote, or damaged"
        raise FileError(path, cause, "remove it, and run the study again") from error
    return np.cumsum(rows[:, 1:], axis=1, dtype=np.uint8), note


def _rows(pixels: Greys, kind: int) -> NDArray[np.uint8]:
    """Return pixels with the filter before each row."""
    height, width = pixels.shape
    rows = np.empty((height, width + 1), np.uint8)
    rows[:, 0] = kind
    rows[:, 1:] = pixels
    return rows


def _file(
    shape: tuple[int, ...],
    colour: int,
    chunks: list[tuple[bytes, bytes]],
    packed: bytes,
    note: dict[str, Any] | None,
) -> bytes:
    height, width = shape
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    text = [] if note is None else [(b"tEXt", _KEYWORD + json.dumps(note).encode("ascii"))]
    parts = [(b"IHDR", head), *text, *chunks, (b"IDAT", packed), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(content: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a file; those of a kind that occurs repeatedly are joined."""
    if not content.startswith(_SIGNATURE):
        raise ValueError("signature")
    found: dict[bytes, bytes] = {}
    place = len(_SIGNATURE)
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, place + 8 + length)
        if zlib.crc32(kind + data) != checksum:
            raise ValueError("checksum")
        found[kind] = found.get(kind, b"") + data
        place += 12 + length
    return found
