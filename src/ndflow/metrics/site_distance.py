"""How far sites are from each other, and how far scans of one site are.

A normalisation should bring sites together without making all scans of a site the same. From
the quantiles of each scan, and their average over the scans of a site (which is the barysite of
these scans), with W1 the Wasserstein distance:

- `distance_between_sites`: the mean of W1 over pairs of sites, each at its average;
- `distance_within_sites`: the mean over scans of W1 to the average of their site, where that
  has two or more;
- `distance_between_scans`: the mean of W1 over pairs of scans of different sites, which
  holds both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.wasserstein import labelled, wasserstein_matrix
from ndflow.values import FloatArray

__all__ = ["distance_between_scans", "distance_between_sites", "distance_within_sites"]


def distance_between_sites(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean distance between sites, from quantiles (scans, q)."""
    given, which = _several(quantiles, sites)
    averages = np.array([given[which == site].mean(axis=0) for site in range(which.max() + 1)])
    pairs = np.triu_indices(len(averages), 1)
    return float(wasserstein_matrix(averages)[pairs].mean())


def distance_within_sites(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean distance of scans from the average of their site."""
    given, which = _numbered(quantiles, sites)
    apart = []
    for site in range(which.max(initial=-1) + 1):
        own = given[which == site]
        if len(own) > 1:
            apart.append(np.abs(own - own.mean(axis=0)).mean(axis=1))
    if not apart:
        raise InvalidValueError("no site has two scans, so there is no distance within sites")
    return float(np.concatenate(apart).mean())


def distance_between_scans(quantiles: ArrayLike, sites: Sequence[str]) -> float:
    """Return the mean distance between scans of different sites."""
    given, which = _several(quantiles, sites)
    return float(wasserstein_matrix(given)[which[:, np.newaxis] != which].mean())


def _numbered(quantiles: ArrayLike, sites: Sequence[str]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the quantiles, and the number of each scan's site."""
    given, names = labelled(quantiles, sites, "sites")
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return given, np.array([order[name] for name in names], np.intp)


def _several(quantiles: ArrayLike, sites: Sequence[str]) -> tuple[FloatArray, NDArray[np.intp]]:
    given, which = _numbered(quantiles, sites)
    if which.max(initial=0) == 0:
        raise InvalidValueError("there must be two sites or more to be apart")
    return given, which
