"""What shows when the scans of a study are compared: doubts, and how far tissues lie apart.

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

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.methods.baselines import landmark_levels, through_points
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.study.bids_names import natural
from ndflow.subject.records import Agreement, ScanModel
from ndflow.transport import IntensityMap, align
from ndflow.values import Doubt, FloatArray, listed, plural

_SLIP = 5  # scans of a site, to think that another with a single one is the same


class DoubtCount(NamedTuple):
    """A kind of doubt, the scans that it is about, and what to try."""

    kind: str
    scans: list[str]
    hint: str


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


# ── sites as they were listed ─────────────────────────────────────────────────────────────────────


def site_doubts(counts: Mapping[str, int], *, mapped: bool = False) -> tuple[Doubt, ...]:
    """Return doubts about the names of sites, and about a single site where only sites are mapped.

    Parameters
    ----------
    counts : how many scans each site has.
    mapped : whether the map of a scan is that of its site, to the reference of all of them.

    Examples
    --------
    >>> [doubt] = site_doubts({"NKS": 1, "NSK": 24, "HH1": 9, "HH2": 1})
    >>> doubt.text
    'The names NKS (1 scan) and NSK (24 scans) are almost the same.'
    """
    if mapped and len(counts) == 1:
        text = "--mode site brings sites to each other, but there is only one."
        return (Doubt("one site", text, "use --mode individual, or add scans of other sites"),)
    alike = [
        " and ".join(f"{name} ({plural(counts[name], 'scan')})" for name in pair)
        for pair in combinations(sorted(counts), 2)
        if _mistakable(pair, counts)
    ]
    if not alike:
        return ()
    text = f"The names {listed(alike)} are almost the same."
    return (Doubt("site names", text, "if they are one site, correct the table"),)


def _mistakable(names: tuple[str, str], counts: Mapping[str, int]) -> bool:
    """Tell whether names may be one, but for blanks, zeros or a slip in those of a single scan."""
    bare = (re.sub(r"[\W_]", "", name) for name in names)
    plain = {str(natural(name.casefold())[0]) for name in bare}  # 01 is 1
    numbers = {re.sub(r"\D", "", name) for name in names}
    least, most = sorted(counts[name] for name in names)
    one, other = ({name, *(name[:n] + name[n + 1 :] for n in range(len(name)))} for name in names)
    slip = least == 1 and most >= _SLIP and min(map(len, names)) > 2 and len(numbers) == 1
    return len(plain) == 1 or (slip and not one.isdisjoint(other))


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
    site: str, others: Sequence[str], means: Mapping[str, FloatArray], people: FloatArray
) -> Doubt:
    own, usual = means[site], np.mean([means[other] for other in others], axis=0)
    sds = np.sqrt([people[0, 0], people.sum(), people[1, 1]])  # GM is 1 − CSF − WM
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


# ── how far apart tissues are ─────────────────────────────────────────────────────────────────────
# How far the median intensities of tissues lie apart between scans.
#
# An increasing map takes the median of a tissue to that of the result, so models and maps are
# enough, and no image is read. For comparison the same scans are z-scored, and brought to their
# mean percentiles by Nyúl's method. There is no such measure without tissue maps: positions of GM
# and WM in the density of a scan are too uncertain (experiments/agreement_study.py).

NO_SITE = "(no site)"


class Medians(NamedTuple):
    """The medians of the tissues of a scan, (3,).

    Attributes
    ----------
    normalised, aligned : in the result, and after z-scoring.
    percentiles : the landmarks of Nyúl's method, after z-scoring.
    sd : the standard deviation of the voxels of the result.
    """

    normalised: FloatArray
    aligned: FloatArray
    percentiles: FloatArray
    sd: float


def scan_medians(model: ScanModel, imap: IntensityMap) -> Medians | None:
    """Return the medians of the tissues of a scan; None where they are not known.

    Parameters
    ----------
    model : its density.
    imap : its map.
    """
    if model.tissues is None:
        return None
    raw = np.array([float(one.quantile(0.5)) for one in model.tissues.densities])
    levels, saved = landmark_levels(Options.landmarks), model.quantiles
    voxels = model.mixture.quantile(QUANTILE_LEVELS) if saved is None else saved
    marks, aligned = np.interp(levels, QUANTILE_LEVELS, voxels), align(model.mixture)
    return Medians(imap(raw), aligned(raw), aligned(marks), float(imap(voxels).std()))


def agreement(
    scans: Mapping[str, Medians], sites: Mapping[str, str | None], *, own_maps: bool
) -> Agreement | None:
    """Return how far tissues lie apart; None of fewer than two scans, or of one tissue.

    Parameters
    ----------
    scans : those with tissue maps, by name.
    sites : of the scans.
    own_maps : see `Agreement`.
    """
    if len(scans) < 2:
        return None
    normalised, aligned, marks, sds = map(np.array, zip(*scans.values(), strict=True))
    usual = marks.mean(axis=0)
    pairs = zip(marks, aligned, strict=True)
    nyul = np.array([through_points(own, usual)(medians) for own, medians in pairs])
    spread = []
    for medians in (normalised, aligned, nyul):
        _, gm, wm = medians.mean(axis=0)
        if gm == wm:  # maps that are the same
            return None
        shares = medians.std(axis=0, ddof=1) / abs(wm - gm)
        spread.append(dict(zip(TISSUES, shares.tolist(), strict=True)))
    failed = failure(dict(zip(scans, normalised / sds.mean(), strict=True)), sites)
    return Agreement(len(scans), own_maps, *spread, failure=failed)


# Standard deviation over scans of the median of a tissue, in those of the voxels of a scan: of the
# z-scored scans of three sites .17 at most, but .6 where GM and WM of one of them are exchanged,
# and 1.1 where its contrast is inverted. Two sites of one size that vary so lie 2 × .4 apart.
_BROKEN = 0.4
TO_COMPARE = "compare contrast, brain masks and tissue maps with those of the others"


def failure(medians: Mapping[str, FloatArray], sites: Mapping[str, str | None]) -> Doubt | None:
    """Return why a study has failed, if tissues lie further apart than in any that works.

    Parameters
    ----------
    medians : (3,) for each scan, in the order of `TISSUES`, in standard deviations of a scan.
    sites : of the scans.
    """
    values = np.array([*medians.values()])
    ways = [("At", "sites", [sites[name] or NO_SITE for name in medians])]
    if values.std(axis=0, ddof=1).max() > _BROKEN:
        ways.append(("In", "scans", [*medians]))
    for place, all_of, at in ways:
        names = sorted({*at})
        own = np.array([np.median(values[np.array(at) == one], axis=0) for one in names])
        several, rows = len(names) > 1, range(len(names))
        usual = np.array([np.median(np.delete(own, i, 0) if several else own, 0) for i in rows])
        worst, tissue = divmod(int(np.abs(own - usual).argmax()), len(TISSUES))
        far = float((own - usual)[worst, tissue])
        if abs(far) > 2 * _BROKEN:
            others = names[1 - worst] if len(names) == 2 else f"other {all_of}"
            orders = [" < ".join(np.take(TISSUES, part[worst].argsort())) for part in (own, usual)]
            order = " (there {}, not {})".format(*orders) if len({*orders}) > 1 else ""
            what = f"{place} {names[worst]}, the median of {TISSUES[tissue]}"
            side = f"{abs(far):.2g} sd {'above' if far > 0 else 'below'}"
            return Doubt("failed", f"{what} is {side} that of {others}{order}.", TO_COMPARE)
    return None
