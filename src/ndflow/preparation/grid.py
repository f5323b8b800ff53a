"""The working grid: a scan's brain at 2 mm, along axes that point right, forward and up.

The bias field is smooth and the template is an average, so neither needs the resolution of the
scan. On a grid of our own, scans of any orientation, obliqueness and resolution look alike, and
what is found there is brought back by interpolation.

Voxels are averaged over the brain alone: with a mask `m` and a Gaussian `g` that widens a voxel to
the new size, a value is ``(g * m v) / (g * m)``, so the background does not darken the edge.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ndflow.values import FloatArray

Map = NDArray[np.float32]
Bools = NDArray[np.bool_]

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
