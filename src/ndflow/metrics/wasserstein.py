"""Distances between scans, from their quantiles.

On a line the Wasserstein distance is the mean distance of quantiles, ``W1 = ∫ |Q_i − Q_j| dp`` over
p from 0 to 1. With q quantiles at evenly spaced shares it is the mean over these. Shares that do
not reach 0 and 1 leave out the tails, where a handful of voxels would decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

__all__ = ["labelled", "wasserstein_matrix"]


def wasserstein_matrix(quantiles: FloatArray) -> FloatArray:
    """Return the Wasserstein distance between any two of n scans, (n, n), from (n, q) quantiles."""
    # Row by row: all differences at once would be n·n·q numbers.
    rows = [np.abs(quantiles - row).mean(axis=1) for row in quantiles]
    return np.array(rows).reshape(len(rows), len(rows))


def labelled(
    quantiles: ArrayLike, labels: Sequence[str | None], name: str
) -> tuple[FloatArray, list[str | None]]:
    """Return quantiles (scans, q) and the label of each scan, if there are as many of both."""
    given = real_array(quantiles, "quantiles", None, None)
    if given.shape[1] == 0:
        raise InvalidValueError("quantiles must hold one quantile or more of each scan")
    if len(labels) != len(given):
        raise InvalidValueError(
            f"{name} must be one a scan, but they are {len(labels)} and the scans {len(given)}"
        )
    return given, list(labels)
