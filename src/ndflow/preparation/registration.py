"""Correct the bias field, deform the template to a scan, and align images rigidly.

All of that is done on a working grid, with the brain at 2 mm.

The bias field is SimpleITK's (N4), the registration greedy's [yushkevich2016]. Both add up what
their threads find in the order in which they finish, and greedy adds a little noise at random. With
one thread and a fixed seed the same scan gives the same bytes; scans are processed in parallel
instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from ndflow._version import installing, not_installed
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.values import FloatArray, Record

Map = NDArray[np.float32]
Bools = NDArray[np.bool_]

# ── the working grid ──────────────────────────────────────────────────────────────────────────────
# The working grid: a scan's brain at 2 mm, along axes that point right, forward and up.
#
# The bias field is smooth and the template is an average, so neither needs the resolution of the
# scan. On a grid of our own, scans of any orientation, obliqueness and resolution look alike, and
# what is found there is brought back by interpolation.
#
# Voxels are averaged over the brain alone: with a mask `m` and a Gaussian `g` that widens a voxel
# to the new size, a value is ``(g * m v) / (g * m)``, so the background does not darken the edge.

RESOLUTION = 2.0  # mm
_MARGIN = 10.0  # mm around the brain
_FWHM = 2.3548  # of a Gaussian, in standard deviations
DAMAGED = 0.25  # of a voxel, for it to be part of a lesion
_LEAST = 1e-3  # of a voxel inside the brain, for its value to be known


class WorkingGrid(NamedTuple):
    """A brain on the working grid.

    Attributes
    ----------
    values : the intensities; 0 outside the brain.
    brain : which voxels are inside.
    affine : (4, 4), from voxel indices to millimetres; diagonal but for the origin.
    """

    values: Map
    brain: Bools
    affine: FloatArray


def voxel_sizes(affine: FloatArray) -> FloatArray:
    """Return the distance between voxels along each axis, in millimetres."""
    return np.asarray(np.linalg.norm(affine[:3, :3], axis=0), np.float64)


def widened(
    array: Map,
    size: FloatArray,
    wanted: FloatArray | float,
    *,
    mode: Literal["constant", "nearest"],
) -> Map:
    """Blur an image so that its voxels are as wide as those of a coarser grid.

    Parameters
    ----------
    array : the image.
    size : of its voxels along each axis, in millimetres.
    wanted : that of the new ones. Where it is smaller, nothing changes.
    mode : what is beyond the edges: 0 ("constant"), or the nearest voxel.
    """
    blur = np.sqrt(np.maximum(np.square(wanted) - size**2, 0)) / _FWHM / size
    found: Map = ndimage.gaussian_filter(array, blur, mode=mode)
    return found


def working_grid(values: Map, affine: FloatArray, brain: Bools) -> WorkingGrid:
    """Bring a brain to the working grid.

    Parameters
    ----------
    values : the intensities of the scan.
    affine : (4, 4), from its voxel indices to millimetres.
    brain : which of its voxels are inside the brain.
    """
    box = ndimage.find_objects(brain.astype(np.int8))[0]
    first = np.eye(4)
    first[:3, 3] = [part.start for part in box]
    here = affine @ first
    inside = brain[box].astype(np.float32)
    known = np.where(brain[box], values[box], 0).astype(np.float32)
    size = voxel_sizes(affine)
    corners = np.argwhere(np.ones((2, 2, 2))) * (np.array(inside.shape) - 1) @ here[:3, :3].T
    low, high = corners.min(0) + here[:3, 3] - _MARGIN, corners.max(0) + here[:3, 3] + _MARGIN
    grid = np.diag([RESOLUTION, RESOLUTION, RESOLUTION, 1.0])
    grid[:3, 3] = low
    shape = tuple(np.ceil((high - low) / RESOLUTION).astype(int) + 1)
    there = np.asarray(np.linalg.inv(here) @ grid, np.float64)

    def coarse(array: Map) -> Map:
        return sampled(widened(array, size, RESOLUTION, mode="constant"), there, shape)

    share = coarse(inside)
    mean = coarse(known) / np.maximum(share, _LEAST)
    kept = share > 0.5
    return WorkingGrid(np.where(kept, mean, 0).astype(np.float32), kept, grid)


def interpolated(array: Map, grid: FloatArray, shape: tuple[int, ...], affine: FloatArray) -> Map:
    """Interpolate a map on the working grid at the voxels of the scan.

    Parameters
    ----------
    array, grid : the map, and its affine.
    shape, affine : of the scan.
    """
    there = np.linalg.inv(grid) @ affine
    return sampled(array.astype(np.float32), there, shape, mode="nearest")


def sampled(
    array: Map,
    there: FloatArray,
    shape: tuple[int, ...],
    *,
    order: Literal[1, 3] = 1,
    mode: Literal["constant", "nearest"] = "constant",
) -> Map:
    """Sample an image at the voxels of another grid.

    Parameters
    ----------
    array : the image.
    there : (4, 4), from the voxel indices of the other grid to those of the image.
    shape : of the other grid.
    order : of the spline.
    mode : what is beyond the edges: 0 ("constant"), or the nearest voxel.
    """
    found: Map = ndimage.affine_transform(
        array, there[:3, :3], there[:3, 3], output_shape=shape, order=order, mode=mode
    )
    return found


def lesion_on_grid(lesion: Bools | None, affine: FloatArray, coarse: WorkingGrid) -> Bools:
    """Return which voxels of the working grid are part of a lesion of the scan, if it has one."""
    if lesion is None:
        return np.zeros_like(coarse.brain)
    share = interpolated(lesion.astype(np.float32), affine, coarse.brain.shape, coarse.affine)
    return share > DAMAGED


# ── images of SimpleITK ───────────────────────────────────────────────────────────────────────────


def _itk_image(array: NDArray[Any], affine: FloatArray) -> Any:
    """Return an image for SimpleITK and greedy.

    Parameters
    ----------
    array : its voxels.
    affine : (4, 4), from voxel indices to millimetres. ITK would count these to the left and to the
        back; all that matters is that images agree.
    """
    image = import_module("SimpleITK").GetImageFromArray(np.ascontiguousarray(array.T, np.float32))
    image.SetOrigin(affine[:3, 3].tolist())
    image.SetSpacing(voxel_sizes(affine).tolist())
    image.SetDirection((affine[:3, :3] / voxel_sizes(affine)).ravel().tolist())
    return image


def _array(image: Any) -> Map:
    return np.ascontiguousarray(import_module("SimpleITK").GetArrayFromImage(image).T, np.float32)


# ── the bias field ────────────────────────────────────────────────────────────────────────────────
# The bias field of a scan: a smooth change of brightness, caused by the coils and not by tissue.
#
# It is estimated by N4 [tustison2010] from the brain on the working grid. Its geometric mean over
# the brain is made 1, so a corrected scan keeps its units.

_SPAN = 160.0  # mm between the knots of the first level
_ITERATIONS = (30, 30, 25)
_TOLERANCE = 1e-5
_SHRINK = 3


def log_bias_field(coarse: WorkingGrid, lesion: Bools) -> Map:
    """Estimate the logarithm of the bias field.

    Parameters
    ----------
    coarse : the brain on the working grid.
    lesion : voxels of that grid that the estimate does not see.

    Returns
    -------
    Map
        On the same grid, with a mean of 0 over the brain. Outside the brain it stays within the
        range that it has inside.

    Raises
    ------
    DegenerateDataError
        Where nothing is left to estimate it from.
    """
    inner = ndimage.binary_erosion(coarse.brain) & (coarse.values > 0) & ~lesion
    # N4 divides the whole image into spans; padded, these have the size that they should have.
    spans = [max(1, int(np.ceil(length * RESOLUTION / _SPAN))) for length in inner.shape]
    added = [
        int(np.ceil(count * _SPAN / RESOLUTION)) + 1 - length
        for count, length in zip(spans, inner.shape, strict=True)
    ]
    pad = [(some // 2, some - some // 2) for some in added]
    thinned = (slice(None, None, _SHRINK),) * 3
    mask = np.pad(inner, pad)[thinned]
    if not mask.any():
        raise DegenerateDataError("the brain is too small for a bias field, or has no signal")
    values = np.pad(coarse.values, pad)
    affine, small = (
        np.diag([size, size, size, 1.0]) for size in (RESOLUTION, _SHRINK * RESOLUTION)
    )
    sitk = import_module("SimpleITK")
    filter_ = sitk.N4BiasFieldCorrectionImageFilter()
    filter_.SetNumberOfThreads(1)
    filter_.SetMaximumNumberOfIterations(_ITERATIONS)
    filter_.SetConvergenceThreshold(_TOLERANCE)
    filter_.SetNumberOfControlPoints([count + 3 for count in spans])
    inside_small = sitk.Cast(_itk_image(mask, small), sitk.sitkUInt8)
    filter_.Execute(_itk_image(values[thinned], small), inside_small)
    whole = _array(filter_.GetLogBiasFieldAsImage(_itk_image(values, affine)))
    log = whole[tuple(slice(a, a + n) for (a, _), n in zip(pad, inner.shape, strict=True))]
    inside = log[coarse.brain]
    limited: Map = np.clip(log, inside.min(), inside.max()) - inside.mean()
    return limited.astype(np.float32)


# ── the template ──────────────────────────────────────────────────────────────────────────────────
# Real anatomy that is available wherever nilearn is: the ICBM152 average brain in its wheel.
#
# That template [fonov2011] consists of a skull-stripped T1-weighted image and tissue probability
# maps of GM and WM, all on one grid of 1 mm. What is inside the brain and neither GM nor WM is CSF.


class Anatomy(NamedTuple):
    """A template brain.

    Attributes
    ----------
    t1 : intensities between 0 and 1; 0 outside the brain.
    gm, wm : the probabilities of GM and WM; they extend a little beyond the brain.
    brain : the share of each voxel that is inside the brain.
    affine : (4, 4), from voxel indices to millimetres; diagonal but for the origin.
    """

    t1: Map
    gm: Map
    wm: Map
    brain: Map
    affine: FloatArray


def load_anatomy() -> Anatomy:
    """Read the template brain.

    Returns
    -------
    Anatomy
        The ICBM152 average brain, from nilearn, on a grid of 1 mm.

    Raises
    ------
    InvalidValueError
        Where nilearn is not installed.
    """
    if not_installed("nilearn"):
        raise InvalidValueError(f"the template brain needs nilearn; try {installing('report')}")
    datasets = import_module("nilearn.datasets")
    kinds = ("load_mni152_template", "load_mni152_gm_template", "load_mni152_wm_template")
    images = [getattr(datasets, load)(resolution=1) for load in kinds]
    t1, gm, wm = (np.ascontiguousarray(image.dataobj, dtype=np.float32) for image in images)
    brain = (t1 > 0).astype(np.float32)
    return Anatomy(t1, gm, wm, brain, np.asarray(images[0].affine, np.float64))


@cache
def halved_anatomy() -> Anatomy:
    """Return the template brain on a grid of 2 mm, each voxel the mean of eight."""
    full = load_anatomy()
    brain = _halved(full.brain)
    mean = _halved(full.t1) / np.maximum(brain, 1e-3)
    affine = full.affine @ np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] += np.diag(full.affine)[:3] / 2  # the centre of eight voxels
    t1 = np.where(brain > 0.5, mean, 0).astype(np.float32)
    return Anatomy(t1, _halved(full.gm), _halved(full.wm), brain, affine)


def _halved(array: Map) -> Map:
    half = [length // 2 for length in array.shape]
    even = array[: 2 * half[0], : 2 * half[1], : 2 * half[2]]
    blocks = even.reshape(half[0], 2, half[1], 2, half[2], 2)
    mean: Map = blocks.mean(axis=(1, 3, 5), dtype=np.float32)
    return mean


# ── registration ──────────────────────────────────────────────────────────────────────────────────
# The template brain, deformed to that of a scan: where to expect which tissue.
#
# The ICBM152 average [fonov2011] is registered by greedy on the working grid: twelve parameters
# first, then a smooth deformation, in some seconds.

_ALIKE = "-threads 1 -seed 1 -V 0"  # on every run
_METRIC = f"-m NCC 2x2x2 {_ALIKE}"
_LINEAR, _DEFORMABLE = "-n 60x20x0", "-n 60x40x5"  # iterations at 8, 4 and 2 mm
_FEWEST = 1000  # voxels of a brain: 8 ml
_SMOOTH = "-s 1.7vox 0.7vox"
_COARSE = 10.0  # mm: the standard deviation of what counts as coarse
_BRIGHTEST = 99.5  # percentile to which intensities are limited: vessels and fat are brighter
_FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])  # greedy's millimetres count to the right and to the front


class WarpedTemplate(NamedTuple):
    """The template on the working grid of a scan.

    Attributes
    ----------
    gm, wm : the probabilities of GM and WM.
    overlap : the Dice coefficient of the template's brain and that of the scan.
    likeness : the correlation of the template's intensities with those of the scan, where both
        have brain and no lesion, without what changes over centimetres, such as a bias field. A
        brain that is upside down is filled by the template as well as any other, but its sulci and
        ventricles are elsewhere.
    affine : (4, 4), from millimetres of the scan to millimetres of the template, before the
        deformation.
    """

    gm: Map
    wm: Map
    overlap: float
    likeness: float
    affine: FloatArray


def register_template(coarse: WorkingGrid, lesion: Bools) -> WarpedTemplate:
    """Deform the template to a scan.

    Parameters
    ----------
    coarse : the brain on the working grid, free of bias.
    lesion : voxels of that grid that the registration does not look at.

    Raises
    ------
    DegenerateDataError
        Where greedy finds no way to do so.
    """
    greedy = _Greedy(coarse, lesion)
    gm, wm, share, expected = greedy.deformed()
    brain = share > 0.5
    both = brain & coarse.brain
    dice = 2 * float(both.sum()) / max(1.0, float(brain.sum() + coarse.brain.sum()))
    likeness = _likeness(expected, greedy.fixed, both & ~lesion)
    return WarpedTemplate(gm, wm, dice, likeness, greedy.linear)


class _Greedy:
    """A registration of the template with a brain on the working grid.

    Attributes
    ----------
    fixed : the intensities of the brain, without the brightest.
    linear : (4, 4), the best linear map, from millimetres of the brain to those of the template.
    """

    def __init__(self, coarse: WorkingGrid, lesion: Bools) -> None:
        if coarse.brain.sum() < _FEWEST:
            raise DegenerateDataError("the brain is too small to register the template with it")
        self.fixed = _limited(coarse.values, coarse.brain)
        self._greedy = import_module("picsl_greedy").Greedy3D()
        anatomy = halved_anatomy()
        images = {"fixed": _itk_image(self.fixed, coarse.affine)}
        images["moving"] = _itk_image(anatomy.t1, anatomy.affine)
        self._images = "-i fixed moving"
        if lesion.any():
            self._images += " -gm seen"
            images["seen"] = _itk_image(~lesion, coarse.affine)
        how = f"{self._images} -dof 12 -ia-image-centers {_METRIC} {_LINEAR}"
        self.linear = _linear(self._greedy, how, **images)

    def deformed(self) -> list[Map]:
        """Return GM, WM, brain and intensities of the template, deformed to the brain."""
        how = f"{_METRIC} {_DEFORMABLE} {_SMOOTH}"
        _run(self._greedy, f"{self._images} -it linear {how} -o warp", warp=None)
        anatomy = halved_anatomy()
        maps = {name: getattr(anatomy, name) for name in ("gm", "wm", "brain", "t1")}
        moved = " ".join(f"-rm {name} {name}_there" for name in maps)
        _run(
            self._greedy,
            f"-rf fixed -r warp linear -threads 1 -V 0 {moved}",
            **{name: _itk_image(part, anatomy.affine) for name, part in maps.items()},
            **{f"{name}_there": None for name in maps},
        )
        return [_array(self._greedy[f"{name}_there"]) for name in maps]


def _linear(greedy: Any, how: str, **images: Any) -> FloatArray:
    """Return the linear map from millimetres of the fixed image to those of the moving one."""
    _run(greedy, f"-a {how} -o linear", **images, linear=None)
    found: FloatArray = np.asarray(greedy["linear"], np.float64)
    return _FLIP @ found @ _FLIP


def _run(greedy: Any, command: str, **images: Any) -> None:
    try:
        with _silence():
            greedy.execute(command, out=StringIO(), err=StringIO(), **images)
    except RuntimeError as error:  # all that greedy says
        raise DegenerateDataError("greedy cannot register it") from error


def _limited(values: Map, where: Bools) -> Map:
    return np.minimum(values, np.percentile(values[where], _BRIGHTEST))


def _finite(array: Map) -> Map:
    return np.nan_to_num(array, copy=True, nan=0, posinf=0, neginf=0).astype(np.float32)


@contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be printed: greedy writes to standard output itself."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def _likeness(one: Map, other: Map, inside: Bools) -> float:
    """Return the correlation of what is finer than `_COARSE`; 0 where one of the two is flat."""
    share = ndimage.gaussian_filter(inside.astype(np.float32), _COARSE / RESOLUTION)

    def detail(array: Map) -> Map:
        smooth = ndimage.gaussian_filter(np.where(inside, array, 0), _COARSE / RESOLUTION)
        return np.asarray(array - smooth / np.maximum(share, _LEAST), np.float32)[inside]

    fine, finer = detail(one), detail(other)
    if fine.size < 2 or not (np.ptp(fine) and np.ptp(finer)):
        return 0.0
    return float(np.corrcoef(fine, finer)[0, 1])


# ── rigid ─────────────────────────────────────────────────────────────────────────────────────────
# Rigid alignment with the template, for copies of a scan in a common space.
#
# Rotation and shift alone: the brain keeps its size and shape, as in the protocol of the paper.

TEMPLATE_SPACE = "MNI152NLin2009aSym"  # what BIDS calls the space of the template


class Grid(NamedTuple):
    """A grid over the template.

    Attributes
    ----------
    shape : the number of voxels along each axis.
    affine : (4, 4), from voxel indices to millimetres.
    """

    shape: tuple[int, ...]
    affine: FloatArray


def template_grid(resolution: float) -> Grid:
    """Return the grid over the template that has voxels of this size, in mm."""
    half = halved_anatomy()
    origin = half.affine[:3, 3] - 0.5  # of the template's grid of 1 mm
    affine = np.diag([resolution, resolution, resolution, 1.0])
    affine[:3, 3] = origin
    shape = tuple(int(np.ceil(2 * length / resolution)) for length in half.brain.shape)
    return Grid(shape, affine)


def rigid_to_template(coarse: WorkingGrid, affine: FloatArray) -> FloatArray:
    """Return the rotation and shift within a linear map of a scan to the template.

    The rotation is the nearest one to the map; the middle of the brain stays where the
    map takes it.

    Parameters
    ----------
    coarse : the brain on the working grid.
    affine : (4, 4), from millimetres of the scan to millimetres of the template.

    Returns
    -------
    FloatArray
        (4, 4), from millimetres of the template to millimetres of the scan.
    """
    left, _, right = np.linalg.svd(affine[:3, :3])
    back = (left @ right).T
    inside = np.argwhere(coarse.brain).mean(axis=0)
    middle = coarse.affine[:3, :3] @ inside + coarse.affine[:3, 3]
    matrix = np.eye(4)
    matrix[:3, :3] = back
    matrix[:3, 3] = middle - back @ (affine[:3, :3] @ middle + affine[:3, 3])
    return matrix


def resampled(
    array: Map, affine: FloatArray, matrix: FloatArray, grid: Grid, *, order: Literal[1, 3]
) -> Map:
    """Resample a scan, or a map of it, on the grid of the template or of another scan.

    Where the new voxels are larger, a Gaussian widens the old ones first, so that nothing is
    aliased. Values stay within the range that they have.

    Parameters
    ----------
    array, affine : the scan.
    matrix : as `rigid_to_template` returns it.
    grid : where to.
    order : of the spline: 3 for intensities, 1 for probabilities.
    """
    known = _finite(array)
    there = np.linalg.inv(affine) @ matrix @ grid.affine
    wide = np.linalg.norm(there[:3, :3], axis=1)  # of a new voxel along the old axes, in old ones
    smooth = widened(known, np.ones(3), wide, mode="nearest")
    found = sampled(smooth, there, grid.shape, order=order)
    return np.clip(found, known.min(), known.max())


# ── channels ──────────────────────────────────────────────────────────────────────────────────────
# Another contrast of one visit, brought to the grid of a scan by rotation and shift.
#
# Greedy maximises the normalised mutual information of the two in the brain and 4 mm around it,
# where CSF ends. It starts from the coordinates of the scanner in the headers.

_RIGID = f"-dof 6 -ia-identity -m NMI {_ALIKE} -n 60x40x20"
_AROUND = 2  # voxels of the working grid
_BINS = 32


@dataclass(frozen=True)
class ChannelFit(Record):
    """How a channel was brought to the grid of a scan.

    Attributes
    ----------
    matrix : (4, 4), from millimetres of the scan to millimetres of the channel as it was.
    moved : how far the brain was moved at most, in millimetres.
    likeness : the normalised mutual information inside the brain, (H(X) + H(Y)) / H(X, Y); 1 if
        the one says nothing about the other.
    covered : the share of the brain that the channel shows.
    """

    matrix: tuple[tuple[float, ...], ...]
    moved: float
    likeness: float
    covered: float


def moved_channel(
    image: Map, affine: FloatArray, scan: Map, grid: Grid, brain: Bools
) -> tuple[Map, ChannelFit]:
    """Bring a channel to the grid of a scan.

    Parameters
    ----------
    image, affine : the channel.
    scan, grid : the scan.
    brain : which of its voxels are inside the brain.

    Returns
    -------
    Map and ChannelFit
        The intensities, NaN beyond the edges of the channel, and how well they fit.

    Raises
    ------
    DegenerateDataError
        Where the two cannot be registered.
    """
    if brain.sum() * voxel_sizes(grid.affine).prod() < _FEWEST * RESOLUTION**3:
        raise DegenerateDataError("the brain is too small to register it with")
    coarse, image = working_grid(scan, grid.affine, brain), _finite(image)
    small = Grid(coarse.brain.shape, coarse.affine)
    fixed = resampled(scan, grid.affine, np.eye(4), small, order=1)
    matrix = _linear(
        import_module("picsl_greedy").Greedy3D(),
        f"-i fixed moving -gm seen {_RIGID}",
        fixed=_itk_image(_limited(fixed, coarse.brain), coarse.affine),
        moving=_itk_image(_limited(image, np.isfinite(image)), affine),
        seen=_itk_image(ndimage.binary_dilation(coarse.brain, iterations=_AROUND), coarse.affine),
    )
    away = (matrix - np.eye(4)) @ coarse.affine @ np.insert(np.argwhere(coarse.brain), 3, 1, 1).T
    there = resampled(image, affine, matrix, small, order=1)
    values = resampled(image, affine, matrix, grid, order=3)
    places = np.linalg.inv(affine) @ matrix @ grid.affine
    shown = sampled(np.ones(image.shape, np.uint8), places, grid.shape) > 0
    moved, covered = float(np.linalg.norm(away, axis=0).max()), float(shown[brain].mean())
    likeness = _mutual_information(fixed[coarse.brain], there[coarse.brain])
    fit = ChannelFit(tuple(map(tuple, matrix.tolist())), moved, likeness, covered)
    return np.where(shown, values, np.float32(np.nan)), fit


def _mutual_information(one: Map, other: Map) -> float:
    x, y = (np.clip(part, *np.percentile(part, [0.5, _BRIGHTEST])) for part in (one, other))
    joint = np.histogram2d(x, y, _BINS)[0] / x.size
    parts = (joint.sum(axis=0), joint.sum(axis=1), joint)
    first, second, both = (float(special.entr(part).sum()) for part in parts)
    return (first + second) / both if both else 1.0


# ── aligned copies ────────────────────────────────────────────────────────────────────────────────


class AlignedCopy(NamedTuple):
    """A scan on a grid over the template.

    Attributes
    ----------
    matrix : (4, 4), from millimetres of the template to millimetres of the scan.
    grid : the grid.
    image : the intensities.
    brain : which voxels are inside the brain.
    tissues : (3, ...), the tissue probabilities; None if they are not known.
    lesion : which voxels are part of a lesion; None if there is none.
    overlap : which share of the smaller of two brains, this and that of the template, lies inside
        the other: unlike the Dice coefficient, that hardly depends on the size of the brain.
    """

    matrix: FloatArray
    grid: Grid
    image: Map
    brain: Bools
    tissues: Map | None
    lesion: Bools | None
    overlap: float


def aligned_copy(
    image: Map,
    affine: FloatArray,
    brain: Bools,
    *,
    tissues: Map | None = None,
    lesion: Bools | None = None,
    linear: FloatArray | None = None,
    resolution: float,
) -> AlignedCopy:
    """Align a scan with the template by rotation and shift, and resample it there.

    Intensities are interpolated by cubic splines, all else linearly. A voxel is inside the brain if
    more than half of it is. It is part of a lesion if more than a quarter of it is: lesions are
    masked to be left out, and at one half those of a few voxels would vanish.

    Parameters
    ----------
    image, affine : the scan, free of bias.
    brain : which of its voxels are inside the brain.
    tissues, lesion : what else is known about it. The registration does not see the lesion.
    linear : as `WarpedTemplate` has it, if the template was deformed to the scan.
    resolution : the size of the voxels of the copy, in mm.
    """
    coarse = working_grid(image, affine, brain)
    if linear is None:
        linear = _Greedy(coarse, lesion_on_grid(lesion, affine, coarse)).linear
    matrix = rigid_to_template(coarse, linear)
    grid = template_grid(resolution)

    def linearly(part: Map) -> Map:
        return resampled(part, affine, matrix, grid, order=1)

    inside = linearly(brain.astype(np.float32)) > 0.5
    anatomy = halved_anatomy()
    template = interpolated(anatomy.brain, anatomy.affine, grid.shape, grid.affine) > 0.5
    smaller = min(int(inside.sum()), int(template.sum()))
    overlap = int((inside & template).sum()) / max(smaller, 1)
    copy = resampled(image, affine, matrix, grid, order=3)
    maps = None if tissues is None else np.stack([linearly(part) for part in tissues])
    damaged = None if lesion is None else linearly(lesion.astype(np.float32)) > DAMAGED
    return AlignedCopy(matrix, grid, copy, inside, maps, damaged, overlap)
