"""What ANTs does: correct the bias field, deform the template to a scan, and align the two rigidly.

Registration samples voxels at random, and adds up what its threads find in the order in which they
finish. With one thread and a fixed seed the same scan gives the same bytes; scans are processed in
parallel instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.preparation.grid import (
    DAMAGED,
    RESOLUTION,
    Bools,
    Map,
    WorkingGrid,
    interpolated,
    lesion_on_grid,
    sampled,
    voxel_sizes,
    widened,
    working_grid,
)
from ndflow.values import FloatArray

SEED = 1

_ENVIRONMENT = {
    "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS": "1",
    "ANTS_RANDOM_SEED": str(SEED),
}


def import_ants() -> Any:
    """Return the module ``ants``, with one thread and a fixed seed."""
    os.environ.update(_ENVIRONMENT)  # ITK reads it once, when it is first used
    return import_module("ants")


def ants_image(array: NDArray[Any], affine: FloatArray) -> Any:
    """Return an image for ANTs.

    Parameters
    ----------
    array : its voxels.
    affine : (4, 4), from voxel indices to millimetres; diagonal but for the origin. ANTs would
        count millimetres to the left and to the back; all that matters is that images agree.
    """
    return import_ants().from_numpy(
        np.ascontiguousarray(array, np.float32),
        origin=affine[:3, 3].tolist(),
        spacing=np.diag(affine)[:3].tolist(),
    )


@contextmanager
def registration(
    fixed: Any, moving: Any, transform: str, **options: Any
) -> Iterator[Mapping[str, Any]]:
    """Register one image with another; the files of the result last as long as the block.

    Raises
    ------
    DegenerateDataError
        Where ANTs finds no way to do so.
    """
    with TemporaryDirectory(prefix="ndflow-") as folder:
        prefix = str(Path(folder) / "found")
        try:
            found = import_ants().registration(
                fixed, moving, transform, outprefix=prefix, random_seed=SEED, **options
            )
        except RuntimeError as error:  # all that ANTs says, as for a brain of a few voxels
            raise DegenerateDataError("ANTs cannot register the template with it") from error
        yield found


# ── the bias field ────────────────────────────────────────────────────────────────────────────────
# The bias field of a scan: a smooth change of brightness, caused by the coils and not by tissue.
#
# It is estimated by N4 [tustison2010] from the brain on the working grid. Its geometric mean over
# the brain is made 1, so a corrected scan keeps its units.

_SPLINE = 160.0  # mm between the knots of the first level
_CONVERGENCE = {"iters": [30, 30, 25], "tol": 1e-5}
_SHRINK = 2


def log_bias_field(coarse: WorkingGrid, lesion: Bools | None = None) -> Map:
    """Estimate the logarithm of the bias field.

    Parameters
    ----------
    coarse : the brain on the working grid.
    lesion : voxels that the estimate does not see.

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
    inner = ndimage.binary_erosion(coarse.brain) & (coarse.values > 0)
    if lesion is not None:
        inner &= ~lesion
    if not inner.any():
        raise DegenerateDataError("the brain is too small for a bias field, or has no signal")
    field = import_ants().n4_bias_field_correction(
        ants_image(coarse.values, coarse.affine),
        mask=ants_image(inner, coarse.affine),
        shrink_factor=_SHRINK,
        spline_param=_SPLINE,
        convergence=_CONVERGENCE,
        return_bias_field=True,
    )
    log = np.log(np.maximum(field.numpy(), 1e-3))
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
    try:
        datasets = import_module("nilearn.datasets")
    except ImportError:
        raise InvalidValueError(
            "the template brain is that of nilearn, which is not installed; "
            "try pip install 'ndflow[report]'"
        ) from None
    image = datasets.load_mni152_template(resolution=1)
    t1 = _map(image)
    gm = _map(datasets.load_mni152_gm_template(resolution=1))
    wm = _map(datasets.load_mni152_wm_template(resolution=1))
    brain = (t1 > 0).astype(np.float32)
    return Anatomy(t1, gm, wm, brain, np.asarray(image.affine, np.float64))


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


def _map(image: Any) -> Map:
    return np.ascontiguousarray(image.dataobj, dtype=np.float32)


def _halved(array: Map) -> Map:
    half = [length // 2 for length in array.shape]
    even = array[: 2 * half[0], : 2 * half[1], : 2 * half[2]]
    blocks = even.reshape(half[0], 2, half[1], 2, half[2], 2)
    mean: Map = blocks.mean(axis=(1, 3, 5), dtype=np.float32)
    return mean


# ── registration ──────────────────────────────────────────────────────────────────────────────────
# The template brain, deformed to that of a scan: where to expect which tissue.
#
# The ICBM152 average [fonov2011] is registered by ANTs (SyN) [avants2008] on the working grid,
# where it takes about ten seconds.

_TRANSFORM = "antsRegistrationSyNQuick[s]"
_COARSE = 10.0  # mm: the standard deviation of what counts as coarse
_LEAST = 1e-3
_BRIGHTEST = 99.5  # percentile to which intensities are limited: vessels and fat are brighter


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
    """

    gm: Map
    wm: Map
    overlap: float
    likeness: float


def register_template(coarse: WorkingGrid, lesion: Bools | None = None) -> WarpedTemplate:
    """Deform the template to a scan.

    Parameters
    ----------
    coarse : the brain on the working grid, free of bias.
    lesion : voxels that the registration does not look at.

    Raises
    ------
    DegenerateDataError
        Where ANTs finds no way to do so.
    """
    ants = import_ants()
    anatomy = halved_anatomy()
    brightest = np.percentile(coarse.values[coarse.brain], _BRIGHTEST)
    fixed = ants_image(np.minimum(coarse.values, brightest), coarse.affine)
    moving = ants_image(anatomy.t1, anatomy.affine)
    options: dict[str, Any] = {}
    if lesion is not None and lesion.any():
        options = {"mask": ants_image(~lesion, coarse.affine), "mask_all_stages": True}
    with registration(fixed, moving, _TRANSFORM, **options) as found:
        gm, wm, brain = (
            ants.apply_transforms(
                fixed, ants_image(part, anatomy.affine), found["fwdtransforms"]
            ).numpy()
            for part in (anatomy.gm, anatomy.wm, anatomy.brain)
        )
        expected = found["warpedmovout"].numpy()
    inside = coarse.brain & (brain > 0.5)
    if lesion is not None:
        inside &= ~lesion
    likeness = _likeness(expected, fixed.numpy(), inside)
    return WarpedTemplate(gm, wm, _dice(brain > 0.5, coarse.brain), likeness)


def _dice(one: Bools, other: Bools) -> float:
    return 2 * float((one & other).sum()) / max(1.0, float(one.sum() + other.sum()))


def _likeness(one: Map, other: Map, inside: Bools) -> float:
    """Return the correlation of what is finer than `_COARSE`; 0 where one of the two is flat."""
    share = ndimage.gaussian_filter(inside.astype(np.float32), _COARSE / RESOLUTION)

    def detail(array: Map) -> Map:
        smooth = ndimage.gaussian_filter(np.where(inside, array, 0), _COARSE / RESOLUTION)
        found: Map = (array - smooth / np.maximum(share, _LEAST))[inside]
        return found

    fine, finer = detail(one), detail(other)
    if fine.size < 2 or not (np.ptp(fine) and np.ptp(finer)):
        return 0.0
    return float(np.corrcoef(fine, finer)[0, 1])


# ── rigid ─────────────────────────────────────────────────────────────────────────────────────────
# Rigid alignment with the template, for copies of a scan in a common space.
#
# Rotation and shift alone: the brain keeps its size and shape, as in the protocol of the paper.

TEMPLATE_SPACE = "MNI152NLin2009aSym"  # what BIDS calls the space of the template

_STAGES = {  # of the registration, from coarse to fine
    "aff_iterations": (500, 200, 20),
    "aff_shrink_factors": (4, 2, 1),
    "aff_smoothing_sigmas": (3, 2, 0),
}


class TemplateGrid(NamedTuple):
    """A grid over the template.

    Attributes
    ----------
    shape : the number of voxels along each axis.
    affine : (4, 4), from voxel indices to millimetres.
    """

    shape: tuple[int, ...]
    affine: FloatArray


def template_grid(resolution: float) -> TemplateGrid:
    """Return the grid over the template that has voxels of this size, in mm."""
    half = halved_anatomy()
    origin = half.affine[:3, 3] - 0.5  # of the template's grid of 1 mm
    affine = np.diag([resolution, resolution, resolution, 1.0])
    affine[:3, 3] = origin
    shape = tuple(int(np.ceil(2 * length / resolution)) for length in half.brain.shape)
    return TemplateGrid(shape, affine)


def rigid_to_template(coarse: WorkingGrid, lesion: Bools | None = None) -> FloatArray:
    """Find where the template's places are in a scan.

    Parameters
    ----------
    coarse : the brain on the working grid, free of bias.
    lesion : voxels that the registration does not look at.

    Returns
    -------
    FloatArray
        (4, 4), from millimetres of the template to millimetres of the scan.
    """
    anatomy = halved_anatomy()
    options: dict[str, Any] = dict(_STAGES)
    if lesion is not None and lesion.any():
        options |= {"moving_mask": ants_image(~lesion, coarse.affine), "mask_all_stages": True}
    fixed, moving = ants_image(anatomy.t1, anatomy.affine), ants_image(coarse.values, coarse.affine)
    with registration(fixed, moving, "Rigid", **options) as found:
        transform = import_ants().read_transform(found["fwdtransforms"][0])
    matrix = np.eye(4)
    matrix[:3, :3] = np.reshape(transform.parameters[:9], (3, 3))
    centre = np.asarray(transform.fixed_parameters)
    matrix[:3, 3] = transform.parameters[9:] + centre - matrix[:3, :3] @ centre
    return matrix


def resampled(
    array: Map, affine: FloatArray, matrix: FloatArray, grid: TemplateGrid, *, order: Literal[1, 3]
) -> Map:
    """Resample a scan, or a map of it, on a grid over the template.

    Where the new voxels are larger, a Gaussian widens the old ones first, so that nothing is
    aliased. Values stay within the range that they have.

    Parameters
    ----------
    array, affine : the scan.
    matrix : as `rigid_to_template` returns it.
    grid : where to.
    order : of the spline: 3 for intensities, 1 for probabilities.
    """
    known = np.nan_to_num(array, copy=True, nan=0, posinf=0, neginf=0).astype(np.float32)
    there = np.linalg.inv(affine) @ matrix @ grid.affine
    smooth = widened(known, voxel_sizes(affine), voxel_sizes(grid.affine), mode="nearest")
    found = sampled(smooth, there, grid.shape, order=order)
    return np.clip(found, known.min(), known.max())


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
    grid: TemplateGrid
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
    resolution : the size of the voxels of the copy, in mm.
    """
    coarse = working_grid(np.where(brain, image, 0), affine, brain)
    damaged = None if lesion is None else lesion_on_grid(lesion, affine, coarse)
    matrix = rigid_to_template(coarse, damaged)
    grid = template_grid(resolution)

    def linearly(part: Map) -> Map:
        return resampled(part, affine, matrix, grid, order=1)

    inside = linearly(brain.astype(np.float32)) > 0.5
    return AlignedCopy(
        matrix,
        grid,
        resampled(image, affine, matrix, grid, order=3),
        inside,
        None if tissues is None else np.stack([linearly(part) for part in tissues]),
        None if lesion is None else linearly(lesion.astype(np.float32)) > DAMAGED,
        _overlap(inside, grid),
    )


def _overlap(brain: Bools, grid: TemplateGrid) -> float:
    anatomy = halved_anatomy()
    template = interpolated(anatomy.brain, anatomy.affine, grid.shape, grid.affine) > 0.5
    smaller = min(int(brain.sum()), int(template.sum()))
    return int((brain & template).sum()) / max(smaller, 1)
