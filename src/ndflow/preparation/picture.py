"""A picture for quality control: slices before and after, with the outlines of what was found.

Sagittal, coronal and axial slices side by side. Above, the scan as it was, with the outline of the
mask; below, free of bias, with the borders of WM and of GM to CSF. Both rows have one grey window,
so a bias field shows as a difference between them. Channels that were brought to the grid of the
scan follow, each in a row with the same borders. Where there is a lesion, the slices lead through
it, and all rows have its outline.

An outline is one pixel wide and belongs to what it surrounds: a pixel has its colour if it is
inside, and one of its four neighbours is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from nibabel.orientations import apply_orientation
from numpy.typing import NDArray
from scipy import ndimage

from ndflow.image.preview import Greys, axes_of, encode_png, side_by_side
from ndflow.image.volume import Volume
from ndflow.preparation.registration import Bools, Map
from ndflow.preparation.volume import PreparedVolume
from ndflow.values import FloatArray

# Colours of Okabe and Ito, which are distinguishable with any type of colour vision. Yellow, which
# is faint on paper, is the clearest of them on a dark picture.
OUTLINES = {"mask": "#56B4E9", "GM": "#F0E442", "WM": "#D55E00", "lesion": "#CC79A7"}

Moved = Sequence[tuple[str, Map]]

_PIXEL = 0.5  # mm
_LONGEST = 600  # pixels of a slice, where the mask is a whole head or more
_SHORTEST = 300  # pixels of the longest slice, where it is the brain of a small animal
_MARGIN = 10.0  # mm around the brain: what the mask has left out must be seen
_GAP = 6  # pixels between slices
_GREYS = 24  # shades: more can hardly be told apart, and make the file larger
_SHOWN = (0.5, 99.5)  # percentiles of the brain: black, and nearly white
_ROOM = 1.25  # the latter is left for what is brighter than the brain, and for coloured lines


class _Frame(NamedTuple):
    """Which part of an upright volume a slice shows.

    Attributes
    ----------
    axis, place : across which axis it lies, and where along it.
    first : the edges of the frame, in millimetres from those of the volume.
    shape : its pixels along each axis of the plane.
    spacing : of the voxels along these axes, in millimetres.
    pixel : of the pixels.
    """

    axis: int
    place: int
    first: FloatArray
    shape: tuple[int, ...]
    spacing: FloatArray
    pixel: float

    def pixels(self, plane: NDArray[Any]) -> Map:
        """Return a plane in square pixels, rows from top to bottom."""
        step, first = self.pixel / self.spacing, (self.first + self.pixel / 2) / self.spacing - 0.5
        values, shape = plane.astype(np.float32), self.shape
        found: Map = ndimage.affine_transform(
            values, np.diag(step), first, output_shape=shape, order=1, mode="nearest"
        )
        return np.rot90(found)

    def drawn(
        self, values: NDArray[Any], window: tuple[float, float], regions: Mapping[str, NDArray[Any]]
    ) -> Greys:
        """Return the slice with outlines of masks or probabilities, in numbers of the palette."""
        low, high = window
        plane = values.take(self.place, self.axis)
        shown = self.pixels(np.where(np.isfinite(plane), plane, low))
        share = np.clip((shown - low) / (high - low), 0, 1)
        levels: Greys = np.rint(share * (_GREYS - 1)).astype(np.uint8)
        for number, name in enumerate(OUTLINES):
            if name in regions:
                inside: Bools = self.pixels(regions[name].take(self.place, self.axis)) > 0.5
                edge = inside & ~ndimage.binary_erosion(inside, border_value=1)
                levels[edge] = _GREYS + number
        return levels


def preparation_picture(
    volume: Volume, prepared: PreparedVolume, lesion: Bools | None = None, moved: Moved = ()
) -> bytes:
    """Return the picture of a prepared scan, as a PNG file.

    Parameters
    ----------
    volume : the scan as it was.
    prepared : what was made of it. If neither the bias field was corrected nor tissues were found,
        there is one row.
    lesion : which voxels are a lesion.
    moved : channels that were brought to its grid, and their names.
    """
    orientation, spacing = axes_of(volume.affine)
    turn = partial(apply_orientation, ornt=orientation)
    before, after, brain = (
        turn(array) for array in (volume.spatial_values, prepared.corrected, prepared.brain)
    )
    rows: list[tuple[NDArray[Any], dict[str, NDArray[Any]]]] = [(before, {"mask": brain})]
    if prepared.tissues is not None:
        csf, _, wm = (turn(part) for part in prepared.tissues)
        rows.append((after, {"GM": brain - csf, "WM": wm}))
    elif prepared.measures.field is not None:
        rows.append((after, {"mask": brain}))
    names = [*["before", "after"][: len(rows)], *(name for name, _ in moved)]
    rows += [(turn(values), rows[-1][1]) for _, values in moved]
    through = brain
    if lesion is not None and lesion.any():
        through = turn(lesion)
        rows = [(values, {**regions, "lesion": through}) for values, regions in rows]
    frames = _frames(brain, through, spacing)
    planes = [(frame.place, frame.axis) for frame in frames]
    pictures = []
    for name, (values, regions) in zip(names, rows, strict=True):
        like = after if name == "before" else values
        inner = np.concatenate([like.take(*plane)[brain.take(*plane)] for plane in planes])
        low, high = np.percentile(inner, _SHOWN).tolist() if inner.size else (0.0, 1.0)
        window = (low, low + _ROOM * (high - low)) if low < high else (low - 0.5, low + 0.5)
        slices = [frame.drawn(values, window, regions) for frame in frames]
        pictures.append(side_by_side(slices, _GAP))
    gap = np.zeros((_GAP, pictures[0].shape[1]), np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)][1:]
    note = {"rows": names, "outlines": OUTLINES}
    greys = np.rint(np.linspace(0, 255, _GREYS)).astype(int).tolist()
    palette = [*(f"#{grey:02x}{grey:02x}{grey:02x}" for grey in greys), *OUTLINES.values()]
    return encode_png(np.concatenate(parts), note, palette)


def _frames(brain: Bools, through: Bools, spacing: FloatArray) -> list[_Frame]:
    """Return the slices to show: sagittal, coronal and axial, where a region is fullest.

    Parameters
    ----------
    brain : what they are cropped to.
    through : the region.
    spacing : of the voxels, in millimetres.
    """
    box = ndimage.find_objects(brain.astype(np.int8))[0]
    low = np.array([part.start for part in box]) * spacing - _MARGIN
    high = np.array([part.stop for part in box]) * spacing + _MARGIN
    low, high = np.maximum(low, 0), np.minimum(high, np.array(brain.shape) * spacing)
    longest = float((high - low).max())
    pixel = min(max(_PIXEL, longest / _LONGEST), longest / _SHORTEST)
    found = []
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        place = int(np.argmax(through.sum(axis=tuple(others))))
        shape = np.ceil((high - low)[others] / pixel - 1e-6).astype(int)
        found.append(_Frame(axis, place, low[others], tuple(shape), spacing[others], pixel))
    return found
