"""Whether the tissue maps of all sites were made in the same way, judged by tissue proportions.

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

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ndflow.doubt import Doubt
from ndflow.population import TISSUES
from ndflow.values import FloatArray

__all__ = ["OTHER_LABELS", "labeller_doubts"]

OTHER_LABELS = "tissue maps differ by site"

# d of (1). Maps of one recipe, of 68 scans at three sites, need 1.7, or 1.9 of two sites, and 2.8
# of people under 25 at one site and over 67 at another.
_FAR = 3.0
# Covariance of CSF and WM among people of one site, in these scans: standard deviations of .031
# and .014, and a correlation of −.46. The standard deviation of GM is .027.
_PEOPLE = np.array([[9.5e-4, -2.1e-4], [-2.1e-4, 2.1e-4]])
_CSF_AND_WM = [TISSUES.index("CSF"), TISSUES.index("WM")]


class _Excess(NamedTuple):
    """How far a site is from the others, and how far it may be, squared, by their ratio."""

    ratio: float
    site: str
    others: list[str]


def labeller_doubts(
    proportions: Mapping[str, FloatArray], *, maps_needed: bool = True
) -> tuple[Doubt, ...]:
    """Return doubts about sites whose tissue proportions are unlike those of the others.

    Parameters
    ----------
    proportions : (n, 3) for each site, one row per scan, in the order of `TISSUES`.
    maps_needed : whether the target cannot do without tissue maps, for what to try.

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
    people = _people([part for part in proportions.values() if len(part)])
    means = {site: part.mean(axis=0) for site, part in proportions.items() if len(part)}
    left = dict(sorted(means.items()))
    found = []
    while len(left) > 1:
        worst = max(
            (_excess(site, left, proportions, people) for site in left), key=lambda one: one.ratio
        )
        if worst.ratio <= 1:
            break
        found.append(_doubt(worst, means, people, maps_needed))
        del left[worst.site]
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
    site: str,
    means: Mapping[str, FloatArray],
    proportions: Mapping[str, FloatArray],
    people: FloatArray,
) -> _Excess:
    """Return both sides of (1), by their ratio."""
    others = [other for other in means if other != site]
    away = (means[site] - np.mean([means[other] for other in others], axis=0))[_CSF_AND_WM]
    squared = float(away @ np.linalg.solve(people, away))
    of_mean = sum(1 / len(proportions[other]) for other in others) / len(others) ** 2
    return _Excess(squared / (_FAR**2 * (1 + 1 / len(proportions[site]) + of_mean)), site, others)


def _doubt(
    excess: _Excess, means: Mapping[str, FloatArray], people: FloatArray, maps_needed: bool
) -> Doubt:
    site, others = excess.site, excess.others
    own, usual = means[site], np.mean([means[other] for other in others], axis=0)
    sds = np.empty(len(TISSUES))
    sds[_CSF_AND_WM] = np.sqrt(np.diag(people))
    sds[TISSUES.index("GM")] = np.sqrt(people.sum())  # GM is 1 − CSF − WM
    tissue = int(np.argmax(np.abs(own - usual) / sds))
    text = (
        f"At {site}, {TISSUES[tissue]} is {_percent(own[tissue])} of all tissue, but "
        f"{_percent(usual[tissue])} at {_listed(others)}; people of one site differ by only "
        f"{_percent(sds[tissue])} (standard deviation)."
    )
    way = (
        "Make them in the same way for all sites, with 'ndflow prepare', or use --target adaptive"
        if maps_needed
        else "They were left out; make them in the same way for all sites, with 'ndflow prepare'"
    )
    hint = f"were the maps made by different programs, or in different masks? {way}"
    return Doubt(OTHER_LABELS, text, hint)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def _listed(sites: list[str]) -> str:
    if len(sites) > 3:
        return f"{len(sites)} other sites"
    *first, last = sites
    return f"{', '.join(first)} and {last}" if first else last
