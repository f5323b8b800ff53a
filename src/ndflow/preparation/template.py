"""Real anatomy that is available wherever nilearn is: the ICBM152 average brain in its wheel.

That template [fonov2011] consists of a skull-stripped T1-weighted image and tissue probability maps
of GM and WM, all on one grid of 1 mm. What is inside the brain and neither GM nor WM is CSF.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.preparation.working_grid import Map
from ndflow.values import FloatArray

__all__ = ["Anatomy", "halved_anatomy", "load_anatomy"]


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
