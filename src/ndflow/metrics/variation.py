"""The coefficient of variation of tissues over scans: standard deviation over mean.

It means something only where zero does: intensities of the scanner have a zero, normalised ones
have one only by convention, and a method could halve its coefficient by adding a constant. So all
conditions are given the same zero: in units of the standard deviation of a brain, that of the
scanner lies ``m`` below the mean of the brain, on average over the unnormalised scans, and values x
in common units (mean 0, standard deviation 1) have the coefficient

    CV = s(x) / (x̄ + m).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.values import real, real_array

__all__ = ["coefficient_of_variation"]


def coefficient_of_variation(values: ArrayLike, zero: float) -> float | None:
    """Return standard deviation over mean, with n − 1.

    Parameters
    ----------
    values : (n,), one per scan.
    zero : where the scale has its zero, in the units of `values`.

    Returns
    -------
    None for fewer than two scans, and where a value does not lie above zero.

    Examples
    --------
    >>> round(coefficient_of_variation([9.0, 10.0, 11.0], zero=0.0), 3)
    0.1
    >>> round(coefficient_of_variation([-1.0, 0.0, 1.0], zero=-10.0), 3)
    0.1
    """
    above = real_array(values, "values", None) - real(zero, "zero")
    if above.size < 2 or (above <= 0).any():
        return None
    return float(np.std(above, ddof=1) / above.mean())
