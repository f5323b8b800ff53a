"""Quality control: which scans of a study should be checked by eye, and why.

What is unusual is judged by fixed bounds or, where there is none, by the other scans of the study.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.methods.modes import MODES
from ndflow.reporting.scan_summary import ScanSummary

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
                f"After the match, a divergence of {apart:.2g} from the reference is left{usual}: "
                f"does this scan show something that others do not, such as a lesion or a piece of "
                f"skull?"
            )
        if count is not None and count < max(_FEW_VOXELS, _FEW_SHARE * usual_voxels):
            own.append(f"Only {count:,.0f} voxels were used: does the mask cover the brain?")
        own += dict.fromkeys([*scan.model.warnings, *scan.record.warnings])  # each once
        found.append(own)
    return found


def _fit(scan: ScanSummary) -> list[str]:
    misfit = scan.model.misfit
    if misfit is not None and misfit > _MISFIT:
        return [
            f"The mixture deviates from the histogram by up to {misfit:.1%}: look for spikes or a "
            f"cut-off in the histogram, and check the mask."
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
    """Return what is left of the scan's own divergence; that of its site's map is not its own."""
    match = scan.record.match
    mode = MODES.get(str(scan.record.setting("mode")))
    if match is None or match.divergence is None or (mode is not None and not mode.per_scan):
        return None
    return match.divergence.after


def _voxels(scan: ScanSummary) -> float | None:
    return None if scan.model.voxels is None else float(scan.model.voxels.fitted)


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else 0.0
