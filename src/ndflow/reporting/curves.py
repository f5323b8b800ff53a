"""The curves of a scan: its density, its intensity map, and the density of the result, as points.

The histogram of the voxels is known by its quantiles ``Q(p)``: between two of them lies a known
share of the voxels. That of the result has the quantiles ``f(Q(p))``, where f is the map. So no
image is read.
"""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.reporting.content import Curves
from ndflow.reporting.scan_summary import ScanSummary
from ndflow.transport import DETERMINED_RANGE
from ndflow.values import FloatArray

__all__ = ["curves_of"]

_POINTS = 80


def curves_of(scan: ScanSummary, target: GaussianMixture) -> Curves:
    """Return what the page draws for a scan.

    Parameters
    ----------
    scan : the scan.
    target : what it was brought to, in the units of the result.
    """
    low, high = scan.mixture.quantile(DETERMINED_RANGE).tolist()
    x = np.linspace(low, high, _POINTS)
    mapped = scan.imap(x)
    y = np.linspace(mapped[0], mapped[-1], _POINTS)
    result = scan.quantiles("result")
    mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
    return Curves(
        x=x.tolist(),
        histogram=_density(scan.quantiles("raw"), x).tolist(),
        mixture=np.exp(scan.mixture.logpdf(x)).tolist(),
        map=mapped.tolist(),
        alignment=(mean + sd * scan.alignment(x)).tolist(),
        y=y.tolist(),
        result=_density(result, y).tolist(),
        target=np.exp(target.logpdf(y)).tolist(),
    )


def _density(quantiles: FloatArray, x: FloatArray) -> FloatArray:
    """Return the density of the distribution with these quantiles, averaged around each point."""
    edges = midpoint_edges(x)
    below = np.interp(edges, quantiles, QUANTILE_LEVELS)
    density: FloatArray = np.diff(below) / np.diff(edges)
    return density
