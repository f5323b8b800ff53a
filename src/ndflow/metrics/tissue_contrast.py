"""Contrast of grey and white matter, and how well intensity alone separates them.

From the mean μ and the standard deviation s of each tissue, every voxel weighted by its probability
of belonging to it:

    contrast = μ_WM − μ_GM,   d′ = |μ_WM − μ_GM| / √(½ (s_WM² + s_GM²)).

The contrast is in the units of the intensities; d′ has none, and a straight line changes nothing of
it, so it shows whether the shape of a map has made tissues harder to tell apart (or easier).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

__all__ = ["separability", "weighted_moments"]


def weighted_moments(values: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """Return mean and standard deviation of values (n,) with weights (n,).

    Examples
    --------
    >>> weighted_moments([1, 2, 4], [1, 1, 2])
    (2.75, 1.299038105676658)
    """
    given = real_array(values, "values", None)
    mass = real_array(weights, "weights", given.size)
    if (mass < 0).any() or not mass.any():
        raise InvalidValueError("weights must not be negative, nor all of them zero")
    share = mass / mass.sum()
    mean = float(np.sum(share * given))
    return mean, float(np.sqrt(np.sum(share * (given - mean) ** 2)))


def separability(wm: ArrayLike, gm: ArrayLike) -> FloatArray:
    """Return d′ of white and grey matter.

    Parameters
    ----------
    wm, gm : (..., 2), mean and standard deviation in each scan.

    Returns
    -------
    (...,); infinite where neither tissue varies, NaN where their means are the same as well.

    Examples
    --------
    >>> float(separability([5.0, 1.0], [3.0, 1.0]))
    2.0
    """
    white, grey = np.asarray(wm, np.float64), np.asarray(gm, np.float64)
    spread = np.sqrt((white[..., 1] ** 2 + grey[..., 1] ** 2) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = np.abs(white[..., 0] - grey[..., 0]) / spread
    return found
