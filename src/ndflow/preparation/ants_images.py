"""ANTs, imported when it is needed, in a way that gives the same result every time.

Registration samples voxels at random, and adds up what its threads find in the order in which they
finish. With one thread and a fixed seed the same scan gives the same bytes; scans are processed in
parallel instead.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray

__all__ = ["SEED", "ants_image", "import_ants"]

SEED = 1

_ENVIRONMENT = {
    "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS": "1",
    "ANTS_RANDOM_SEED": str(SEED),
}


def import_ants() -> Any:
    """Return the module ``ants``.

    Raises
    ------
    InvalidValueError
        Where it is not installed.
    """
    os.environ.update(_ENVIRONMENT)  # ITK reads it once, when it is first used
    try:
        return import_module("ants")
    except ImportError:
        raise InvalidValueError(
            "the bias field and the tissue maps need antspyx, which is not installed; "
            "try pip install 'ndflow[prepare]'"
        ) from None


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
