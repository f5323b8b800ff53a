"""The weight of each scan in the references of a study: equal, or such that sites are balanced.

A scan of which a covariate is not known has no part in references, but is normalised like the
others. Within a site, weights are 1 on average, so sites have the same part in the common reference
as without weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Scan
from ndflow.population.balancing import SiteBalance, balance
from ndflow.study.plan import Study
from ndflow.study.weighting.covariates import columns_of, known_in

__all__ = ["EQUAL", "ScanWeights", "check_balance", "scan_weights"]


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

    def for_scans(self, scans: Sequence[Scan]) -> list[float] | None:
        """Return the weights of some scans; None if all count the same."""
        return [self.of[scan.name] for scan in scans] if self.of else None

    def weighted(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return those of some scans that have a part in references."""
        return [scan for scan in scans if self.of.get(scan.name, 1.0) > 0]


EQUAL = ScanWeights({}, {}, {}, {})


def scan_weights(study: Study, scans: Sequence[Scan]) -> ScanWeights:
    """Return the weights of some scans of a study in its references."""
    names = study.averaging.balance
    if not names or not scans:
        return EQUAL
    columns = columns_of(scans, names)
    known = known_in(columns, len(scans))
    places = np.flatnonzero(known)
    weighted = [scans[place] for place in places]
    weights = {scan.name: 0.0 for scan in scans}
    if not weighted:
        return EQUAL
    found = balance(
        {name: values[places] for name, values in columns.items()},
        [scan.site or "" for scan in weighted],
    )
    sites = {
        site: replace(own, unknown=sum(scan.site == site for scan in scans) - own.scans)
        for site, own in found.sites.items()
    }
    for scan, share in zip(weighted, found.weights, strict=True):
        weights[scan.name] = float(share) * sites[scan.site or ""].scans
    for scan in scans:
        if (scan.site or "") not in sites:  # nothing is known of its site, so nothing is weighted
            weights[scan.name] = 1.0
    return ScanWeights(weights, sites, found.target, found.sds)


def check_balance(study: Study) -> None:
    """Raise an error, before any work, if the scans of a study cannot be weighted as asked."""
    names = study.averaging.balance
    if not names:
        return
    if study.given is not None:
        raise InvalidValueError(
            "--balance is for references made from these scans, but --reference gives one; leave "
            "out one of them"
        )
    for scan in study.scans:
        if scan.site is None:
            hint = "--balance compares sites: name them in the table or in participants.tsv"
            raise FileError(scan.path, f"its site is not known ({scan.origin})", hint)
    sites = sorted(study.site_counts)
    if len(sites) < 2:
        raise InvalidValueError(
            f"--balance makes sites alike, but all scans are from one, {sites[0]}; leave it out"
        )
    columns = columns_of(study.scans, names)
    for name, values in columns.items():
        known = known_in({name: values}, len(study.scans))
        there = {scan.site for scan, one in zip(study.scans, known, strict=True) if one}
        if lacking := [site for site in sites if site not in there]:
            raise InvalidValueError(
                f"--balance {name}: it is not known of any scan from {lacking[0]}; add it to the "
                f"table, or leave {name} out"
            )
        if len({*values[known].tolist()}) == 1:
            raise InvalidValueError(
                f"--balance {name}: it is {values[known][0]} for all scans; leave {name} out"
            )
    known = known_in(columns, len(study.scans))
    there = {scan.site for scan, one in zip(study.scans, known, strict=True) if one}
    if lacking := [site for site in sites if site not in there]:
        raise InvalidValueError(
            f"--balance: no scan from {lacking[0]} has all of {', '.join(names)}; add them to the "
            f"table, or choose fewer"
        )
