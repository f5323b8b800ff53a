"""What is measured about a mask and the image inside, and when a mask may not be that of a brain.

All figures but the volume of the field of view are measured on a grid of about 2 mm, which finer
images are sampled on: a mask is judged to a few millimetres, and the cost does not grow with the
resolution.

Most masks that are wrong are too wide, and most of what they add is bone, which gives no signal in
any contrast. So we look at the rim, the outermost 4 mm of the mask. With x the intensities of the
rim and m the median of what lies deeper than 8 mm, its brightness is the mean of min(x, m) / m.
The minimum leaves out how bright things are: vessels, fat, or CSF in T2w. In T1w, CSF has
about 0.3 and cortex 0.7 of m, and the rim of a brain is made of both. Where the mask reaches the
end of the field of view, the brain is cut off, and has no rim. A lesion may be as dark as bone, so
its voxels do not count.

Figures that say little about a single scan, but much about the scans of a site, are judged in
`ndflow.study.site_checks`: the order of the contrast, CSF that is missing, shading, overflow, and
whether the mask would fit better if it were flipped.

The bounds are about human brains. Objects of less than 200 ml, such as phantoms and the brains of
most animals, are not judged by their size or their rim. What was measured on real scans is in
``docs/guides/masks.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.image.mask import BoolArray
from ndflow.image.volume import Volume
from ndflow.values import Doubt, FloatArray, Record

_GRID_MM = 2.0
_RIM_MM = 4.0  # and as much again to the interior
_ACROSS = (1, 2), (0, 2), (0, 1)  # the axes of slices
_FEWEST = 100  # voxels of rim and interior, to compare them
_MOST = 1 << 21  # voxels of the grid: for the sake of memory, larger volumes get a coarser one
_SAMPLE = 1 << 16  # values to look at, at most
_NEGATIVE = 0.01  # the share of voxels below 0 beyond which 0 does not mean "no signal"

LARGEST = 2000.0  # ml: intracranial volumes of adults are 1000 to 2000, heads 3000 and more
SMALLEST = 600.0  # ml: that of a child of six months
_HEAD_FITS = 2000.0  # ml: a field of view that a head would fit into
JUDGED = 200.0  # ml
_DARK_RIM = 0.5  # between CSF, 0.3, and cortex, 0.7: darker means more than half CSF, or bone
_DARK_FOUND_RIM = 0.4  # of masks that deepbet found, which hold all CSF: had 0.45 to 0.61
CUT_OFF = 0.15  # a sphere as large as a brain that lacks 5 mm on one side; real brains have < 0.1
_NOISE = 0.1  # of the voxels outside: 0 where the skull was removed, 0.3 and more around heads
_ZEROS = 0.03  # 3 % of zeros, 2.5 sd from the mean, move it by 0.08 sd
_PIECES = 0.9  # the cerebellum is a tenth of the brain

TOO_WIDE = (
    "mask too wide",
    "look at the mask on the scan, and give one of the brain alone (--mask, or the column mask)",
)
TOO_SMALL = ("mask too small", "look at the mask on the scan: parts of the brain may be missing")
NO_MASK = ("no mask", "give a mask of the brain (--mask, or the column mask of the table)")
_HEAD = (
    "whole head",
    "give a mask of the brain (--mask, or the column mask of the table), or try --mask brain",
)
_ZERO = ("zeros inside the mask", "check that the mask is of this image, and not too wide")
_IN_PIECES = ("mask in pieces", "look at the mask, and keep its largest piece")
# Kinds of doubt about voxels beside the brain, which are darker than it.
BESIDE = {kind for kind, _ in (TOO_WIDE, NO_MASK, _HEAD, _ZERO)}
CUT = ("brain cut off", "check that image and mask show the whole brain")

_WIDEST = 4  # bytes of an integer type that may overflow
# `rise` in T1w is .8 to .9, and .7 with a contrast agent; in T2w .4, in FLAIR .3 to .65.
T1W_RISE, T1W_LEAST = 0.85, 0.6
_APART = 0.2  # of images of which one is inverted
_RANKED = 1 << 12  # voxels of rim and interior whose ranks are compared
_DARK = 0.5  # of the interior's median, as in CSF in T1w
_LENGTH = 70.0  # mm, the unit of the polynomial of shading: the radius of a brain
_FITTED, _ROUNDS = 2000, 6  # voxels for its fit, and rounds of it
_NEAR, _LEAST_NEAR = 1.5, 0.02  # residuals that count: in their standard deviation, and at least
_OVERFLOW = 0.75  # of the range of an integer type, between neighbours


@dataclass(frozen=True)
class MaskFigures(Record):
    """What was measured about a mask.

    Attributes
    ----------
    share : of the voxels of the image that are inside.
    cut : the first or last slice that the mask covers, relative to the largest one along the same
        axis; of all axes, the largest. Where a brain is cut off, its end is flat.
    zeros : the share of the voxels inside whose value is 0.
    largest : the share of the largest connected component.
    noise : the share of the voxels outside that differ from their median: where somebody has
        removed everything but the brain, all are alike; in air, there is noise.
    volume : in millilitres; None for an array, whose voxels have no size.
    field_of_view : the volume of the whole image, likewise.
    rim : the brightness of the rim, see above; None where it means nothing, as in images that hold
        negative values.
    rim_share : the share of the mask that is rim. A mask without CSF has holes and clefts.
    rise : the share of pairs of voxels, one of the rim and one of the interior, in which that of
        the interior is the brighter one. Increasing maps leave it as it is; inverted, it is 1 less.
    dark : the share of voxels darker than half the median of the interior.
    mirrored : how much brighter the voxels inside would be, on average and relative to that median,
        if the mask were flipped left to right.
    shading : the standard deviation of the logarithm of a smooth field in the bright tissue.
    overflow : the share of neighbours inside that differ by most of the range of an integer type.
    """

    share: float
    cut: float
    zeros: float
    largest: float
    noise: float
    volume: float | None = None
    field_of_view: float | None = None
    rim: float | None = None
    rim_share: float | None = None
    rise: float | None = None
    dark: float | None = None
    mirrored: float | None = None
    shading: float | None = None
    overflow: float | None = None


def measure_mask(image: Volume, inside: BoolArray, lesion: BoolArray | None = None) -> MaskFigures:
    """Measure the mask of an image.

    Parameters
    ----------
    image : the image.
    inside : which of its voxels are inside, at least one, flattened like `Volume.flat`.
    lesion : which of its voxels are a lesion, whose brightness says nothing about the mask.

    Returns
    -------
    MaskFigures
        What was measured. A mask that the grid of 2 mm misses altogether has a share of 0.
    """
    from scipy import ndimage  # slow to import

    shape = (*image.spatial_shape, 1, 1)[:3]
    sizes = np.linalg.norm(image.affine[:3, :3], axis=0)
    sized = image.placed and bool(np.isfinite(sizes).all() and (sizes > 0).all())
    if not sized:
        sizes = np.ones(3)
    steps = [max(1, round(_GRID_MM / size)) if sized else 1 for size in sizes]
    while math.prod(-(-length // step) for length, step in zip(shape, steps, strict=True)) > _MOST:
        steps[int(np.argmin(sizes * steps))] *= 2

    def sampled(flat: NDArray[Any]) -> NDArray[Any]:
        """Return voxels on the grid, last axis first: all that follows is symmetric in the axes."""
        return flat.reshape(shape, order="F")[tuple(slice(None, None, step) for step in steps)].T

    stored, chosen = sampled(image.flat), np.ascontiguousarray(sampled(inside))
    count = int(np.count_nonzero(chosen))
    if not count:
        return MaskFigures(0.0, 0.0, 0.0, 0.0, 0.0)
    share = count / chosen.size
    air = _some(image, stored, ~chosen)
    noise = float(np.mean(air != np.median(air))) if air.size else 0.0
    filled = [np.flatnonzero(chosen.any(axis=across)) for across in _ACROSS]
    box = tuple(slice(max(0, places[0] - 1), places[-1] + 2) for places in filled)
    stored, chosen = stored[box], chosen[box]
    counts = chosen if lesion is None else chosen & ~sampled(lesion)[box]
    values = _some(image, stored, chosen)
    zeros = np.count_nonzero(image.is_zero(values)) / max(1, values.size)
    labels, _ = ndimage.label(chosen[::2, ::2, ::2])
    pieces = np.bincount(labels.reshape(-1))[1:]
    largest = float(pieces.max() / pieces.sum()) if pieces.size else 1.0
    found = MaskFigures(share, _cut(chosen), zeros, largest, noise)
    if not sized:
        return found
    field = image.voxel_mm3 * float(np.prod(shape)) / 1000
    left_right = int(np.argmax(np.abs(image.affine[0, :3])))
    flipped = np.flip(image.flat.reshape(shape, order="F"), left_right)
    flipped = flipped[tuple(slice(None, None, step) for step in steps)].T[box]
    return replace(
        found,
        volume=share * field,
        field_of_view=field,
        overflow=_overflow(stored, chosen),
        **_of_layers(image, stored, flipped, chosen, counts, (sizes * steps)[::-1]),
    )


def _cut(chosen: BoolArray) -> float:
    """Return how flat the ends of a mask are."""
    flat = 0.0
    for across in _ACROSS:
        areas = np.count_nonzero(chosen, axis=across)
        ends = areas[areas > 0][[0, -1]]
        if np.count_nonzero(areas) > 1:
            flat = max(flat, float(ends.max() / areas.max()))
    return flat


def _overflow(stored: NDArray[Any], chosen: BoolArray) -> float | None:
    """Return the share of neighbours inside that differ by most of the range of their type."""
    if stored.dtype.kind not in "iu" or stored.dtype.itemsize > _WIDEST:
        return None
    limits = np.iinfo(stored.dtype)
    far = _OVERFLOW * (float(limits.max) - float(limits.min))
    if float(stored.max()) - float(stored.min()) <= far:
        return 0.0
    both = chosen[..., 1:] & chosen[..., :-1]
    one, other = (side[both].astype(np.float32) for side in (stored[..., 1:], stored[..., :-1]))
    return float(np.mean(np.abs(one - other) > far)) if one.size else None


def _of_layers(
    image: Volume,
    stored: NDArray[Any],
    flipped: NDArray[Any],
    chosen: BoolArray,
    counts: BoolArray,
    sizes: NDArray[Any],
) -> dict[str, float]:
    """Return what the rim and the interior show, of voxels that count, which have certain sizes.

    Parameters
    ----------
    image : says what stored voxels mean.
    stored, flipped : the voxels; and those of the image flipped left to right.
    chosen, counts : which are inside, and which of these count.
    sizes : of voxels, in mm.
    """
    layers = [round(_RIM_MM / size) for size in sizes]
    core = chosen
    for done in range(max(layers)):
        core = _without_surface(core, [done < number for number in layers])
    coarse = (slice(None, None, 2),) * 3
    interior = _without_surface(core[coarse], [number > 0 for number in layers]) & counts[coarse]
    deep = _some(image, stored[coarse], interior)
    rim = _some(image, stored, counts & ~core)
    found = {"rim_share": 1 - float(np.count_nonzero(core) / np.count_nonzero(chosen))}
    if min(deep.size, rim.size) < _FEWEST:
        return found
    found["rise"] = _rise(deep, rim)
    values, usual = _some(image, stored, counts), float(np.median(deep))
    if np.count_nonzero(values < 0) > _NEGATIVE * values.size or usual <= 0:
        return found
    parts = (rim, values, _some(image, flipped, counts))
    found["rim"], own, other = (float(np.clip(one, 0, usual).mean()) / usual for one in parts)
    found["dark"] = float(np.mean(values < _DARK * usual))
    found["mirrored"] = other - own
    thin = (slice(None, None, max(1, round((deep.size / _FITTED) ** (1 / 3)))),) * 3
    at = np.argwhere(interior[thin]) * (2 * thin[0].step * sizes / _LENGTH)
    found["shading"] = _shading(image.values(stored[coarse][thin][interior[thin]]), at)
    return found


def _rise(deep: NDArray[Any], rim: NDArray[Any]) -> float:
    """Return the share of pairs in which the deep voxel is the brighter one; of equal ones, half.

    This is the statistic of Mann and Whitney, relative to its largest value.
    """
    ranked, other = (np.sort(one[:: -(-one.size // _RANKED)]) for one in (deep, rim))
    below, not_above = (np.searchsorted(other, ranked, side) for side in ("left", "right"))
    return float((below.mean() + not_above.mean()) / (2 * other.size))


def is_inverted(rise: float, usual: float) -> bool:
    """Tell whether brightness changes from rim to interior in the other way than usual."""
    return (rise - 0.5) * (usual - 0.5) < 0 and abs(rise - usual) > _APART


def _shading(values: NDArray[Any], at: FloatArray) -> float:
    """Return how much a smooth field varies in the bright tissue, as a standard deviation.

    A polynomial of second degree is fitted to the logarithms of the brighter half of the voxels,
    and again to those that are near it, whatever their brightness.

    Parameters
    ----------
    values : of voxels.
    at : where they are, (n, 3).
    """
    known = np.isfinite(values) & (values > 0)
    logs, at = np.log(values[known].astype(np.float64)), at[known] - at[known].mean(axis=0)
    x, y, z = at.T
    terms = np.stack([np.ones(len(at)), x, y, z, x * x, y * y, z * z, x * y, x * z, y * z], axis=1)
    used, field = logs >= np.median(logs), logs
    for _ in range(_ROUNDS):
        some = terms[used]
        field = terms @ np.linalg.lstsq(some.T @ some, some.T @ logs[used])[0]
        away = np.abs(logs - field)
        used = away < max(_NEAR * 1.4826 * float(np.median(away[used])), _LEAST_NEAR)
    return float(field[used].std())


def _without_surface(chosen: BoolArray, along: list[bool]) -> BoolArray:
    """Return the voxels whose neighbours along some axes are inside or beyond the volume."""
    core = chosen.copy()
    for axis in (axis for axis in range(3) if along[axis]):
        inner, outer = np.moveaxis(core, axis, 0), np.moveaxis(chosen, axis, 0)
        inner[1:] &= outer[:-1]
        inner[:-1] &= outer[1:]
    return core


def _some(image: Volume, stored: NDArray[Any], chosen: BoolArray) -> NDArray[Any]:
    """Return the finite values of some of the chosen voxels, all of them if they are few."""
    step = math.ceil((np.count_nonzero(chosen) / _SAMPLE) ** (1 / 3)) or 1
    thinned = (slice(None, None, step),) * 3
    values = image.values(stored[thinned][chosen[thinned]])
    return values[np.isfinite(values)] if values.dtype.kind == "f" else values


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────


def mask_doubts(figures: MaskFigures, *, given: bool, found: bool = False) -> tuple[Doubt, ...]:
    """Return what is doubtful about a mask.

    Parameters
    ----------
    figures : what was measured.
    given : whether it is a mask of the brain, which the user gave or deepbet found, and not all
        voxels but 0 or the foreground.
    found : whether deepbet found it.

    Examples
    --------
    >>> head = MaskFigures(0.4, 0.2, 0.0, 1.0, 0.5, volume=3500.0, field_of_view=9000.0)
    >>> [doubt.kind for doubt in mask_doubts(head, given=False)]
    ['whole head']
    """
    volume, rim, brain = figures.volume or 0.0, figures.rim, (figures.volume or 0.0) >= JUDGED
    holds = f"{'The mask holds' if given else 'The voxels used are'} {volume:,.0f} ml"
    flat = f"flat: an end as large as {figures.cut:.0%} of the largest slice"
    cut, doubts = figures.cut > CUT_OFF, []
    if volume > LARGEST:
        text = f"{holds}, but a brain with all its CSF at most {LARGEST:,.0f} ml"
        doubts.append((TOO_WIDE if given else _HEAD, text))
    elif volume < SMALLEST and (figures.field_of_view or 0.0) >= _HEAD_FITS:
        doubts.append((TOO_SMALL, f"{holds}, but a brain at least {SMALLEST:,.0f} ml"))
    elif not given and cut and volume >= SMALLEST:
        doubts.append((_HEAD, f"{holds}, and end {flat}"))
    elif not given and brain and figures.noise > _NOISE:
        text = f"{holds}, and there is noise around, so the skull was not removed"
        doubts.append((_HEAD, text))
    elif brain:
        if rim is not None and rim < (_DARK_FOUND_RIM if found else _DARK_RIM):
            text = f"The outermost 4 mm of the voxels used have {rim:.0%} of the signal inside"
            text += ", so they seem to hold bone or background"
            doubts.append((TOO_WIDE if given else NO_MASK, text))
        if cut:
            doubts.append((CUT, f"The mask ends {flat}"))
    if figures.zeros > _ZEROS:
        doubts.append((_ZERO, f"{figures.zeros:.1%} of the voxels inside the mask are 0"))
    if brain and figures.largest < _PIECES:
        text = f"The largest piece of the mask is {figures.largest:.0%} of it"
        doubts.append((_IN_PIECES, text))
    return tuple(Doubt(kind, f"{text}.", hint) for (kind, hint), text in doubts)
