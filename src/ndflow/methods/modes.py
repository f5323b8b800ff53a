"""What the scans of a study are brought to: the reference of all, directly or by site.

*Individual*: the scan's own density is matched to the reference. *Site*: the reference of the
scan's site is matched to the reference of all, once; a scan is aligned to its site's reference,
which has zero mean and unit spread like any other, and then goes through that one map. *Two-level*:
what comes out of the site's map is matched to the reference once more, scan by scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ndflow.density import GaussianMixture
from ndflow.methods.model import Portrait
from ndflow.methods.solve import Solution, solve
from ndflow.population import pushforward
from ndflow.settings import Matching
from ndflow.transport import Affine, Chain, align

__all__ = ["Goal", "site_goal"]


@dataclass(frozen=True)
class Goal:
    """What a scan is brought to.

    Attributes
    ----------
    reference : that of all, in the units of the result.
    matching : how.
    site : the reference of the scan's site, and its way to the reference of all; None where
        each scan goes there by itself.
    further : whether a scan is matched by itself after the way of its site.
    """

    reference: Portrait
    matching: Matching
    site: tuple[Portrait, Solution] | None = None
    further: bool = False

    def solve(self, scan: Portrait) -> Solution:
        """Return the map for a scan."""
        if self.site is None:
            return solve(scan, self.reference, self.matching)
        _, way = self.site
        own = align(scan.mixture)
        whole = Affine(way.affine.matrix @ own.matrix, way.affine(own.offset))
        to_site = Chain((own, way.imap))
        if not self.further:
            return way._replace(imap=to_site, affine=whole)
        there = Portrait(self._after(scan, to_site), tissues=scan.tissues)
        last = solve(there, self.reference, self.matching)
        return last._replace(imap=Chain((to_site, last.imap)), affine=whole)

    def _after(self, scan: Portrait, to_site: Chain) -> GaussianMixture:
        """Return the density of a scan after the map of its site."""
        units = align(self.reference.mixture)  # a lattice of bins needs a space of unit spread
        moved = pushforward(scan.mixture, Chain((to_site, units)))
        back = units.inverse()
        return moved.transformed(back.matrix, back.offset)

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for stamps."""
        return {
            "reference": self.reference.to_dict(),
            "site": None if self.site is None else self.site[0].to_dict(),
            **({"further": True} if self.further else {}),
        }


def site_goal(
    reference: Portrait, site: Portrait, matching: Matching, *, further: bool = False
) -> Goal:
    """Return the goal for all scans of a site, given its reference.

    Its own way leads to the average: what differs between people is for its scans to say.
    """
    way = solve(site, reference, replace(matching, target="average"))
    return Goal(reference, matching, (site, way), further)
