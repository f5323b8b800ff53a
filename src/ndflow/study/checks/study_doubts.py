"""What is doubtful about a scan compared with the other scans of its study, and doubts counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ndflow.doubt import Doubt

__all__ = ["Compared", "DoubtCount", "compared_doubts", "doubt_counts"]

_LEFT = 4.0  # times the median of the study
_LEAST_LEFT = 1e-3  # less than this is nothing to worry about
_FEW_VOXELS = 5000
_FEW_SHARE = 0.4  # of the median of the site


class Compared(NamedTuple):
    """What is compared between the scans of a study.

    Attributes
    ----------
    left : the divergence from the target after the match; None if the scan has no match of its own.
    voxels : how many its density was estimated from, if that is known.
    site : where it was made. Voxels of different sites may differ in size.
    """

    left: float | None = None
    voxels: int | None = None
    site: str | None = None


class DoubtCount(NamedTuple):
    """A kind of doubt, the scans that it is about, and what to try."""

    kind: str
    scans: list[str]
    hint: str


def compared_doubts(scans: Mapping[str, Compared]) -> dict[str, tuple[Doubt, ...]]:
    """Return what is unusual about scans, by their names; those without doubts are left out."""
    usual_left = _median(scan.left for scan in scans.values())
    usual_voxels = {
        site: _median(scan.voxels for scan in scans.values() if scan.site == site)
        for site in {scan.site for scan in scans.values()}
    }
    found = {}
    for name, (left, voxels, site) in scans.items():
        own = []
        if left is not None and left > max(_LEFT * usual_left, _LEAST_LEFT):
            usual = f", {left / usual_left:.0f} times as much as usual here" if usual_left else ""
            own.append(
                Doubt(
                    "unusual divergence",
                    f"After the match, a divergence of {left:.2g} from the reference is "
                    f"left{usual}.",
                    "does the scan show something that others do not, such as a lesion or a piece "
                    "of skull?",
                )
            )
        if voxels is not None and voxels < max(_FEW_VOXELS, _FEW_SHARE * usual_voxels[site]):
            own.append(
                Doubt(
                    "few voxels",
                    f"Only {voxels:,} voxels were used.",
                    "does the mask cover the brain?",
                )
            )
        if own:
            found[name] = tuple(own)
    return found


def doubt_counts(doubts: Mapping[str, Iterable[Doubt]]) -> list[DoubtCount]:
    """Count the doubts about scans by kind, the most frequent first.

    Parameters
    ----------
    doubts : about each scan, by its name.
    """
    counts: dict[str, DoubtCount] = {}
    for name, own in doubts.items():
        for doubt in own:
            count = counts.setdefault(doubt.kind, DoubtCount(doubt.kind, [], doubt.hint))
            if name not in count.scans[-1:]:
                count.scans.append(name)
    return sorted(counts.values(), key=lambda count: -len(count.scans))


def _median(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else 0.0
