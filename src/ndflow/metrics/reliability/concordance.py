"""Lin's concordance correlation coefficient: how near pairs of scans lie to the line of equality.

For pairs (x, y) of scans of one subject, with means m, variances s² and covariance s_xy, each
divided by n,

    CCC = 2 s_xy / (s_x² + s_y² + (m_x − m_y)²)

[lin1989]. It is the correlation times how little the line through the pairs deviates from
equality in place and slope; unlike a correlation, it falls if one scan of each pair is brighter.

*Its interval* of 95 % is symmetric in z = artanh CCC, like that of a correlation. With the
correlation ρ, A = CCC / ρ, and u = (m_x − m_y) / √(s_x s_y), the variance of z is

    ((1 − ρ²) A² (1 − CCC²) + 2 CCC² A (1 − CCC) u² − CCC² A² u⁴ / 2) / ((n − 2) (1 − CCC²)²)

[lin1989, as corrected in 2000]. Pairs of one subject are not independent, so n is the number of
subjects, even if some have three scans or more, which makes three pairs or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.metrics.reliability.agreement import Agreement
from ndflow.values import real_array

__all__ = ["concordance", "pairs_of_scans"]

_NORMAL = 1.959963984540054  # its 97.5 % point


def concordance(one: ArrayLike, other: ArrayLike, subjects: int | None = None) -> Agreement | None:
    """Return Lin's coefficient, and its interval if there are three subjects or more.

    Parameters
    ----------
    one, other : (pairs,), the two measurements of each pair.
    subjects : how many there are; None where each has one pair.

    Returns
    -------
    From −1 to 1; None for fewer than two pairs, and where all numbers are the same.

    Examples
    --------
    >>> concordance([1, 2, 3], [1, 2, 3]).value, round(concordance([1, 2, 3], [2, 3, 4]).value, 3)
    (1.0, 0.571)
    """
    x = real_array(one, "one", None)
    y = real_array(other, "other", x.size)
    if x.size < 2:
        return None
    away = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    if not away > 0:
        return None
    value = float(2 * np.mean((x - x.mean()) * (y - y.mean())) / away)
    n, spread = subjects or x.size, float(x.std() * y.std())
    if n < 3 or spread == 0:
        return Agreement(value)
    if abs(value) >= 1:
        return Agreement(value, value, value)
    A = 2 * spread / away
    r, u2 = value / A, (x.mean() - y.mean()) ** 2 / spread
    inside = 1 - value**2
    scatter = (1 - r**2) * A**2 * inside + 2 * value**2 * A * (1 - value) * u2
    variance = (scatter - value**2 * A**2 * u2**2 / 2) / ((n - 2) * inside**2)
    reach = _NORMAL * np.sqrt(max(variance, 0.0))
    low, high = (float(np.tanh(np.arctanh(value) + way * reach)) for way in (-1, 1))
    return Agreement(value, low, high)


def pairs_of_scans(
    subjects: Sequence[str | None], sites: Sequence[str | None]
) -> list[tuple[int, int]]:
    """Return all pairs of scans of one subject, in the order of their sites, then as they come.

    Examples
    --------
    >>> pairs_of_scans(["ann", "bob", "ann"], ["rome", "rome", "oslo"])
    [(2, 0)]
    """
    own: dict[str, list[int]] = {}
    for place, name in enumerate(subjects):
        if name is not None:
            own.setdefault(name, []).append(place)
    found: list[tuple[int, int]] = []
    for places in own.values():
        found += combinations(sorted(places, key=lambda place: (str(sites[place]), place)), 2)
    return found
