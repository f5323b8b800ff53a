"""Whether sites differ in age or another covariate, so that their averages do, and their maps too.

Without weights, the map of a site takes the average of its scans to that of all, and what is due to
age goes with it. With σ² the variance of age within sites, pooled, and τ² that of the true means of
sites, estimated from the mean squares between and within sites as in the analysis of variance,

    site explains  τ² / (τ² + σ²)  of the variance of age.                                    (1)

This is said where it is more than `_MUCH`, beyond chance by an F-test, and where the means differ
by more than a little compared with the ages themselves: students of 21 and of 24 have brains of the
same age.

With weights (`ndflow.population.balancing`), it is said which sites could not be balanced, if the
imbalance that is left is more than a tenth of a standard deviation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import special

from ndflow.doubt import Doubt
from ndflow.image.subject import Scan
from ndflow.study.weighting.covariates import number_of
from ndflow.study.weighting.scan_weights import ScanWeights
from ndflow.values import FloatArray, plural

__all__ = [
    "NOT_BALANCED",
    "NOT_KNOWN",
    "OTHER_AGES",
    "age_doubts",
    "ages_by_site",
    "balance_doubts",
]

OTHER_AGES = "ages differ by site"
NOT_BALANCED = "sites not balanced"
NOT_KNOWN = "covariates not known"

_AGE = re.compile(r"age(atscan|scan|years|yrs|y|months|days)?|scanage|participantage")
_MUCH = 0.25  # of the variance of age
_CHANCE = 1e-3
_LITTLE = 0.1  # of the mean age
_FEWEST = 3  # scans of a site whose age is known
_BALANCED = 0.1  # standard deviations of an imbalance that are usually called negligible
_NAMED = 3  # scans in a sentence


def ages_by_site(scans: Sequence[Scan]) -> tuple[str, dict[str, FloatArray]]:
    """Return the covariate that is an age, and the ages known of each site; empty without one."""
    columns = sorted({name for scan in scans for name in scan.covariates})
    names = [name for name in columns if _AGE.fullmatch(re.sub(r"[\W_]", "", name.lower()))]
    if not names:
        return "age", {}
    by_site: dict[str, list[float]] = {}
    for scan in scans:
        age = number_of(scan.covariates.get(names[0]))
        if scan.site is not None and not np.isnan(age):
            by_site.setdefault(scan.site, []).append(age)
    return names[0], {site: np.array(ages) for site, ages in sorted(by_site.items())}


def age_doubts(ages: Mapping[str, FloatArray], name: str = "age") -> tuple[Doubt, ...]:
    """Return a doubt if sites differ in age so much that their maps remove its effect.

    Parameters
    ----------
    ages : of the scans of each site.
    name : of the covariate.

    Examples
    --------
    >>> young, old = np.linspace(20, 50, 12), np.linspace(50, 80, 12)
    >>> [doubt] = age_doubts({"Bonn": young, "Ulm": old})
    >>> print(doubt.text)  # doctest: +NORMALIZE_WHITESPACE
    The mean age is 35 at Bonn and 65 at Ulm: site explains 82 % of the variance of age, and the
    maps of sites may remove the effect of age along with that of the scanner.
    """
    known = {site: values for site, values in ages.items() if len(values) >= _FEWEST}
    if len(known) < 2:
        return ()
    share, p = _explained([*known.values()])
    means = {site: float(values.mean()) for site, values in known.items()}
    young, old = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    apart = means[old] - means[young]
    overall = float(np.mean([*means.values()]))
    if share < _MUCH or p > _CHANCE or apart < _LITTLE * abs(overall):
        return ()
    text = (
        f"The mean {name} is {means[young]:.3g} at {young} and {means[old]:.3g} at {old}: site "
        f"explains {100 * share:.0f} % of the variance of {name}, and the maps of sites may remove "
        f"the effect of {name} along with that of the scanner."
    )
    return (Doubt(OTHER_AGES, text, f"weight the scans with --balance {name}"),)


def _explained(sites: Sequence[FloatArray]) -> tuple[float, float]:
    """Return (1), and the probability of a ratio of mean squares like this if it were 0."""
    counts = np.array([len(values) for values in sites])
    means = np.array([values.mean() for values in sites])
    total, groups = counts.sum(), len(sites)
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in sites)
    between = float((counts * (means - (counts * means).sum() / total) ** 2).sum())
    free = total - groups
    if not between:
        return 0.0, 1.0
    if not within:
        return 1.0, 0.0
    ratio = (between / (groups - 1)) / (within / free)
    usual = (total - (counts**2).sum() / total) / (groups - 1)  # scans per site
    tau = max(ratio - 1, 0.0) / usual  # in units of σ²
    return tau / (tau + 1), float(special.fdtrc(groups - 1, free, ratio))


def balance_doubts(
    weights: ScanWeights, scans: Sequence[Scan], covariates: Sequence[str]
) -> tuple[Doubt, ...]:
    """Return doubts about sites that could not be balanced, and about scans without a covariate.

    Parameters
    ----------
    weights : of the scans.
    scans : those that references were to be made from.
    covariates : that should be alike at all sites.
    """
    found = []
    for site, own in weights.sites.items():
        left = {
            name: abs(own.after[name] - weights.target[name]) / (weights.sds[name] or 1.0)
            for name in own.after
        }
        name = max(left, key=left.__getitem__)
        if left[name] > _BALANCED:
            what, show = _in_words(name, number=name in covariates)
            before, after = show(own.before[name]), show(own.after[name])
            goal = f"{show(weights.target[name])}, as at the other sites"
            why = (
                f"no weights give it {goal}"
                if own.outside
                else f"with {goal}, too few effective scans would be left"
            )
            found.append(
                Doubt(
                    NOT_BALANCED,
                    f"At {site}, weights change {what} from {before} to {after} only: {why}.",
                    "the rest of the difference is in the map of this site: look at effects within "
                    "sites, not between them",
                )
            )
    weighted = {scan.name for scan in weights.weighted(scans)}
    without = [scan.name for scan in scans if scan.name not in weighted]
    if without:
        more = len(without) - _NAMED
        listed = ", ".join(without[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        what = " or ".join(covariates)
        found.append(
            Doubt(
                NOT_KNOWN,
                f"{what[:1].upper()}{what[1:]} of {plural(len(without), 'scan')} is not known: "
                f"{listed}.",
                "they are normalised, but have no part in the references; complete the table if "
                "you can",
            )
        )
    return tuple(found)


def _in_words(name: str, *, number: bool) -> tuple[str, Callable[[float], str]]:
    """Return what to call the mean of a number or the share of a category, and how to show it."""
    if number:
        return f"the mean {name}", lambda value: f"{value:.3g}"
    return f"the share of {name}", lambda value: f"{100 * value:.0f} %"
