"""Scans of a study that are unlike the others: in their density, or in what their masks cover.

A scan is compared with the scans of its site, or where these are few with all scans of the study.
What is usual is a median, so that a few wrong scans do not matter; where most masks of a study are
wrong in the same way, only the fixed bounds of `ndflow.image.mask_doubts` can find them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.doubt import Doubt
from ndflow.image.mask_doubts import TOO_SMALL, TOO_WIDE
from ndflow.image.scans import Scan
from ndflow.population.plausibility import (
    FEWEST,
    far_from,
    unlike_others,
    unlike_reference,
)
from ndflow.scan.records import ScanModel

__all__ = ["Doubts", "odd_scans"]

Doubts = dict[str, tuple[Doubt, ...]]  # by the name of the scan

_RIM = 0.08  # the least difference in the brightness of the rim that matters: 1 mm of mask
_VOLUMES = (0.6, 1.6)  # of the median; at one site, adults have from 0.79 to 1.23


def odd_scans(
    scans: Sequence[Scan], models: Mapping[str, ScanModel], reference: GaussianMixture
) -> Doubts:
    """Return what is doubtful about scans in comparison with others.

    Parameters
    ----------
    scans : of a study.
    models : what is known about them, by name.
    reference : the density of the study's common reference.

    Returns
    -------
    dict
        The doubts by the name of the scan, which is missing where there is none.
    """
    by_site: dict[str | None, list[Scan]] = defaultdict(list)
    for scan in scans:
        by_site[scan.site].append(scan)
    found: Doubts = {}
    if any(len(some) < FEWEST for some in by_site.values()):
        few = {scan.name for some in by_site.values() if len(some) < FEWEST for scan in some}
        found = {name: own for name, own in _among(scans, models).items() if name in few}
    for some in by_site.values():
        found |= _among(some, models) if len(some) >= FEWEST else {}
    for scan in scans:
        if own := unlike_reference(models[scan.name].mixture, reference):
            found[scan.name] = (*found.get(scan.name, ()), *own)
    return found


def _among(scans: Sequence[Scan], models: Mapping[str, ScanModel]) -> Doubts:
    """Return what is doubtful about scans that should be alike."""
    names = [scan.name for scan in scans]
    masks = _masks(names, models)
    odd = unlike_others([models[name].mixture for name in names])
    found = {name: (*masks.get(name, ()), *own) for name, own in zip(names, odd, strict=True)}
    return {name: own for name, own in found.items() if own}


def _masks(names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return doubts about masks that have given rise to none by themselves."""
    found: Doubts = {}
    rims = {name: mask.rim for name in names if (mask := models[name].mask) and mask.rim}
    if len(rims) >= FEWEST:
        usual = float(np.median(list(rims.values())))
        away = far_from(np.array(list(rims.values())), least=_RIM)
        for name, far in zip(rims, away.tolist(), strict=True):
            if far:
                text = (
                    f"The outermost 4 mm of the mask have {rims[name]:.0%} of the signal inside, "
                    f"where {usual:.0%} is usual among these scans."
                )
                found[name] = (_doubt(TOO_SMALL if far > 0 else TOO_WIDE, text),)
    volumes = {name: mask.volume for name in names if (mask := models[name].mask) and mask.volume}
    if len(volumes) >= FEWEST:
        usual = float(np.median(list(volumes.values())))
        for name, volume in volumes.items():
            low, high = (usual * factor for factor in _VOLUMES)
            if not low <= volume <= high and name not in found:
                text = (
                    f"The voxels that count are {volume:,.3g} ml, where {usual:,.3g} ml is usual "
                    f"among these scans."
                )
                found[name] = (_doubt(TOO_SMALL if volume < low else TOO_WIDE, text),)
    return {name: own for name, own in found.items() if not models[name].doubts}


def _doubt(kind_and_hint: tuple[str, str], text: str) -> Doubt:
    kind, hint = kind_and_hint
    return Doubt(kind, text, hint)
