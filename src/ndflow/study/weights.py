"""Covariates of scans, such as age: weights that balance them, and sites that differ in them.

A table holds text. A covariate is a number if most of its values are, and then all must be, or be
missing; otherwise its values are categories, of which there may be a few.

A scan of which a covariate is not known has no part in references, but is normalised like the
others. Within a site, weights are 1 on average, so sites have the same part in the common reference
as without weights.

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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Subject
from ndflow.population.balancing import SiteBalance, balance
from ndflow.population.travelling import connected
from ndflow.study.plan import Study
from ndflow.values import Doubt, FloatArray, first_of, listed, number_of, plural

Columns = dict[str, NDArray[Any]]  # by covariate: numbers, or names; NaN or "" if not known

_MOST_CATEGORIES = 10


def columns_of(scans: Sequence[Subject], names: Sequence[str]) -> Columns:
    """Return some covariates of all scans.

    Raises
    ------
    InvalidValueError
        Where no scan has one of them, or where its values are neither numbers nor few categories.
    """
    return {name: _column(scans, name) for name in names}


def known_in(columns: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """Return for each of `count` scans whether all covariates are known."""
    known = np.ones(count, np.bool_)
    for values in columns.values():
        known &= values != "" if values.dtype.kind == "U" else ~np.isnan(values)
    return known


def _column(scans: Sequence[Subject], name: str) -> NDArray[Any]:
    texts = [scan.covariates.get(name) for scan in scans]
    numbers = np.array([number_of(text) for text in texts])
    given = [text is not None for text in texts]
    if not any(given):
        known = ", ".join(sorted({other for scan in scans for other in scan.covariates}))
        words = f"no scan has a covariate {name!r}; the covariates are: {known or 'none'}"
        raise InvalidValueError(words)
    wrong = [scan for scan, bad in zip(scans, given & np.isnan(numbers), strict=True) if bad]
    if 2 * len(wrong) < sum(given):
        if wrong:
            cells = [f"{one.covariates[name]!r} ({one.origin or one.name})" for one in wrong]
            words = f"some values of {name} are no numbers: {first_of(cells, 3)}; correct them, or"
            raise InvalidValueError(f"{words} write n/a where it is not known")
        return numbers
    spelled = {text.casefold(): text for text in sorted(filter(None, texts), reverse=True)}
    if len(spelled) > _MOST_CATEGORIES:
        words = f"{name} has {len(spelled)} different values, which are no numbers; choose numbers"
        raise InvalidValueError(f"{words}, or at most {_MOST_CATEGORIES} categories")
    return np.array([spelled[text.casefold()] if text else "" for text in texts])


# ── weights ───────────────────────────────────────────────────────────────────────────────────────


class ScanWeights(NamedTuple):
    """The weights of scans, and what they achieve.

    Attributes
    ----------
    of : the weight of each scan, by its name; empty if all count the same.
    sites : what those of each site achieve; a site is missing if nothing is known of its scans.
    target : the mean of each number and the share of each category at balanced sites.
    sds : the standard deviation of each over all scans.
    """

    of: dict[str, float]
    sites: dict[str, SiteBalance]
    target: dict[str, float]
    sds: dict[str, float]

    def for_scans(self, scans: Sequence[Subject]) -> list[float] | None:
        """Return the weights of some scans; None if all count the same."""
        return [self.of[scan.name] for scan in scans] if self.of else None

    def weighted(self, scans: Sequence[Subject]) -> list[Subject]:
        """Return those of some scans that have a part in references."""
        return [scan for scan in scans if self.of.get(scan.name, 1.0) > 0]


EQUAL = ScanWeights({}, {}, {}, {})


def scan_weights(study: Study, scans: Sequence[Subject]) -> ScanWeights:
    """Return the weights of some scans of a study in its references."""
    by_people = study.options.balance == PEOPLE
    columns = columns_of(scans, study.options.balance) if scans and not by_people else {}
    known = known_in(columns, len(scans))
    weighted = [scan for scan, one in zip(scans, known, strict=True) if one]
    if not columns or not weighted:
        return EQUAL
    sites = [scan.site or "" for scan in weighted]
    found = balance({name: values[known] for name, values in columns.items()}, sites)
    counts = Counter(scan.site or "" for scan in scans)
    # Where nothing is known of a site, nothing is weighted.
    weights = {scan.name: float((scan.site or "") not in found.sites) for scan in scans}
    for scan, site, share in zip(weighted, sites, found.weights, strict=True):
        weights[scan.name] = float(share) * found.sites[site].scans
    achieved = {
        site: replace(own, unknown=counts[site] - own.scans) for site, own in found.sites.items()
    }
    return ScanWeights(weights, achieved, found.target, found.sds)


def check_balance(study: Study) -> None:
    """Raise an error, before any work, if the scans of a study cannot be weighted as asked."""
    names = study.options.balance
    if not names:
        return
    if study.given is not None:
        words = "--balance is for references made from these scans, but --reference gives one"
        raise InvalidValueError(f"{words}; leave out one of them")
    sites = sorted(study.site_counts)
    if len(sites) < 2:
        words = "--balance makes sites alike, but all scans are from one"
        raise InvalidValueError(f"{words}, {sites[0]}; leave it out")
    if "subject" in names:
        if names != PEOPLE:
            raise InvalidValueError(
                "--balance subject takes no covariates beside it; leave them out"
            )
        if not study.mode.by_site:
            raise InvalidValueError(
                "--balance subject is about maps of sites; use --mode two-level, --method ndflow"
            )
        check_connected(study, travellers(study, study.scans))
        return
    known = known_in(columns_of(study.scans, names), len(study.scans))
    there = {scan.site for scan, one in zip(study.scans, known, strict=True) if one}
    for site in (site for site in sites if site not in there):
        words = f"--balance: no scan from {site} has all of {', '.join(names)}"
        raise InvalidValueError(f"{words}; add them to the table, or choose fewer")


# ── people who travelled ──────────────────────────────────────────────────────────────────────────

PEOPLE = ("subject",)  # what to balance, in place of covariates
_FEW_PEOPLE = 3

Travellers = Mapping[str, Mapping[str, Sequence[Subject]]]


def travellers(study: Study, scans: Sequence[Subject]) -> Travellers:
    """Return the scans of people who were scanned at several sites, if these are asked for."""
    found: dict[str, dict[str, list[Subject]]] = {}
    for scan in scans if study.options.balance == PEOPLE else ():
        if scan.person is not None and scan.site is not None:
            found.setdefault(scan.person, {}).setdefault(scan.site, []).append(scan)
    return {person: sites for person, sites in sorted(found.items()) if len(sites) > 1}


def check_connected(study: Study, people: Travellers) -> None:
    """Raise an error if no people connect all sites of a study."""
    groups = connected({person: {*sites} for person, sites in people.items()})
    linked = {site for group in groups for site in group}
    groups += [{site} for site in sorted(study.site_counts) if site not in linked]
    if len(groups) > 1:
        apart = " | ".join(", ".join(sorted(group)) for group in groups)
        words = "--balance subject: nobody was scanned at sites of both of these groups: "
        words = words if len(groups) == 2 else words.replace("both", "several")
        hint = "name people alike at all sites (column subject), or balance covariates"
        raise InvalidValueError(f"{words}{apart}; {hint}")


def traveller_doubts(people: Travellers) -> tuple[Doubt, ...]:
    """Return a doubt if the maps of sites depend on very few people."""
    counts = Counter(site for sites in people.values() for site in sites)
    few = [f"{count} at {site}" for site, count in sorted(counts.items()) if count < _FEW_PEOPLE]
    if not few:
        return ()
    hint = "what is peculiar to their scans is in the maps of sites"
    return (Doubt("few travelling people", f"Few people travelled: {listed(few)}.", hint),)


# ── sites whose people differ ─────────────────────────────────────────────────────────────────────

OTHER_AGES = "ages differ by site"

_AGE = re.compile(r"age(atscan|scan|years|yrs|y|months|days)?|scanage|participantage")
_MUCH = 0.25  # of the variance of age
_CHANCE = 1e-3
_LITTLE = 0.1  # of the mean age
_FEWEST = 3  # scans of a site whose age is known
_EFFECTIVE, _KEPT = 10, 0.75  # scans of a site, and the share of them
_BALANCED = 0.1  # standard deviations of an imbalance that are usually called negligible


def ages_by_site(scans: Sequence[Subject]) -> tuple[str, dict[str, FloatArray]]:
    """Return the covariate that is an age, and the ages known of each site; empty without one."""
    columns = sorted({name for scan in scans for name in scan.covariates})
    names = (name for name in columns if _AGE.fullmatch(re.sub(r"[\W_]", "", name.lower())))
    name, by_site = next(names, "age"), dict[str, list[float]]()
    for scan in scans:
        age = number_of(scan.covariates.get(name))
        if scan.site is not None and not np.isnan(age):
            by_site.setdefault(scan.site, []).append(age)
    return name, {site: np.array(ages) for site, ages in sorted(by_site.items())}


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
    weights: ScanWeights, scans: Sequence[Subject], covariates: Sequence[str]
) -> tuple[Doubt, ...]:
    """Return doubts about sites that could not be balanced, and about scans without a covariate.

    Parameters
    ----------
    weights : of the scans.
    scans : those that references were to be made from.
    covariates : that should be alike at all sites.
    """
    found, few = [], []
    for site, own in weights.sites.items():
        left = {
            name: abs(own.after[name] - weights.target[name]) / (weights.sds[name] or 1.0)
            for name in own.after
        }
        name = max(left, key=left.__getitem__)
        if left[name] <= _BALANCED:
            if own.effective < min(_EFFECTIVE, _KEPT * own.scans):
                few.append(f"{own.effective:.2g} of {own.scans} at {site}")
            continue
        values = (own.before[name], own.after[name], weights.target[name])
        before, after, wanted = (f"{value:.3g}" for value in values)
        what = f"the {'mean' if name in covariates else 'share of'} {name}"
        why = f"with {wanted}, as at the other sites, too few effective scans would be left"
        if own.outside:
            why = f"no weights give it {wanted}, as at the other sites"
        text = f"At {site}, weights change {what} from {before} to {after} only: {why}."
        hint = "the rest of the difference is in the map of this site: look at effects within "
        found.append(Doubt("sites not balanced", text, f"{hint}sites, not between them"))
    if few:
        text = f"Weights leave few effective scans: {listed(few)}."
        hint = "maps of sites depend on who these people are; balance fewer covariates"
        found.append(Doubt("few effective scans", text, hint))
    weighted = {scan.name for scan in weights.weighted(scans)}
    if without := [scan.name for scan in scans if scan.name not in weighted]:
        what, count = " or ".join(covariates), plural(len(without), "scan")
        text = f"{what[:1].upper()}{what[1:]} of {count} is not known: {first_of(without)}."
        hint = "they are normalised, but have no part in the references; complete the table if you "
        found.append(Doubt("covariates not known", text, f"{hint}can"))
    return tuple(found)
