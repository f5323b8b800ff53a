"""What the files of a finished study say about each scan, without reading any image.

The result of a scan has the quantiles ``f(Q(p))``, where Q are those of its histogram and f its
map, and the density ``q(x) / f'(x)`` at ``f(x)``: models and maps are all that is needed to say
how far scans were apart before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.image.subject import Scan
from ndflow.scan.records import MapRecord, ScanModel
from ndflow.study.finished import FinishedStudy
from ndflow.study.integrity import read_results
from ndflow.study.plan import ResultPaths
from ndflow.study.site_distances import NO_SITE
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["CONDITIONS", "ScanSummary", "densities_by_site", "scan_summaries"]

CONDITIONS = ("raw", "aligned", "result")

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
        return self.scan.site or NO_SITE

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
        return self._quantiles[condition]

    @cached_property
    def _quantiles(self) -> dict[str, FloatArray]:
        saved = self.model.quantiles
        raw = self.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved)
        return {condition: self._through(condition)(raw) for condition in CONDITIONS}

    def curve(
        self, condition: str, units: tuple[float, float] = (0.0, 1.0)
    ) -> tuple[FloatArray, FloatArray]:
        """Return intensities and the density there, under one of the conditions.

        Parameters
        ----------
        condition : as for `quantiles`.
        units : the mean and standard deviation that scans are ``aligned`` to.
        """
        y, density = self._curves[condition]
        if condition == "aligned":
            mean, sd = units
            return mean + sd * y, density / sd
        return y, density

    @cached_property
    def _curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        low, high = self.mixture.quantile(_ENDS).tolist()
        x = np.linspace(low, high, _POINTS)
        log_density = self.mixture.logpdf(x)
        found = {}
        for condition in CONDITIONS:
            y, log_slope = self._through(condition).with_log_det_jacobian(x)
            found[condition] = y, np.exp(log_density - log_slope)
        return found

    def _through(self, condition: str) -> IntensityMap:
        identity = Affine(np.eye(1), np.zeros(1))
        return {"raw": identity, "aligned": self.alignment, "result": self.imap}[condition]


def scan_summaries(run: FinishedStudy) -> Iterator[ScanSummary]:
    """Read what the files of a study say about its scans."""
    for scan in run.study.scans:
        paths = run.study.paths(scan)
        yield ScanSummary(scan, paths, *read_results(paths))


def densities_by_site(
    scans: Sequence[ScanSummary],
    condition: str,
    *,
    units: tuple[float, float] = (0.0, 1.0),
    x: FloatArray | None = None,
    logarithmic: bool = False,
) -> tuple[FloatArray, dict[str, list[FloatArray]]]:
    """Return intensities, and the density of every scan at them by site, under a condition.

    Parameters
    ----------
    scans, condition, units : as for `ScanSummary.curve`.
    x : the intensities; by default those that occur.
    logarithmic : whether these are to be spaced evenly on a logarithmic axis, for unnormalised
        scans of which few voxels are not positive.
    """
    curves = [scan.curve(condition, units) for scan in scans]
    low, high = min(y[0] for y, _ in curves), max(y[-1] for y, _ in curves)
    if x is None and logarithmic:
        dark = min(float(scan.mixture.quantile(_DARK)) for scan in scans)
        x = np.geomspace(max(low, dark / 2), high, _POINTS)
    elif x is None:
        x = np.linspace(low, high, _POINTS)
    by_site: dict[str, list[FloatArray]] = {}
    for scan, (y, density) in zip(scans, curves, strict=True):
        by_site.setdefault(scan.site, []).append(np.interp(x, y, density, left=0, right=0))
    return x, by_site
