"""What the files of a finished study say of each scan, without looking at any image.

The result of a scan has the quantiles ``f(Q(p))``, where Q are those of its histogram and f its
map, and the density ``q(x) / f'(x)`` at ``f(x)``: models and maps are all that is needed to tell
how far scans were apart before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.files.json_model import read_model
from ndflow.metrics.histogram_fit import QUANTILE_LEVELS
from ndflow.scan.model_files import load_map
from ndflow.study.finished import FinishedStudy
from ndflow.study.scan_jobs import Member, portrait_of_member
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["ScanSummary", "densities_by_site", "scan_summaries"]

_POINTS = 400
_ENDS = (0.001, 0.999)
_BULK = (0.01, 0.99)


@dataclass(frozen=True)
class ScanSummary:
    """What is known of a scan.

    Attributes
    ----------
    member : the scan.
    mixture : its density.
    imap : its map.
    model, record : what else stands beside the two.
    """

    member: Member
    mixture: GaussianMixture
    imap: IntensityMap
    model: Mapping[str, Any]
    record: Mapping[str, Any]

    @property
    def site(self) -> str:
        """Where it was made, in words."""
        return self.member.site or "(no site)"

    @cached_property
    def alignment(self) -> Affine:
        """Its way to zero mean and unit spread."""
        return align(self.mixture)

    @cached_property
    def slopes(self) -> tuple[float, float] | None:
        """The least and the greatest slope of the map as multiples of the alignment's.

        Between the 1st and the 99th percentile of the scan.
        """
        known = self.record.get("jacobian")
        if not known:
            return None
        own = known["range"][0] / known["relative_to_affine"][0]  # the slope of the alignment
        low, high = self.mixture.quantile(_BULK).tolist()
        slopes = np.exp(self.imap.log_det_jacobian(np.linspace(low, high, _POINTS + 1))) / own
        return float(slopes.min()), float(slopes.max())

    def quantiles(self, condition: str) -> FloatArray:
        """Return the 199 quantiles as they came (``raw``), ``aligned``, or in the ``result``."""
        return self._through(condition)(self._quantiles)

    @cached_property
    def _quantiles(self) -> FloatArray:
        saved = self.model.get("quantiles")
        return (
            self.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved, np.float64)
        )

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
    """Read what the files of a study say of its scans."""
    return [
        ScanSummary(
            member,
            portrait_of_member(member).mixture,
            load_map(member.place.record),
            read_model(member.place.model, "mixture")[1],
            read_model(member.place.record, "map")[1],
        )
        for member in run.study.members
    ]


def densities_by_site(
    scans: Sequence[ScanSummary], condition: str, *, logarithmic: bool = False
) -> tuple[FloatArray, dict[str, list[FloatArray]]]:
    """Return intensities, and the density of every scan there by site, under a condition."""
    curves = [scan.curve(condition) for scan in scans]
    low, high = min(y[0] for y, _ in curves), max(y[-1] for y, _ in curves)
    if logarithmic:
        low = max(low, min(float(y[_POINTS // 20]) for y, _ in curves))
        x = np.geomspace(low, high, _POINTS)
    else:
        x = np.linspace(low, high, _POINTS)
    by_site: dict[str, list[FloatArray]] = {}
    for scan, (y, density) in zip(scans, curves, strict=True):
        by_site.setdefault(scan.site, []).append(np.interp(x, y, density, left=0, right=0))
    return x, by_site
