"""Scans of a study that are unlike the others: in density, in scale, or in what their masks cover.

A scan is compared with the scans of its site, or where these are few with all scans of the study.
What is usual is a median, so that a few wrong scans do not matter; where most masks of a study are
wrong in the same way, only the fixed bounds of `ndflow.image.mask_doubts` can find them.

Scales are compared only within a site that is named and has enough scans: every scanner has a scale
of its own, so between sites they may differ by any factor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.doubt import Doubt
from ndflow.image.mask_doubts import TOO_SMALL, TOO_WIDE
from ndflow.image.subject import Scan
from ndflow.population.plausibility import (
    FEWEST,
    UNLIKE,
    far_from,
    unlike_others,
    unlike_reference,
)
from ndflow.scan.match_doubts import VoxelQuantiles
from ndflow.scan.records import ScanModel

__all__ = ["Doubts", "odd_scans"]

Doubts = dict[str, tuple[Doubt, ...]]  # by the name of the scan

_RIM = 0.08  # the least difference in the brightness of the rim that matters: 1 mm of mask
_VOLUMES = (0.6, 1.6)  # of the median; at one site, adults have from 0.79 to 1.23
_FACTOR = 1.5  # of the median scale; at one site, scans of one protocol have from 0.84 to 1.21


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
    scales: Doubts = {}
    for site, some in by_site.items():
        scales |= _scales(site, [scan.name for scan in some], models) if site is not None else {}
    for scan in scans:
        unlike = unlike_reference(models[scan.name].mixture, reference)
        own = (*found.get(scan.name, ()), *unlike)
        if not any(doubt.kind in UNLIKE for doubt in own):  # another contrast has another scale
            own += scales.get(scan.name, ())
        if own:
            found[scan.name] = own
    return found


def _among(scans: Sequence[Scan], models: Mapping[str, ScanModel]) -> Doubts:
    """Return what is doubtful about scans that should be alike."""
    names = [scan.name for scan in scans]
    masks = _masks(names, models)
    odd = unlike_others([models[name].mixture for name in names])
    found = {name: (*masks.get(name, ()), *own) for name, own in zip(names, odd, strict=True)}
    return {name: own for name, own in found.items() if own}


def _scales(site: str, names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return doubts about scans of a site whose intensities are much larger or smaller than usual.

    The scale of a scan is the median of the absolute values of its intensities. In a raw scan,
    where all are positive, that is their median; but it is also known where some are negative.
    """
    inner = {name: VoxelQuantiles.of_model(models[name]).inner for name in names}
    scales = {name: float(np.median(np.abs(quantiles))) for name, quantiles in inner.items()}
    known = {name: np.log(scale) for name, scale in scales.items() if scale > 0}
    if len(known) < FEWEST:
        return {}
    away = far_from(np.array(list(known.values())), least=float(np.log(_FACTOR)))
    hint = (
        "check that it is from the same scanner and protocol and was exported with the same "
        "scaling, and give it a site of its own if not; a factor alone does no harm, since each "
        "scan is aligned by itself"
    )
    found: Doubts = {}
    for name, factor in zip(known, np.exp(away).tolist(), strict=True):
        if factor != 1:
            times = f"{factor:,.0f}" if factor > 10 else f"{factor:.2g}"
            text = f"Its intensities are {times} times those of the other scans of {site}."
            found[name] = (Doubt("other scale", text, hint),)
    return found


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
