"""What the figures ask of the arrays they are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

__all__ = ["increasing"]


def increasing(x: ArrayLike, name: str) -> FloatArray:
    """Return the points that curves are drawn at, if each is greater than the one before."""
    array = real_array(x, name, None)
    if array.size < 2 or (np.diff(array) <= 0).any():
        raise InvalidValueError(f"{name} must hold increasing intensities, two at least")
    return array
