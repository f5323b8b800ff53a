"""A copy of a prepared scan in the space of the template, aligned rigidly: it keeps its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ndflow.preparation.rigid import TemplateGrid, resampled, rigid_to_template, template_grid
from ndflow.preparation.template import halved_anatomy
from ndflow.preparation.working_grid import (
    DAMAGED,
    Bools,
    Map,
    interpolated,
    lesion_on_grid,
    working_grid,
)
from ndflow.values import FloatArray

__all__ = ["AlignedCopy", "aligned_copy"]


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
