"""How far apart the sites of a study are: unnormalised, aligned, and normalised.

Models and intensity maps are enough, no image is read: the result of a scan has the quantiles
``f(Q(p))``, where Q are those of its histogram and f is its map. Distances are in standard
deviations of a scan under the same condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.evaluation.sites import distance_between_sites, distance_within_sites
from ndflow.subject.records import ScanModel
from ndflow.transport import IntensityMap, align
from ndflow.values import FloatArray

NO_SITE = "(no site)"

ScanQuantiles = NDArray[np.float32]  # (3, 199), in the order of `SiteDistances`


class SiteDistances(NamedTuple):
    """How far apart sites are; where there is one site, how far its scans are from their average.

    Attributes
    ----------
    between_sites : whether there are several sites.
    raw, aligned, normalised : the distance of the unnormalised scans, of the same scans aligned in
        mean and standard deviation, and of the results.
    """

    between_sites: bool
    raw: float
    aligned: float
    normalised: float


def scan_quantiles(model: ScanModel, imap: IntensityMap) -> ScanQuantiles:
    """Return the quantiles of a scan: unnormalised, aligned, and normalised.

    Parameters
    ----------
    model : its density.
    imap : its map.
    """
    saved = model.quantiles
    raw = model.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved)
    return np.array([raw, align(model.mixture)(raw), imap(raw)], np.float32)


def site_distances(
    quantiles: Sequence[ScanQuantiles] | FloatArray, sites: Sequence[str | None]
) -> SiteDistances | None:
    """Return how far apart sites are under each condition.

    Parameters
    ----------
    quantiles : (scans, 3, 199), of each scan, see `scan_quantiles`.
    sites : the site of each scan.

    Returns
    -------
    SiteDistances or None
        None where there are fewer than two scans, and so nothing to compare.
    """
    if len(sites) < 2:
        return None
    names = [site or NO_SITE for site in sites]
    several = len(set(names)) > 1
    distance = distance_between_sites if several else distance_within_sites
    given = np.asarray(quantiles, np.float64)
    apart = [distance(one / one.std(axis=1).mean(), names) for one in given.swapaxes(0, 1)]
    return SiteDistances(several, *apart)
