"""Real anatomy that is available wherever nilearn is: the ICBM152 average brain in its wheel.

It consists of a skull-stripped T1-weighted image and tissue probability maps of GM and WM, all on
one grid of 1 mm. What is inside the brain and neither GM nor WM is CSF.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray

__all__ = ["Anatomy", "Grid", "Map", "Voxels", "grid_over", "load_anatomy"]

Map = NDArray[np.float32]
Voxels = NDArray[np.intp]


class Anatomy(NamedTuple):
    """A template brain, on a grid of 1 mm.

    Attributes
    ----------
    t1 : intensities between 0 and 1; 0 outside the brain.
    gm, wm : the probabilities of GM and WM; they extend a little beyond the brain.
    brain : 1 inside the brain and 0 outside.
    affine : (4, 4), from voxel indices to millimetres.
    """

    t1: Map
    gm: Map
    wm: Map
    brain: Map
    affine: FloatArray


class Grid(NamedTuple):
    """The grid of a scan; its first voxel is that of the template.

    Attributes
    ----------
    resolution : the distance between voxels, in mm.
    shape : the number of voxels along each axis.
    affine : (4, 4), from voxel indices to millimetres.
    voxels : (n, 3), the indices of the voxels that may lie inside a brain.
    """

    resolution: float
    shape: tuple[int, ...]
    affine: FloatArray
    voxels: Voxels


def load_anatomy() -> Anatomy:
    """Read the template brain.

    Returns
    -------
    Anatomy
        The ICBM152 average brain, from nilearn.

    Raises
    ------
    InvalidValueError
        Where nilearn is not installed.
    """
    try:
        datasets = import_module("nilearn.datasets")
    except ImportError:
        raise InvalidValueError(
            "the demo takes its anatomy from nilearn, which is not installed; "
            "try pip install 'ndflow[report]'"
        ) from None
    image = datasets.load_mni152_template(resolution=1)
    t1 = _map(image)
    gm = _map(datasets.load_mni152_gm_template(resolution=1))
    wm = _map(datasets.load_mni152_wm_template(resolution=1))
    brain = (t1 > 0).astype(np.float32)
    return Anatomy(t1, gm, wm, brain, np.asarray(image.affine, np.float64))


def grid_over(anatomy: Anatomy, resolution: float, reach: float) -> Grid:
    """Return the grid of a scan that covers the template.

    Parameters
    ----------
    anatomy : the template.
    resolution : the distance between voxels, in mm.
    reach : how far a brain may extend beyond that of the template, in mm.
    """
    distance = ndimage.distance_transform_edt(anatomy.brain[::2, ::2, ::2] == 0, sampling=2.0)
    shape = tuple(int(np.ceil(length / resolution)) for length in anatomy.brain.shape)
    nearest = [
        np.minimum(np.rint(np.arange(n) * resolution / 2).astype(int), most - 1)
        for n, most in zip(shape, distance.shape, strict=True)
    ]
    # Distances are computed at every other voxel only, which adds an error of less than 4 mm.
    voxels = np.argwhere(distance[np.ix_(*nearest)] <= reach + 4)
    affine = anatomy.affine @ np.diag([resolution, resolution, resolution, 1])
    return Grid(resolution, shape, affine, voxels)


def _map(image: Any) -> Map:
    return np.ascontiguousarray(image.dataobj, dtype=np.float32)
