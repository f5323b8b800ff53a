"""Mistakes that a whole site shares, and scans that are unlike the others of their site.

Mistakes are made by sites: one script, one export, one masking tool is wrong in the same way for
all scans. Each of them looks like its neighbours, and only other sites show what is wrong. A site
is judged by the medians of what was measured in its scans (`image.mask_doubts.MaskFigures`):
against the median of the other sites, and by fixed bounds, of which some hold for any brain and
some for T1w images only. What is found first explains the rest, so it is all that is said.

A mask that is too wide or too small shows in the rim of the brain in two ways, in its brightness
and in its ranks. The brightness also depends on the contrast of the scanner. The ranks do not, but
depend less on the mask. So both must be off: from other sites and, in T1w, from T1w images in
general, which show which of two sites is wrong. Two of three that are wrong alike are the usual.

Tissue maps are compared with the images: by the order of the mean intensities of CSF, GM and WM,
and by how far these lie apart, which shows that maps are flipped, moved, or those of other people.

The bounds were chosen on the 68 scans of the cohort, as they are and with mistakes made on purpose,
and on simulated studies with even seeds (``experiments/site_mistakes.py``).

A scan is compared with those of its site or, where these are few, with all scans of the study.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mode, multimode

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.mixture import marginal
from ndflow.errors import InvalidValueError
from ndflow.image.mask import AUTO
from ndflow.image.mask_doubts import (
    CUT,
    CUT_OFF,
    JUDGED,
    NO_MASK,
    T1W_LEAST,
    T1W_RISE,
    TOO_SMALL,
    TOO_WIDE,
    is_inverted,
)
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.population import TISSUES, Tissues
from ndflow.study.checks import NO_SITE, labeller_doubts
from ndflow.subject.doubts import (
    FEWEST,
    OTHER_CONTRAST,
    RISE,
    expected,
    far_from,
    image_doubts,
    unlike_others,
)
from ndflow.subject.records import ScanModel
from ndflow.values import Doubt

Doubts = dict[str, tuple[Doubt, ...]]  # by the name of the scan

# ── sites ─────────────────────────────────────────────────────────────────────────────────────────

INVERTED, _OVERFLOWN, _SHADE = "inverted contrast", "integer overflow", "shading"
_FLIPPED, _NO_CSF = "mask flipped", "masks without CSF"
SHOWN = {OTHER_CONTRAST, INVERTED, _OVERFLOWN, _SHADE, _FLIPPED, _NO_CSF} | {
    kind for kind, _ in (CUT, TOO_SMALL, TOO_WIDE)
}  # kinds of doubt about sites that a picture of masks and images explains

_COMPARED = 4  # scans of a site, to compare it with others
_OTHER = 0.13  # by which `rise` of one contrast never differs, whatever the masks
_OVERFLOW = 0.002
_MIRRORED = 0.003  # right masks have less than −.005, flipped ones more than .005
_CLEFTS = 0.33  # of `rim_share`: right masks have .15 to .26, those of GM and WM .37 to .58
_RANKS, _BRIGHTNESS = 0.035, 0.055  # units of how much `rise` and `rim` of sites differ
_BOTH = 0.7  # of these units, the least of both, from other sites and from T1w images
_TIGHT, _LOOSE = 2.0, 3.0  # their sum; the latter since some tools include all CSF
_T1W = {"rise": T1W_RISE, "rim": 0.62}  # of T1w brains
_BRAIN = {"volume": 1350.0}  # ml, with CSF
_BONE = 0.92  # more `rise` than brains have in any contrast
_ROOMY = 1600.0  # ml: a site alone whose masks hold so much lacks no rim
_SHADED, _MORE_SHADED = 0.09, 0.045  # `shading` in T1w; in others, by how much more than elsewhere
_SIZES = (0.75, 1.33)  # times the volume at other sites

_LOOK = "look at the masks on the images, and make them in the same way for all sites"
_EXPORT = "look at the images, and at how they were exported"
_ORDER = INVERTED, f"{_EXPORT}; no increasing map can mend it"
_WITHOUT = "Correct them, or use --proportions adaptive"

_Medians = Mapping[str, float]  # by the name of what was measured


def _by_site(scans: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Return scans by site, all together where no site is known."""
    unknown = NO_SITE if any(scan.site for scan in scans) else "all sites"
    found: dict[str, list[Subject]] = defaultdict(list)
    for scan in sorted(scans, key=lambda scan: scan.site or unknown):
        found[scan.site or unknown].append(scan)
    return found


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
    sites = _by_site(scans)
    medians = {
        site: _medians(vars(mask) for scan in own if (mask := models[scan.name].mask) is not None)
        for site, own in sites.items()
    }
    medians = {site: own for site, own in medians.items() if own.get("volume", 0.0) >= JUDGED}
    large = {site: own for site, own in medians.items() if len(sites[site]) >= _COMPARED}

    found: dict[str, Doubt] = {}
    for judged in (_wrong_by_itself, _unlike):
        usual = {site: own for site, own in large.items() if site not in found}
        for site, own in medians.items():
            others = [one for name, one in usual.items() if name != site and site in large]
            if site not in found and (doubt := judged(own, others, t1w)) is not None:
                found[site] = doubt
    about = (replace(found[site], text=f"At {site}, {found[site].text}.") for site in sorted(found))
    rest = [scan for site, own in sites.items() if site not in found for scan in own]
    return (*about, *maps_in_doubt(rest, {s.name: models[s.name].model for s in rest}, t1w=t1w))


def _medians(figures: Iterable[Mapping[str, float | None]]) -> _Medians:
    known = defaultdict(list)
    for one in figures:
        for name, value in one.items():
            if value is not None:
                known[name].append(value)
    return {name: float(np.median(values)) for name, values in known.items()}


def _wrong_by_itself(own: _Medians, others: Sequence[_Medians], t1w: bool) -> Doubt | None:
    """Return the first thing that is wrong with a site whatever other sites are like.

    Parameters
    ----------
    own, others : of the site, whose name the text still lacks, and of others for comparison.
    t1w : whether images are known to be T1-weighted.
    """
    if own.get("overflow", 0.0) > _OVERFLOW:
        text = "neighbouring voxels differ by nearly the whole range of their integers"
        return Doubt(_OVERFLOWN, text, f"bright voxels became negative ones; {_EXPORT}")
    if t1w and own.get("rise", 1.0) < T1W_LEAST:
        wrong = _ORDER if is_inverted(own["rise"], T1W_RISE) else (OTHER_CONTRAST, _EXPORT)
        return _contrast(own, others, *wrong)
    if own["cut"] > CUT_OFF:
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
    return None


def _unlike(own: _Medians, others: Sequence[_Medians], t1w: bool) -> Doubt | None:
    """Return what is wrong with a site by the others that are right; or alone, if there are none.

    Parameters as for `_wrong_by_itself`.
    """
    usual = [*others, own] if len(others) > 1 else others  # so that one wrong site is no median
    compared = [_medians(usual), *[_T1W] * t1w, *[_BRAIN] * bool(others)]

    def more(name: str) -> float:
        """Return how much more of something it has than all that it is compared with."""
        away = [own[name] - one[name] for one in compared if name in one and name in own]
        least = min(away, key=abs, default=0.0)
        return least if all(least * one > 0 for one in away) else 0.0

    rise, volume = more("rise"), own["volume"]
    if rise and is_inverted(own["rise"], own["rise"] - rise):
        return _contrast(own, others, *_ORDER)
    times = volume / (volume - more("volume"))
    if abs(rise) > _OTHER and own["rise"] < _BONE and _SIZES[0] <= times <= _SIZES[1]:
        return _contrast(own, others, OTHER_CONTRAST, _EXPORT)
    ranks, rim = -rise / _RANKS, more("rim") / _BRIGHTNESS
    both = ranks * rim > 0 and min(abs(ranks), abs(rim)) > _BOTH and own["rise"] >= T1W_LEAST
    small = both and ranks + rim > _TIGHT and (bool(others) or volume < _ROOMY)
    large = both and ranks + rim < -_LOOSE
    if small or large:
        seen = f"the rim has {_percent('rim', own, others, ' % of the signal inside')}"
    else:
        small, large = times < _SIZES[0], times > _SIZES[1]
        seen = f"{volume:,.0f} ml, {times:.2g} times as much as elsewhere"
    if small or large:
        kind, words = (TOO_SMALL[0], "small") if small else (TOO_WIDE[0], "wide")
        return Doubt(kind, f"masks seem to be too {words}: {seen}", _LOOK)
    if own.get("shading", 0.0) > _SHADED if t1w else more("shading") > _MORE_SHADED:
        text = "brightness varies smoothly within bright tissue, by a standard deviation of "
        hint = "correct the bias field, with 'ndflow prepare' or N4"
        return Doubt(_SHADE, f"{text}{_percent('shading', own, others, ' %')}", hint)
    return None


def _contrast(own: _Medians, others: Sequence[_Medians], kind: str, hint: str) -> Doubt:
    usual = f", in T1w images about {100 * T1W_RISE:.0f} %" if not others else ""
    text = f"{RISE} {_percent('rise', own, others, ' % of all pairs')}{usual}"
    return Doubt(kind, text[0].lower() + text[1:], hint)


def _percent(name: str, own: _Medians, others: Sequence[_Medians], words: str) -> str:
    """Return a share at a site, with words, and what it is at other sites."""
    known = sorted(other[name] for other in others if name in other)
    ends = dict.fromkeys(f"{100 * end:.2g}" for end in known[:1] + known[-1:])
    elsewhere = f", other sites {'–'.join(ends)} %" if known else ""
    return f"{100 * own[name]:.2g}{words}{elsewhere}"


def refuse_inverted(of_study: Iterable[Doubt]) -> None:
    """Raise an error if the contrast of a site is the other way round."""
    if found := [doubt for doubt in of_study if doubt.kind == INVERTED]:
        where = "; at ".join(doubt.text.removeprefix("At ").rstrip(".") for doubt in found)
        raise InvalidValueError(f"{INVERTED}: at {where}; {found[0].hint}; --force goes on anyway")


# ── tissue maps of sites ──────────────────────────────────────────────────────────────────────────

EXCHANGED, MISPLACED = "tissue maps exchanged", "tissue maps misplaced"
# Separation of tissues (`_separation`) in T1w images: at right sites 2.6 to 2.8, but 1.3 with very
# soft maps; with maps flipped, moved by 6 mm, or of other people .7 to 1.15. Scanners of simulated
# studies differ by factors down to .63.
_T1W_APART, _APART = 1.2, 0.55


def maps_in_doubt(
    scans: Sequence[Subject], models: Mapping[str, DensityModel], *, t1w: bool
) -> tuple[Doubt, ...]:
    """Return sites whose tissue maps do not fit their images, or are unlike those of other sites.

    Parameters
    ----------
    scans : of a study.
    models : what is known about them, by name.
    t1w : whether they are known to be T1-weighted, in which CSF is darker than GM, and GM than WM.
    """
    maps = {
        site: [own for scan in some if isinstance(own := models[scan.name].tissues, Tissues)]
        for site, some in _by_site(scans).items()
    }
    maps = {site: own for site, own in maps.items() if own}
    orders = {site: mode(map(_order, own)) for site, own in maps.items()}
    apart = {site: float(np.median([*map(_separation, own)])) for site, own in maps.items()}
    most = multimode(orders.values())  # several where it is unclear which sites are right
    right = TISSUES if t1w else most[0] if len(most) == 1 else ()
    found = []
    for site, order in orders.items():
        others = [value for other, value in apart.items() if other != site]
        usual = float(np.median(others)) if others else 0.0
        if apart[site] < max(_APART * usual, _T1W_APART * t1w):
            elsewhere = f", at other sites {usual:.2g}" if usual else ""
            text = f"At {site}, tissues differ by {apart[site]:.2g} of their sd{elsewhere}."
            hint = "are the tissue maps those of these scans, and not flipped or moved?"
            found.append(Doubt(MISPLACED, text, f"{hint} {_WITHOUT}"))
        elif order != right:
            where = f"in {'T1w images' if t1w else 'most'} {' < '.join(right)}"
            text = f"At {site}, brightness by tissue maps is {' < '.join(order)}, "
            text += f"{where if right else 'unlike at other sites'}."
            hint = "are tissue maps exchanged, or is the contrast another one?"
            found.append(Doubt(EXCHANGED, text, f"{hint} {_WITHOUT}"))
    shares = {site: np.array([one.proportions for one in own]) for site, own in maps.items()}
    return tuple(found) or labeller_doubts(shares)


def _order(tissues: Tissues) -> tuple[str, ...]:
    """Return the tissues from the darkest to the brightest."""
    return tuple(
        TISSUES[place] for place in np.argsort([one.mean()[0] for one in tissues.densities])
    )


def _separation(tissues: Tissues) -> float:
    """Return how far tissues of neighbouring brightness lie apart, in sd of their voxels."""
    known = sorted((one.mean()[0], one.covariance()[0, 0]) for one in tissues.densities)
    means, variances = np.array(known).T
    return float(np.mean(np.diff(means) / np.sqrt((variances[1:] + variances[:-1]) / 2)))


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
        sites = _by_site(scans).values()
        enough = [own for own in sites if len(own) >= FEWEST]
        for some in [scans] * (len(enough) < len(sites)) + enough:
            names = [scan.name for scan in some]
            odd = unlike_others([models[name].mixture for name in names])
            among |= dict(zip(names, odd, strict=True)) | _masks(names, models)
    found = {}
    for scan in scans:
        own, shown = models[scan.name], expected(scan.channels, channels or scan.channels)
        images, densities = map(str, scan.images.values()), own.marginals or (own.mixture,)
        mask = own.mask if len(scans) < FEWEST else None  # compared with others below
        about = map(image_doubts, images, shown, densities, ends, [mask] * len(ends))
        found[scan.name] = sum(about, ()) or among.get(scan.name, ())
    return {name: own for name, own in found.items() if own}


def _masks(names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return doubts about contrast and masks, where the masks have given rise to none before."""
    masks = {name: mask for name in names if (mask := models[name].mask) is not None}
    if len(masks) < FEWEST:
        return {}
    usual, found = _medians(map(vars, masks.values())), Doubts()
    rims = [usual.get("rim", 0.0) if mask.rim is None else mask.rim for mask in masks.values()]
    for (name, mask), far in zip(masks.items(), far_from(np.array(rims), least=_RIM), strict=True):
        volume, rise, text = mask.volume, mask.rise, ""
        if volume and not _VOLUMES[0] <= volume / usual["volume"] <= _VOLUMES[1]:
            small = volume < usual["volume"]
            text = f"The voxels used are {volume:,.3g} ml, where {usual['volume']:,.3g} ml is"
        if far:
            small = far > 0
            text = f"The outermost 4 mm of the voxels used have {mask.rim:.0%} of the signal inside"
            text += f", where {usual['rim']:.0%} is"
        if text and not models[name].doubts:
            given = (models[name].settings or {}).get("mask")
            wide = NO_MASK if given in ("nonzero", AUTO) else TOO_WIDE
            kind, hint = TOO_SMALL if small else wide
            found[name] = (Doubt(kind, f"{text} usual among these scans.", hint),)
        if rise and (rise < usual["rise"] - _CONTRAST or is_inverted(rise, usual["rise"])):
            text = f"{RISE} {rise:.0%} of all pairs, where {usual['rise']:.0%} is"
            found[name] = (Doubt(OTHER_CONTRAST, f"{text} usual among these scans.", _EXPORT),)
    return found
