"""What shows when the scans of a study are compared: doubts about scans, and distances of sites.

Whether the tissue maps of all sites were made in the same way, judged by tissue proportions.

Another program, or another brain mask, moves the proportions of CSF, GM and WM for all scans of a
site, and a target that trusts the maps then takes the difference of labels for one of people. With
s the mean proportions of a site of n scans, and t the mean of the other sites' means, which varies
like that of N scans, the difference of the two is far beyond what people differ by if

    (s − t)ᵀ Σ⁻¹ (s − t)  >  d² (1 + 1/n + 1/N),                                              (1)

where Σ is the covariance of proportions among people of one site. They sum to 1, so CSF and WM
determine GM. The 1 in (1) stands for sites that do differ although their maps were made alike, in
age or by contrast: by one standard deviation of people.

Σ is pooled over the sites, but in no direction less than in the 68 scans on which the bounds below
were measured: people of one age differ little from each other, but a site of students may well be
compared with one of patients.

The site with the largest excess is named and left out, until none is left that exceeds the bound.
Of two sites, (1) cannot say which is the unusual one, and both are named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.density.mixture import marginal
from ndflow.evaluation.sites import distance_between_sites, distance_within_sites
from ndflow.image.mask_doubts import TOO_SMALL, TOO_WIDE
from ndflow.image.subject import Subject
from ndflow.population import TISSUES
from ndflow.subject.doubts import FEWEST, far_from, unlike_others, unlike_reference
from ndflow.subject.records import ScanModel
from ndflow.transport import IntensityMap, align
from ndflow.values import Doubt, FloatArray, listed

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
            text = f"After the match, a divergence of {left:.2g} from the reference is left{usual}."
            hint = "does the scan show something that others do not, such as a lesion or a piece of"
            own.append(Doubt("unusual divergence", text, f"{hint} skull?"))
        if voxels is not None and voxels < max(_FEW_VOXELS, _FEW_SHARE * usual_voxels[site]):
            text = f"Only {voxels:,} voxels were used."
            own.append(Doubt("few voxels", text, "does the mask cover the brain?"))
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


# ── scans unlike the others ───────────────────────────────────────────────────────────────────────
# Scans of a study that are unlike the others: in density, or in what their masks cover.
#
# A scan is compared with the scans of its site, or where these are few with all scans of the study.
# What is usual is a median, so that a few wrong scans do not matter; where most masks of a study
# are wrong in the same way, only the fixed bounds of `ndflow.image.mask_doubts` can find them.

Doubts = dict[str, tuple[Doubt, ...]]  # by the name of the scan

_RIM = 0.08  # the least difference in the brightness of the rim that matters: 1 mm of mask
_VOLUMES = (0.6, 1.6)  # of the median; at one site, adults have from 0.79 to 1.23


def odd_scans(
    scans: Sequence[Subject], models: Mapping[str, ScanModel], reference: GaussianMixture
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
    if reference.channels > 1:  # only a single channel is compared with other scans
        ends = [marginal(reference, place) for place in range(reference.channels)]
        unlike: Doubts = {}
        for scan in scans:
            for own, end in zip(models[scan.name].marginals or (), ends, strict=True):
                if doubts := unlike_reference(own, end):
                    unlike[scan.name] = (*unlike.get(scan.name, ()), *doubts)
        return unlike
    by_site: dict[str | None, list[Subject]] = defaultdict(list)
    for scan in scans:
        by_site[scan.site].append(scan)
    enough = [some for some in by_site.values() if len(some) >= FEWEST]
    among = _among(scans, models) if len(enough) < len(by_site) else {}
    for some in enough:
        among |= _among(some, models)
    found = {
        scan.name: (*among[scan.name], *unlike_reference(models[scan.name].mixture, reference))
        for scan in scans
    }
    return {name: own for name, own in found.items() if own}


def _among(scans: Sequence[Subject], models: Mapping[str, ScanModel]) -> Doubts:
    """Return what is doubtful about scans that should be alike."""
    names = [scan.name for scan in scans]
    masks = _masks(names, models)
    odd = unlike_others([models[name].mixture for name in names])
    return {name: (*masks.get(name, ()), *own) for name, own in zip(names, odd, strict=True)}


def _masks(names: Sequence[str], models: Mapping[str, ScanModel]) -> Doubts:
    """Return doubts about masks that have given rise to none by themselves."""
    found: Doubts = {}
    known = {name: mask for name in names if (mask := models[name].mask)}
    volumes = {name: mask.volume for name, mask in known.items() if mask.volume}
    if len(volumes) >= FEWEST:
        usual = float(np.median(list(volumes.values())))
        low, high = (usual * factor for factor in _VOLUMES)
        for name, volume in volumes.items():
            if not low <= volume <= high:
                text = f"The voxels used are {volume:,.3g} ml, where {usual:,.3g} ml is usual"
                kind, hint = TOO_SMALL if volume < low else TOO_WIDE
                found[name] = (Doubt(kind, f"{text} among these scans.", hint),)
    rims = {name: mask.rim for name, mask in known.items() if mask.rim}
    if len(rims) >= FEWEST:
        usual = float(np.median(list(rims.values())))
        away = far_from(np.array(list(rims.values())), least=_RIM)
        for name, far in zip(rims, away.tolist(), strict=True):
            if far:
                text = (
                    f"The outermost 4 mm of the mask have {rims[name]:.0%} of the signal inside, "
                    f"where {usual:.0%} is usual among these scans."
                )
                kind, hint = TOO_SMALL if far > 0 else TOO_WIDE
                found[name] = (Doubt(kind, text, hint),)
    return {name: own for name, own in found.items() if not models[name].doubts}


# ── sites whose tissue maps differ ────────────────────────────────────────────────────────────────

OTHER_LABELS = "tissue maps differ by site"

# d of (1). Maps of one recipe, of 68 scans at three sites, need 1.7, or 1.9 of two sites, and 2.8
# of people under 25 at one site and over 67 at another.
_FAR = 3.0
# Covariance of CSF and WM among people of one site, in these scans: standard deviations of .031
# and .014, and a correlation of −.46. The standard deviation of GM is .027.
_PEOPLE = np.array([[9.5e-4, -2.1e-4], [-2.1e-4, 2.1e-4]])
_CSF_AND_WM = [TISSUES.index("CSF"), TISSUES.index("WM")]


def labeller_doubts(proportions: Mapping[str, FloatArray]) -> tuple[Doubt, ...]:
    """Return doubts about sites whose tissue proportions are unlike those of the others.

    Parameters
    ----------
    proportions : (n, 3) for each site, one row per scan, in the order of `TISSUES`.

    Examples
    --------
    >>> people = 0.02 * np.random.default_rng(0).standard_normal((20, 3))
    >>> people -= people.mean(axis=1, keepdims=True)
    >>> bonn, ulm = people + [0.25, 0.45, 0.3], people + [0.1, 0.48, 0.42]
    >>> [doubt] = labeller_doubts({"Bonn": bonn, "Ulm": ulm})
    >>> print(doubt.text)  # doctest: +NORMALIZE_WHITESPACE
    At Bonn, WM is 30 % of all tissue, but 42 % at Ulm; people of one site differ by only 1.4 %
    (standard deviation).
    """
    known = {site: part for site, part in sorted(proportions.items()) if len(part)}
    people = _people([*known.values()])
    means = {site: part.mean(axis=0) for site, part in known.items()}
    found, left = [], [*known]
    while len(left) > 1:
        excess = {site: _excess(site, left, known, people) for site in left}
        worst = max(excess, key=excess.__getitem__)
        if excess[worst] <= 1:
            break
        left.remove(worst)
        found.append(_labeller_doubt(worst, left[:], means, people))
    return tuple(found)


def _people(sites: list[FloatArray]) -> FloatArray:
    """Return the covariance Σ of CSF and WM among people of one site."""
    freedom = sum(len(part) - 1 for part in sites)
    if freedom < 1:
        return _PEOPLE
    centred = np.concatenate([(part - part.mean(axis=0))[:, _CSF_AND_WM] for part in sites])
    root = np.linalg.cholesky(_PEOPLE)
    whitened = np.linalg.solve(root, centred.T)
    variances, axes = np.linalg.eigh(whitened @ whitened.T / freedom)
    back = root @ axes
    result: FloatArray = (back * np.maximum(variances, 1.0)) @ back.T
    return result


def _excess(
    site: str, sites: Sequence[str], known: Mapping[str, FloatArray], people: FloatArray
) -> float:
    """Return how far a site is from the others, and how far it may be by (1), by their ratio."""
    others = [known[other] for other in sites if other != site]
    usual = np.mean([part.mean(axis=0) for part in others], axis=0)
    away = (known[site].mean(axis=0) - usual)[_CSF_AND_WM]
    squared = float(away @ np.linalg.solve(people, away))
    of_mean = sum(1 / len(part) for part in others) / len(others) ** 2
    return squared / (_FAR**2 * (1 + 1 / len(known[site]) + of_mean))


def _labeller_doubt(
    site: str,
    others: Sequence[str],
    means: Mapping[str, FloatArray],
    people: FloatArray,
) -> Doubt:
    own, usual = means[site], np.mean([means[other] for other in others], axis=0)
    sds = np.empty(len(TISSUES))
    sds[_CSF_AND_WM] = np.sqrt(np.diag(people))
    sds[TISSUES.index("GM")] = np.sqrt(people.sum())  # GM is 1 − CSF − WM
    tissue = int(np.argmax(np.abs(own - usual) / sds))
    there, spread = f"{100 * own[tissue]:.2g}", f"{100 * sds[tissue]:.2g}"
    text = (
        f"At {site}, {TISSUES[tissue]} is {there} % of all tissue, but {100 * usual[tissue]:.2g} % "
        f"at {listed(others)}; people of one site differ by only {spread} % (standard deviation)."
    )
    hint = (
        "were the maps made by different programs, or in different masks? Make them alike for all "
        "sites, with 'ndflow prepare'; --proportions adaptive leaves them out"
    )
    return Doubt(OTHER_LABELS, text, hint)


# ── how far apart sites are ───────────────────────────────────────────────────────────────────────
# How far apart the sites of a study are: unnormalised, aligned, and normalised.
#
# Models and intensity maps are enough, no image is read: the result of a scan has the quantiles
# ``f(Q(p))``, where Q are those of its histogram and f is its map. Distances are in standard
# deviations of a scan under the same condition.

NO_SITE = "(no site)"

ScanQuantiles = NDArray[np.float32]  # (3, 199), in the order of `SiteDistances`


class SiteDistances(NamedTuple):
    """How far apart sites are; where there is one site, how far its scans are from their average.

    Attributes
    ----------
    between_sites : whether there are several sites.
    raw, aligned, normalised : the distance of the unnormalised scans, of the same scans aligned in
        mean and standard deviation, and of the results.
    """

    between_sites: bool
    raw: float
    aligned: float
    normalised: float


def scan_quantiles(model: ScanModel, imap: IntensityMap) -> ScanQuantiles:
    """Return the quantiles of a scan: unnormalised, aligned, and normalised.

    Parameters
    ----------
    model : its density.
    imap : its map.
    """
    saved = model.quantiles
    raw = model.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved)
    return np.array([raw, align(model.mixture)(raw), imap(raw)], np.float32)


def site_distances(
    quantiles: Sequence[ScanQuantiles] | FloatArray, sites: Sequence[str | None]
) -> SiteDistances | None:
    """Return how far apart sites are under each condition.

    Parameters
    ----------
    quantiles : (scans, 3, 199), of each scan, see `scan_quantiles`.
    sites : the site of each scan.

    Returns
    -------
    SiteDistances or None
        None where there are fewer than two scans, and so nothing to compare.
    """
    if len(sites) < 2:
        return None
    names = [site or NO_SITE for site in sites]
    several = len(set(names)) > 1
    distance = distance_between_sites if several else distance_within_sites
    given = np.asarray(quantiles, np.float64)
    apart = [distance(one / one.std(axis=1).mean(), names) for one in given.swapaxes(0, 1)]
    return SiteDistances(several, *apart)
