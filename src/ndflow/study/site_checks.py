"""Mistakes that a whole site shares, and scans that are unlike the others of their site.

Mistakes are made by sites: one script, one export, one masking tool is wrong in the same way for
all scans. Each of them looks like its neighbours, and only other sites show what is wrong. A site
is judged by the medians of what was measured in its scans (`image.mask_doubts.MaskFigures`):
against the median of the other sites, and by fixed bounds, of which some hold for any brain and
some for T1w images only. What is found first explains the rest, so it is all that is said.

A mask that is too wide or too small shows in the rim of the brain in two ways, in its brightness
and in its ranks. The brightness also depends on the contrast of the scanner. The ranks do not, but
depend less on the mask. So both must be off.

The bounds were chosen on the 68 scans of the cohort, as they are and with mistakes made on purpose,
and on simulated studies with even seeds (``experiments/site_mistakes.py``).

A scan is compared with those of its site or, where these are few, with all scans of the study.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.mixture import marginal
from ndflow.errors import InvalidValueError
from ndflow.image.mask import AUTO
from ndflow.image.mask_doubts import (
    CUT,
    JUDGED,
    NO_MASK,
    T1W_LEAST,
    T1W_RISE,
    TOO_SMALL,
    TOO_WIDE,
    MaskFigures,
    is_inverted,
)
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.population import TISSUES, Tissues
from ndflow.subject.doubts import (
    FEWEST,
    OTHER_CONTRAST,
    expected,
    far_from,
    image_doubts,
    rise_of,
    unlike_others,
)
from ndflow.subject.records import ScanModel
from ndflow.values import Doubt

Doubts = dict[str, tuple[Doubt, ...]]  # by the name of the scan

# ── sites ─────────────────────────────────────────────────────────────────────────────────────────

INVERTED = "inverted contrast"
_OVERFLOWN, _FLIPPED, _NO_CSF, _SHADE = (
    "integer overflow",
    "mask flipped",
    "masks without CSF",
    "shading",
)
_MASKS = (CUT[0], TOO_SMALL[0], TOO_WIDE[0], _FLIPPED, _NO_CSF)
OF_SITES = {INVERTED, OTHER_CONTRAST, _OVERFLOWN, _SHADE, *_MASKS}  # kinds of doubt
OTHER_ORDER = "tissue maps exchanged"

_COMPARED = 3  # scans of a site, to compare it with others
_OTHER = 0.13  # by which `rise` of one contrast never differs, whatever the masks
_OVERFLOW = 0.002
_CUT_OFF = 0.15  # right masks have at most .09
_MIRRORED = 0.003  # right masks have less than −.005, flipped ones more than .005
_CLEFTS = 0.33  # of `rim_share`: right masks have .15 to .26, those of GM and WM .37 to .58
_RANKS, _BRIGHTNESS = 0.035, 0.055  # units of how much `rise` and `rim` of sites differ
_BOTH = 0.7  # of these units, the least of both
_TIGHT, _LOOSE = 2.0, 3.0  # their sum; the latter since some tools include all CSF
_T1W = {"rise": T1W_RISE, "rim": 0.62}  # of T1w brains, for a site alone
_SHADED, _MORE_SHADED = 0.09, 0.045  # `shading` in T1w, and by how much more than elsewhere
_SIZES = (0.75, 1.33)  # times the volume at other sites

_LOOK = "look at the masks on the images, and make them in the same way for all sites"
_EXPORT = "look at the images, and at how they were exported"
_ORDER = INVERTED, f"{_EXPORT}; no increasing map can mend it"

_ALL = "all sites"  # where no site is known
_Medians = Mapping[str, float]  # by the name of what was measured


def sites_in_doubt(
    scans: Sequence[Subject], models: Mapping[str, ScanModel], *, t1w: bool
) -> tuple[Doubt, ...]:
    """Return what is wrong with all scans of a site, at most one doubt about each site.

    Parameters
    ----------
    scans : of a study.
    models : what is known about them, by name.
    t1w : whether they are known to be T1-weighted.
    """
    figures: dict[str, list[MaskFigures]] = defaultdict(list)
    for scan in scans:
        if (mask := models[scan.name].mask) is not None:
            figures[scan.site or _ALL].append(mask)
    medians = {site: _medians(own) for site, own in sorted(figures.items())}
    large = {site: own for site, own in medians.items() if len(figures[site]) >= _COMPARED}

    def others(site: str) -> list[_Medians]:
        return [own for name, own in large.items() if name != site and site in large]

    found = {
        site: doubt
        for site, own in medians.items()
        if (doubt := _wrong_by_itself(own, others(site), t1w)) is not None
    }
    large = {site: own for site, own in large.items() if site not in found}
    for site, own in medians.items():
        if site not in found and (doubt := _unlike(own, others(site), t1w)) is not None:
            found[site] = doubt
    if t1w and {doubt.kind for doubt in found.values()} == {TOO_SMALL[0], TOO_WIDE[0]}:
        # Of two sites, the one that is more like other T1w images is right.
        del found[min(found, key=lambda site: abs(medians[site]["rim"] - _T1W["rim"]))]
    return tuple(
        replace(found[site], text=f"At {site}, {found[site].text}.") for site in sorted(found)
    )


def _medians(figures: Sequence[MaskFigures]) -> _Medians:
    found = {}
    for name in (field.name for field in fields(MaskFigures)):
        if values := [value for one in figures if (value := getattr(one, name)) is not None]:
            found[name] = float(np.median(values))
    return found


def _wrong_by_itself(own: _Medians, others: Sequence[_Medians], t1w: bool) -> Doubt | None:
    """Return the first thing that is wrong with a site whatever other sites are like.

    Parameters
    ----------
    own, others : of the site, whose name the text still lacks, and of others for comparison.
    t1w : whether images are known to be T1-weighted.
    """
    if own.get("volume", 0.0) < JUDGED:
        return None
    if own.get("overflow", 0.0) > _OVERFLOW:
        text = "neighbouring voxels differ by nearly the whole range of their integers"
        return Doubt(_OVERFLOWN, text, f"bright voxels became negative ones; {_EXPORT}")
    if t1w and own.get("rise", 1.0) < T1W_LEAST:
        wrong = _ORDER if is_inverted(own["rise"], T1W_RISE) else (OTHER_CONTRAST, _EXPORT)
        return _contrast(own, others, *wrong)
    if own["cut"] > _CUT_OFF:
        text = f"brains end flat, in a slice of {100 * own['cut']:.0f} % of the largest one's size"
        return Doubt(CUT[0], text, CUT[1])
    if own.get("mirrored", -1.0) > _MIRRORED:
        text = "masks would fit better if they were flipped left to right"
        return Doubt(_FLIPPED, text, _LOOK)
    if own["rim_share"] > _CLEFTS:
        name, what = "rim_share", "within 4 mm of their surface"
        if t1w and "dark" in own:
            name, what = "dark", "dark voxels"
        text = f"masks seem to exclude CSF: {_percent(name, own, others, f' % {what}')}"
        return Doubt(_NO_CSF, text, _LOOK)
    if t1w and own.get("shading", 0.0) > _SHADED:
        return _shading(own, others)
    return None


def _unlike(own: _Medians, others: Sequence[_Medians], t1w: bool) -> Doubt | None:
    """Return what is wrong with a site by the others that are right; or alone, if there are none.

    Parameters as for `_wrong_by_itself`.
    """
    if own.get("volume", 0.0) < JUDGED or "rise" not in own:
        return None
    usual = [*others, own] if len(others) > 1 else others  # so that one wrong site is no median
    usual = usual or [_T1W] * t1w

    def more(name: str) -> float:
        known = [site[name] for site in usual if name in site]
        return own[name] - float(np.median(known)) if known and name in own else 0.0

    if is_inverted(own["rise"], own["rise"] - more("rise")):
        return _contrast(own, others, *_ORDER)
    if abs(more("rise")) > _OTHER:
        return _contrast(own, others, OTHER_CONTRAST, _EXPORT)
    ranks, rim = -more("rise") / _RANKS, more("rim") / _BRIGHTNESS
    dark = own["rise"] >= T1W_LEAST  # the rim, compared with the rest of the brain
    small = dark and min(ranks, rim) > _BOTH and ranks + rim > _TIGHT
    large = dark and max(ranks, rim) < -_BOTH and ranks + rim < -_LOOSE
    if small or large:
        seen = f"the rim has {_percent('rim', own, others, ' % of the signal inside')}"
    else:
        times = own["volume"] / (own["volume"] - more("volume"))
        seen = f"{own['volume']:,.0f} ml, {times:.2g} times as much as elsewhere"
        small, large = times < _SIZES[0], times > _SIZES[1]
    if small or large:
        kind, words = (TOO_SMALL[0], "small") if small else (TOO_WIDE[0], "wide")
        return Doubt(kind, f"masks seem to be too {words}: {seen}", _LOOK)
    return _shading(own, others) if more("shading") > _MORE_SHADED else None


def _contrast(own: _Medians, others: Sequence[_Medians], kind: str, hint: str) -> Doubt:
    usual = f", in T1w images about {100 * T1W_RISE:.0f} %" if not others else ""
    text = "a voxel in the middle of the brain is brighter than one of its rim in "
    return Doubt(kind, f"{text}{_percent('rise', own, others, ' % of all pairs')}{usual}", hint)


def _shading(own: _Medians, others: Sequence[_Medians]) -> Doubt:
    text = "brightness varies smoothly within bright tissue, by a standard deviation of "
    hint = "correct the bias field, with 'ndflow prepare' or N4"
    return Doubt(_SHADE, f"{text}{_percent('shading', own, others, ' %')}", hint)


def _percent(name: str, own: _Medians, others: Sequence[_Medians], words: str) -> str:
    """Return a share at a site, with words, and what it is at other sites."""
    known = sorted(other[name] for other in others if name in other)
    ends = dict.fromkeys(f"{100 * end:.2g}" for end in known[:1] + known[-1:])
    elsewhere = f", other sites {'–'.join(ends)} %" if known else ""
    return f"{100 * own[name]:.2g}{words}{elsewhere}"


def refuse_inverted(of_study: Iterable[Doubt]) -> None:
    """Raise an error if the contrast of a site is the other way round."""
    for doubt in of_study:
        if doubt.kind == INVERTED:
            raise InvalidValueError(
                f"{doubt.text.rstrip('.')}; {doubt.hint}; --force goes on anyway"
            )


def orders_in_doubt(
    scans: Sequence[Subject], models: Mapping[str, DensityModel], *, t1w: bool
) -> tuple[Doubt, ...]:
    """Return sites whose tissue maps name other tissues dark and bright than those of other sites.

    Parameters
    ----------
    scans : of a study.
    models : what is known about them, by name.
    t1w : whether they are known to be T1-weighted, in which CSF is darker than GM, and GM than WM.
    """
    seen: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for scan in scans:
        if isinstance(tissues := models[scan.name].tissues, Tissues):
            means = [float(one.mean()[0]) for one in tissues.densities]
            order = tuple(TISSUES[place] for place in np.argsort(means))
            seen[scan.site or _ALL].append(order)
    usual = {site: Counter(own).most_common(1)[0][0] for site, own in sorted(seen.items())}
    counts = Counter(usual.values()).most_common(2)
    unclear = len(counts) > 1 and counts[0][1] == counts[1][1]  # which of the sites is right
    right = TISSUES if t1w else () if unclear or not counts else counts[0][0]
    found = []
    for site, order in usual.items():
        if order != right:
            where = f"in {'T1w images' if t1w else 'most'} {' < '.join(right)}"
            text = f"At {site}, brightness by tissue maps is {' < '.join(order)}, "
            text += f"{where if right else 'unlike at other sites'}."
            hint = "are tissue maps exchanged? Correct them, or use --proportions adaptive"
            found.append(Doubt(OTHER_ORDER, text, hint))
    return tuple(found)


# ── scans ─────────────────────────────────────────────────────────────────────────────────────────

_RIM = 0.08  # the least difference in the brightness of the rim that matters: 1 mm of mask
_CONTRAST = 0.2  # less `rise` than usual: masks that lack 10 mm have .15 to .2 less, FLAIR .2 to .5
_VOLUMES = (0.6, 1.6)  # of the median; at one site, adults have from 0.79 to 1.23


def odd_scans(
    scans: Sequence[Subject],
    models: Mapping[str, ScanModel],
    reference: GaussianMixture,
    channels: Sequence[str] = (),
) -> Doubts:
    """Return what is doubtful about scans in comparison with others, by name; usually nothing.

    What is usual is a median, so that a few wrong scans do not matter.

    Parameters
    ----------
    scans : of a study.
    models : what is known about them, by name.
    reference : the density of the study's common reference.
    channels : what that shows. Default: what the scans do.
    """
    ends = [marginal(reference, place) for place in range(reference.channels)]
    among: Doubts = {}
    if len(ends) == 1:  # only a single channel is compared with other scans
        by_site: dict[str | None, list[str]] = defaultdict(list)
        for scan in scans:
            by_site[scan.site].append(scan.name)
        enough = [some for some in by_site.values() if len(some) >= FEWEST]
        if len(enough) < len(by_site):
            among = _among([scan.name for scan in scans], models)
        for some in enough:
            among |= _among(some, models)
    found = {}
    for scan in scans:
        own, shown = models[scan.name], expected(scan.channels, channels or scan.channels)
        images, densities = map(str, scan.images.values()), own.marginals or (own.mixture,)
        mask = own.mask if len(scans) < FEWEST else None  # compared with others below
        about = map(image_doubts, images, shown, densities, ends, [mask] * len(ends))
        found[scan.name] = sum(about, ()) or among.get(scan.name, ())
    return {name: own for name, own in found.items() if own}


def _among(names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return what is doubtful about scans that should be alike: their masks, or their densities."""
    masks = _masks(names, models)
    odd = unlike_others([models[name].mixture for name in names])
    return {name: masks.get(name) or own for name, own in zip(names, odd, strict=True)}


def _masks(names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return doubts about contrast and masks, where the masks have given rise to none before."""
    masks = {name: mask for name in names if (mask := models[name].mask) is not None}
    found: Doubts = {}

    def known(figure: str) -> dict[str, float]:
        values = {name: getattr(mask, figure) for name, mask in masks.items()}
        some = {name: value for name, value in values.items() if value}
        return some if len(some) >= FEWEST else {}

    def doubt(name: str, small: bool, text: str) -> None:
        given = (models[name].settings or {}).get("mask")
        wide = NO_MASK if given in ("nonzero", AUTO) else TOO_WIDE
        kind, hint = TOO_SMALL if small else wide
        found[name] = (Doubt(kind, f"{text} among these scans.", hint),)

    volumes, rims, rises = known("volume"), known("rim"), known("rise")
    usual = float(np.median([*volumes.values()])) if volumes else 0.0
    for name, volume in volumes.items():
        if not _VOLUMES[0] * usual <= volume <= _VOLUMES[1] * usual:
            text = f"The voxels used are {volume:,.3g} ml, where {usual:,.3g} ml is usual"
            doubt(name, volume < usual, text)
    usual = float(np.median([*rims.values()])) if rims else 0.0
    away = far_from(np.array([*rims.values()]), least=_RIM) if rims else ()
    for name, far in zip(rims, away, strict=True):
        if far:
            text = f"The outermost 4 mm of the voxels used have {rims[name]:.0%} of the signal "
            doubt(name, far > 0, f"{text}inside, where {usual:.0%} is usual")
    found = {name: own for name, own in found.items() if not models[name].doubts}
    usual = float(np.median([*rises.values()])) if rises else 0.0
    for name, rise in rises.items():
        if rise < usual - _CONTRAST or is_inverted(rise, usual):
            text = f"{rise_of(rise)}, where {usual:.0%} is usual among these scans."
            found[name] = (Doubt(OTHER_CONTRAST, text, _EXPORT),)
    return found
