"""What scanners do to the scans of people who travelled between them.

With the quantiles q_{ps} of person p at site s, the map m_s of a site takes what its travellers
look like there, on average, to what they are in the space that all sites share:

    m_s : mean_p q_{ps} ↦ mean_p x_p,    x_p = mean_s m_s(q_{ps}).                            (1)

These equations are solved in turn. Since the people on both sides of the first are the same, no
difference between people is in a map. Sites need not have people in common, as long as others
connect them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ndflow.values import FloatArray

_TOLERANCE, _ROUNDS = 1e-6, 20_000

People = Mapping[str, Mapping[str, FloatArray]]  # what each looks like at each site


class Seen(NamedTuple):
    """The people who travelled to a site.

    Attributes
    ----------
    there, shared : their mean quantiles at the site, and in the space that all sites share.
    """

    there: FloatArray
    shared: FloatArray


def travellers_by_site(people: People) -> dict[str, Seen]:
    """Return what is known about the map of each site, from people who were at several.

    Parameters
    ----------
    people : the quantiles of the scans of each at each site, z-scored.

    Examples
    --------
    >>> z = np.linspace(-2.0, 2.0, 199)
    >>> seen = {"ann": {"X": z, "Y": 2 * z + 1}, "bob": {"X": z + 1, "Y": 2 * z + 3}}
    >>> found = travellers_by_site(seen)
    >>> np.allclose(found["Y"].there, 2 * found["X"].there + 1)
    True
    >>> np.allclose(found["Y"].shared, found["X"].shared, atol=1e-5)
    True
    """
    sites = sorted({site for seen in people.values() for site in seen})
    there = {
        site: np.mean([seen[site] for seen in people.values() if site in seen], axis=0)
        for site in sites
    }
    shared = dict(there)
    for _ in range(_ROUNDS):
        found = {
            person: np.mean(
                [q + np.interp(q, there[site], shared[site] - there[site]) for site, q in own], 0
            )
            for person, own in ((person, seen.items()) for person, seen in people.items())
        }
        before = shared
        shared = {
            site: np.mean([found[person] for person, seen in people.items() if site in seen], 0)
            for site in sites
        }
        if all(np.abs(shared[site] - before[site]).max() < _TOLERANCE for site in sites):
            break
    return {site: Seen(there[site], shared[site]) for site in sites}


def connected(people: Mapping[str, set[str]]) -> list[set[str]]:
    """Return groups of sites that people connect, from the sites at which each was scanned.

    Examples
    --------
    >>> groups = connected({"ann": {"X", "Y"}, "bob": {"Y", "Z"}, "cy": {"V", "W"}})
    >>> [sorted(group) for group in groups]
    [['X', 'Y', 'Z'], ['V', 'W']]
    """
    groups: list[set[str]] = []
    for sites in people.values():
        joined = [group for group in groups if group & sites]
        groups = [group for group in groups if not group & sites]
        groups.insert(0, sites.union(*joined))
    return sorted(groups, key=lambda group: (-len(group), min(group)))
