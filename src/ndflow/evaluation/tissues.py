"""How alike the intensities of a tissue are across scans (the paper's Table 1).

For each scan and tissue: the quartiles of the intensities, with each voxel weighted by the
probability that it belongs to the tissue; over the scans, their mean and standard deviation. A
smaller standard deviation is better, unless everything has shrunk: so it is also given relative to
the gap between white and grey matter. `ndflow.evaluation.statistics` describes intervals.

*Weighted quantiles* are the inverse of the mid-distribution function: a level has all of the weight
below it and half of its own, and the function is linear between levels. A voxel that occurs twice
counts as one of twice the weight, and integer levels leave no steps. With equal weights and
distinct values this is Hazen's rule (numpy's ``method="hazen"``).

*Contrast* of GM and WM, and how well intensity alone separates them (d′): from the mean μ and the
standard deviation s of each tissue, every voxel weighted by its probability of belonging to it,

    contrast = μ_WM − μ_GM,   d′ = |μ_WM − μ_GM| / √(½ (s_WM² + s_GM²)).

The contrast is in the units of the intensities; d′ has none, and a straight line changes nothing of
it, so it shows whether the shape of a map has made tissues harder to tell apart (or easier).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

TISSUE_ROWS = ("WM", "GM", "CSF")  # the order of the paper's Table 1, and of our tables

# ── quartiles ─────────────────────────────────────────────────────────────────────────────────────

_QUARTILES = (0.25, 0.5, 0.75)


def weighted_quantile(values: ArrayLike, weights: ArrayLike, shares: ArrayLike) -> FloatArray:
    """Return quantiles of weighted values.

    Parameters
    ----------
    values : (n,).
    weights : (n,), zero or positive.
    shares : the probabilities of the quantiles, between 0 and 1, in an array of any shape.

    Returns
    -------
    The quantiles, in the shape of `shares`.

    Raises
    ------
    InvalidValueError : if a weight is negative, or all are zero.

    Examples
    --------
    >>> weighted_quantile([1, 2, 3], [1, 1, 2], [0.25, 0.5]).tolist()
    [1.5, 2.3333333333333335]
    """
    given = real_array(values, "values", None)
    mass = real_array(weights, "weights", given.size)
    wanted = np.asarray(shares, np.float64)
    if (mass < 0).any() or not mass.any():
        raise InvalidValueError("weights must not be negative, nor all of them zero")
    levels, level = np.unique(given[mass > 0], return_inverse=True)
    masses = np.bincount(level, mass[mass > 0])
    total = np.cumsum(masses)
    quantiles: FloatArray = np.interp(wanted, (total - 0.5 * masses) / total[-1], levels)
    return quantiles


def quartiles(values: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Return the three quartiles of values (n,) with weights (n,).

    Examples
    --------
    >>> quartiles([1, 2, 3, 4], [1, 1, 1, 1]).tolist()
    [1.5, 2.5, 3.5]
    """
    return weighted_quantile(values, weights, _QUARTILES)


# ── contrast ──────────────────────────────────────────────────────────────────────────────────────


def weighted_moments(values: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """Return mean and standard deviation of values (n,) with weights (n,).

    Examples
    --------
    >>> weighted_moments([1, 2, 4], [1, 1, 2])
    (2.75, 1.299038105676658)
    """
    given = real_array(values, "values", None)
    mass = real_array(weights, "weights", given.size)
    share = mass / mass.sum()
    mean = float(np.sum(share * given))
    return mean, float(np.sqrt(np.sum(share * (given - mean) ** 2)))


def separability(tissues: ArrayLike) -> FloatArray:
    """Return d′ of white and grey matter.

    Parameters
    ----------
    tissues : (..., 3, 5), quartiles and moments of each tissue, in the order of `TISSUE_ROWS`.

    Returns
    -------
    (...,); infinite where neither tissue varies, NaN where their means are the same as well.

    Examples
    --------
    >>> float(separability([[4, 5, 6, 5.0, 1.0], [2, 3, 4, 3.0, 1.0], [0, 1, 2, 1.0, 1.0]]))
    2.0
    """
    white, grey, _ = np.moveaxis(np.asarray(tissues, np.float64)[..., 3:], -2, 0)
    spread = np.sqrt((white[..., 1] ** 2 + grey[..., 1] ** 2) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = np.abs(white[..., 0] - grey[..., 0]) / spread
    return found
