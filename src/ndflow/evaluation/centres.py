"""How far centres are from each other, and how far scans of one centre are.

A normalisation should bring centres together without making all scans of a centre the same. From
the quantiles of each scan, and their average over the scans of a centre (which is the barycentre of
these scans), with W1 the Wasserstein distance:

- `between`: the mean of W1 over pairs of centres, each at its average;
- `within`: the mean over scans of W1 to the average of their centre, where that has two or more;
- `pairwise`: the mean of W1 over pairs of scans of different centres, which holds both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.evaluation.wasserstein import distances, labelled
from ndflow.values import FloatArray

__all__ = ["between", "pairwise", "within"]


def between(quantiles: ArrayLike, centres: Sequence[str]) -> float:
    """Return the mean distance between centres, from quantiles (scans, q)."""
    given, which = _several(quantiles, centres)
    averages = np.array([given[which == centre].mean(axis=0) for centre in range(which.max() + 1)])
    pairs = np.triu_indices(len(averages), 1)
    return float(distances(averages)[pairs].mean())


def within(quantiles: ArrayLike, centres: Sequence[str]) -> float:
    """Return the mean distance of scans from the average of their centre."""
    given, which = _numbered(quantiles, centres)
    apart = []
    for centre in range(which.max(initial=-1) + 1):
        own = given[which == centre]
        if len(own) > 1:
            apart.append(np.abs(own - own.mean(axis=0)).mean(axis=1))
    if not apart:
        raise InvalidValueError("no centre has two scans, so there is no distance within centres")
    return float(np.concatenate(apart).mean())


def pairwise(quantiles: ArrayLike, centres: Sequence[str]) -> float:
    """Return the mean distance between scans of different centres."""
    given, which = _several(quantiles, centres)
    return float(distances(given)[which[:, np.newaxis] != which].mean())


def _numbered(quantiles: ArrayLike, centres: Sequence[str]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the quantiles, and the number of each scan's centre."""
    given, names = labelled(quantiles, centres, "centres")
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return given, np.array([order[name] for name in names], np.intp)


def _several(quantiles: ArrayLike, centres: Sequence[str]) -> tuple[FloatArray, NDArray[np.intp]]:
    given, which = _numbered(quantiles, centres)
    if which.max(initial=0) == 0:
        raise InvalidValueError("there must be two centres or more to be apart")
    return given, which
