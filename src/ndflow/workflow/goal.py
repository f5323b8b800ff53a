"""What the scans of a study are brought to: the reference of all, directly or by centre.

*Individual*: the scan's own density is matched to the reference. *Centre*: the reference of the
scan's centre is matched to the reference of all, once; a scan is aligned to its centre's reference,
which has zero mean and unit spread like any other, and then goes through that one map. *Two-level*:
what comes out of the centre's map is matched to the reference once more, scan by scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ndflow.density import GaussianMixture
from ndflow.population import pushed
from ndflow.transport import Affine, Chain, align
from ndflow.workflow.methods import Solution, solve
from ndflow.workflow.portrait import Portrait
from ndflow.workflow.settings import Matching

__all__ = ["Goal", "centre_goal"]


@dataclass(frozen=True)
class Goal:
    """What a scan is brought to.

    Attributes
    ----------
    reference : that of all, in the units of the result.
    matching : how.
    centre : the reference of the scan's centre, and its way to the reference of all; None where
        each scan goes there by itself.
    further : whether a scan is matched by itself after the way of its centre.
    """

    reference: Portrait
    matching: Matching
    centre: tuple[Portrait, Solution] | None = None
    further: bool = False

    def solve(self, scan: Portrait) -> Solution:
        """Return the map for a scan."""
        if self.centre is None:
            return solve(scan, self.reference, self.matching)
        _, way = self.centre
        own = align(scan.mixture)
        whole = Affine(way.affine.matrix @ own.matrix, way.affine(own.offset))
        to_centre = Chain((own, way.imap))
        if not self.further:
            return way._replace(imap=to_centre, affine=whole)
        there = Portrait(self._after(scan, to_centre), tissues=scan.tissues)
        last = solve(there, self.reference, self.matching)
        return last._replace(imap=Chain((to_centre, last.imap)), affine=whole)

    def _after(self, scan: Portrait, to_centre: Chain) -> GaussianMixture:
        """Return the density of a scan after the map of its centre."""
        units = align(self.reference.mixture)  # a lattice of bins needs a space of unit spread
        moved = pushed(scan.mixture, Chain((to_centre, units)))
        back = units.inverse()
        return moved.transformed(back.matrix, back.offset)

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for stamps."""
        return {
            "reference": self.reference.to_dict(),
            "centre": None if self.centre is None else self.centre[0].to_dict(),
            **({"further": True} if self.further else {}),
        }


def centre_goal(
    reference: Portrait, centre: Portrait, matching: Matching, *, further: bool = False
) -> Goal:
    """Return the goal for all scans of a centre, given its reference.

    Its own way leads to the average: what differs between people is for its scans to say.
    """
    way = solve(centre, reference, replace(matching, target="average"))
    return Goal(reference, matching, (centre, way), further)
