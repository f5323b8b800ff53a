"""A copy of a prepared scan in the space of the template, aligned rigidly: it keeps its size."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import ndimage

from ndflow.preparation.grid import (
    DAMAGED,
    Bools,
    Map,
    WorkingGrid,
    interpolated,
    lesion_on_grid,
    voxel_sizes,
    widened,
    working_grid,
)
from ndflow.preparation.registration import SEED, ants_image, halved_anatomy, import_ants
from ndflow.values import FloatArray

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
    ants = import_ants()
    anatomy = halved_anatomy()
    options: dict[str, Any] = dict(_STAGES)
    if lesion is not None and lesion.any():
        options |= {"moving_mask": ants_image(~lesion, coarse.affine), "mask_all_stages": True}
    with TemporaryDirectory(prefix="ndflow-") as folder:
        found = ants.registration(
            ants_image(anatomy.t1, anatomy.affine),
            ants_image(coarse.values, coarse.affine),
            "Rigid",
            outprefix=str(Path(folder) / "rigid"),
            random_seed=SEED,
            **options,
        )
        transform = ants.read_transform(found["fwdtransforms"][0])
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
    found: Map = ndimage.affine_transform(
        widened(known, voxel_sizes(affine), voxel_sizes(grid.affine), mode="nearest"),
        there[:3, :3],
        there[:3, 3],
        output_shape=grid.shape,
        order=order,
    )
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
