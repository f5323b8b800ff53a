"""A scan, and a target of another contrast."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from phantoms import head

import ndflow


def fitted(voxels: NDArray[Any], inside: NDArray[Any] | None = None, **how: Any) -> Any:
    """Return the fit to an array, without commands: to all nonzero voxels, or to those inside."""
    return ndflow.fit(ndflow.histogram(voxels, voxels != 0 if inside is None else inside), **how)


SCAN = head(0)
OTHER = head(1, tissues=((250.0, 90.0), (520.0, 40.0), (900.0, 70.0)))
SOURCE, TARGET = fitted(SCAN).mixture, fitted(OTHER).mixture
TARGET_SD = float(np.sqrt(TARGET.covariance()[0, 0]))


# How far a normalised voxel may be from the exact map, in standard deviations of the target:
# the error of the tabulated map, and of float32.
CLOSE = 2e-4
