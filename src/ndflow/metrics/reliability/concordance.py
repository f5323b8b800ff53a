"""Lin's concordance correlation coefficient: how near pairs of scans lie to the line of equality.

For pairs (x, y) of scans of one subject, with means m, variances s² and covariance s_xy, each
divided by n,

    CCC = 2 s_xy / (s_x² + s_y² + (m_x − m_y)²)

(Lin, 1989). It is the correlation times how little the line through the pairs deviates from
equality in place and slope; unlike a correlation, it falls if one scan of each pair is brighter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from ndflow.values import real_array

__all__ = ["concordance", "pairs_of_scans"]


def concordance(one: ArrayLike, other: ArrayLike) -> float | None:
    """Return Lin's coefficient.

    Parameters
    ----------
    one, other : (n,), two measurements of each subject.

    Returns
    -------
    From −1 to 1; None for fewer than two pairs, and where all numbers are the same.

    Examples
    --------
    >>> concordance([1, 2, 3], [1, 2, 3]), round(concordance([1, 2, 3], [2, 3, 4]), 3)
    (1.0, 0.571)
    """
    x = real_array(one, "one", None)
    y = real_array(other, "other", x.size)
    if x.size < 2:
        return None
    away = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    return float(2 * np.mean((x - x.mean()) * (y - y.mean())) / away) if away > 0 else None


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
