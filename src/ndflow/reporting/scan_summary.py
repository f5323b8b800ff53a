"""What the files of a finished study say about each scan, without reading any image.

The result of a scan has the quantiles ``f(Q(p))``, where Q are those of its histogram and f its
map, and the density ``q(x) / f'(x)`` at ``f(x)``: models and maps are all that is needed to say
how far scans were apart before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.image.scans import Scan
from ndflow.scan.records import MapRecord, ScanModel
from ndflow.study.finished import FinishedStudy
from ndflow.study.integrity import read_results
from ndflow.study.plan import ResultPaths
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["ScanSummary", "densities_by_site", "scan_summaries"]

_POINTS = 400
_ENDS = (0.001, 0.999)
_DARK = 0.05


@dataclass(frozen=True)
class ScanSummary:
    """What is known about a scan of a finished study.

    Attributes
    ----------
    scan, paths : the scan, and where its results are.
    model : its density, and how it was estimated.
    record : the sidecar of its result.
    """

    scan: Scan
    paths: ResultPaths
    model: ScanModel
    record: MapRecord

    @property
    def site(self) -> str:
        """Where it was made, in words."""
        return self.scan.site or "(no site)"

    @property
    def mixture(self) -> GaussianMixture:
        """Its density."""
        return self.model.mixture

    @property
    def imap(self) -> IntensityMap:
        """Its map."""
        return self.record.map

    @cached_property
    def alignment(self) -> Affine:
        """Its map to zero mean and unit standard deviation."""
        return align(self.mixture)

    def quantiles(self, condition: str) -> FloatArray:
        """Return the 199 quantiles: ``raw``, ``aligned``, or of the ``result``."""
        return self._through(condition)(self._quantiles)

    @cached_property
    def _quantiles(self) -> FloatArray:
        saved = self.model.quantiles
        return self.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved)

    def curve(self, condition: str) -> tuple[FloatArray, FloatArray]:
        """Return intensities and the density there, under one of the conditions."""
        low, high = self.mixture.quantile(_ENDS).tolist()
        x = np.linspace(low, high, _POINTS)
        y, log_slope = self._through(condition).with_log_det_jacobian(x)
        return y, np.exp(self.mixture.logpdf(x) - log_slope)

    def _through(self, condition: str) -> IntensityMap:
        identity = Affine(np.eye(1), np.zeros(1))
        return {"raw": identity, "aligned": self.alignment, "result": self.imap}[condition]


def scan_summaries(run: FinishedStudy) -> list[ScanSummary]:
    """Read what the files of a study say about its scans."""
    found = []
    for scan in run.study.scans:
        paths = run.study.paths(scan)
        found.append(ScanSummary(scan, paths, *read_results(paths)))
    return found


def densities_by_site(
    scans: Sequence[ScanSummary], condition: str, *, logarithmic: bool = False
) -> tuple[FloatArray, dict[str, list[FloatArray]]]:
    """Return intensities, and the density of every scan at them by site, under a condition.

    On a logarithmic axis, only unnormalised scans of which few voxels are not positive.
    """
    curves = [scan.curve(condition) for scan in scans]
    low, high = min(y[0] for y, _ in curves), max(y[-1] for y, _ in curves)
    if logarithmic:
        dark = min(float(scan.mixture.quantile(_DARK)) for scan in scans)
        x = np.geomspace(max(low, dark / 2), high, _POINTS)
    else:
        x = np.linspace(low, high, _POINTS)
    by_site: dict[str, list[FloatArray]] = {}
    for scan, (y, density) in zip(scans, curves, strict=True):
        by_site.setdefault(scan.site, []).append(np.interp(x, y, density, left=0, right=0))
    return x, by_site
