"""What the scans of a study are brought to: the reference of all, directly or by centre.

*Individual*: the scan's own density is matched to the reference. *Centre*: the reference of the
scan's centre is matched to the reference of all, once; a scan is aligned to its centre's reference,
which has zero mean and unit spread like any other, and then goes through that one map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    """

    reference: Portrait
    matching: Matching
    centre: tuple[Portrait, Solution] | None = None

    def solve(self, scan: Portrait) -> Solution:
        """Return the map for a scan."""
        if self.centre is None:
            return solve(scan, self.reference, self.matching)
        _, way = self.centre
        own = align(scan.mixture)
        whole = Affine(way.affine.matrix @ own.matrix, way.affine(own.offset))
        return way._replace(imap=Chain((own, way.imap)), affine=whole)

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for stamps."""
        return {
            "reference": self.reference.to_dict(),
            "centre": None if self.centre is None else self.centre[0].to_dict(),
        }


def centre_goal(reference: Portrait, centre: Portrait, matching: Matching) -> Goal:
    """Return the goal for all scans of a centre, given its reference."""
    return Goal(reference, matching, (centre, solve(centre, reference, matching)))
