"""Scans of a study that somebody should look at, and why.

What is unusual is measured against fixed bounds and, where there is no such bound, against the
other scans of the study.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.report.scan_summary import ScanSummary

__all__ = ["quality_flags"]

_MISFIT = 0.03  # Kolmogorov–Smirnov distance of a mixture from the histogram
_LEFT = 4.0  # times the median of the study
_LEAST_LEFT = 1e-3  # less than this is nothing to worry about
_STEEP, _FLAT = 4.0, 0.2  # slope of a map, as a multiple of the alignment's
_FEW_VOXELS = 5000
_FEW_SHARE = 0.4  # of the median of the study


def quality_flags(scans: Sequence[ScanSummary]) -> list[list[str]]:
    """Return for each scan sentences on what to check; none where nothing is unusual."""
    left = [_divergence(scan) for scan in scans]
    voxels = [_voxels(scan) for scan in scans]
    usual_left = _median(left)
    usual_voxels = _median(voxels)
    found = []
    for scan, apart, count in zip(scans, left, voxels, strict=True):
        own = [*_fit(scan), *_slopes(scan)]
        if apart is not None and apart > max(_LEFT * usual_left, _LEAST_LEFT):
            usual = f", {apart / usual_left:.0f} times as much as usual here" if usual_left else ""
            own.append(
                f"After the match {apart:.2g} of divergence from the reference is left{usual}: is "
                f"something in this scan that others do not have, such as a lesion or a piece of "
                f"skull?"
            )
        if count is not None and count < max(_FEW_VOXELS, _FEW_SHARE * usual_voxels):
            own.append(f"Only {count:,.0f} voxels count: does the mask cover the brain?")
        own += [*scan.model.get("warnings", []), *scan.record.get("warnings", [])]
        found.append(own)
    return found


def _fit(scan: ScanSummary) -> list[str]:
    misfit = scan.model.get("misfit")
    if isinstance(misfit, float) and misfit > _MISFIT:
        return [
            f"The mixture is {misfit:.1%} off the histogram at its worst: look for spikes or a "
            f"cut-off in the histogram, and at the mask."
        ]
    return []


def _slopes(scan: ScanSummary) -> list[str]:
    if scan.slopes is None:
        return []
    least, most = scan.slopes
    found = []
    if most > _STEEP:
        found.append(
            f"The map stretches some intensities {most:.1f} times as much as the alignment does: "
            f"noise is stretched there too."
        )
    if least < _FLAT:
        found.append(
            f"The map squeezes some intensities to {least:.2f} of what the alignment leaves: "
            f"contrast may be lost there."
        )
    return found


def _divergence(scan: ScanSummary) -> float | None:
    """Return what is left of the scan's own divergence; a map of its site says nothing of it."""
    found = scan.record.get("divergence")
    by_site = (scan.record.get("settings") or {}).get("mode") == "site"
    return None if not found or by_site else float(found["after"])


def _voxels(scan: ScanSummary) -> float | None:
    found = scan.model.get("voxels")
    return None if not found else float(found["fitted"])


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else 0.0
