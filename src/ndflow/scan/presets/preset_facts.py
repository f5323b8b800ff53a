"""What the preset *auto* looks at: how many scans and sites there are, and which tissues are known.

Each fact also gives the words for it, which complete the sentence "because there are …".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ndflow.population import TISSUES, Reference
from ndflow.preparation.contrasts import is_other_contrast
from ndflow.values import plural

__all__ = ["StudyFacts", "TargetFacts", "can_split"]

Known = Literal["maps", "components"]


class TargetFacts(NamedTuple):
    """What is known about a target that was given.

    Attributes
    ----------
    scans : how many scans it is the average of; 1 for a target that is itself a scan.
    tissues : where its tissues come from, or can come from; None if it knows none.
    """

    scans: int = 1
    tissues: Known | None = None

    @classmethod
    def of_reference(cls, reference: Reference) -> TargetFacts:
        """Return what matters about a reference."""
        if reference.tissues is not None:
            return cls(
                reference.scans, "maps" if reference.tissues.source == "maps" else "components"
            )
        mixture = reference.mixture
        split = mixture.channels == 1 and can_split(mixture.components, reference.channel_names[0])
        return cls(reference.scans, "components" if split else None)

    @property
    def words(self) -> str:
        """What it is."""
        return "a target of one scan" if self.scans == 1 else f"a reference of {self.scans} scans"


@dataclass(frozen=True)
class StudyFacts:
    """What is known about the scans of a study.

    Attributes
    ----------
    scans : how many there are.
    sites : how many each site has.
    with_maps : how many have tissue probability maps of CSF, GM and WM.
    given : what is known about a reference that was given; None if it is made from these scans.
    one_labeller : whether the maps of all sites seem to be made in the same way.
    can_split : whether the components of a reference of these scans can stand for tissues.
    """

    scans: int
    sites: Mapping[str, int]
    with_maps: int = 0
    given: TargetFacts | None = None
    one_labeller: bool = True
    can_split: bool = True

    @property
    def all_maps(self) -> bool:
        """Whether all scans have maps that seem to be made in the same way."""
        return self.with_maps == self.scans and self.one_labeller

    @property
    def knows_tissues(self) -> bool:
        """Whether the tissues of a reference of these scans are known, from maps or without."""
        return self.can_split or (self.with_maps > 0 and self.one_labeller)

    @property
    def sites_known(self) -> bool:
        """Whether the site of each scan is known."""
        return sum(self.sites.values()) == self.scans

    @property
    def smallest_site(self) -> int:
        """How many scans the smallest site has."""
        return min(self.sites.values(), default=0)

    @property
    def site_words(self) -> str:
        """How many sites there are, and how large they are."""
        if not self.sites:
            return "no named sites"
        if not self.sites_known:
            return "scans without a site"
        if len(self.sites) == 1:
            return "one site"
        least, most = self.smallest_site, max(self.sites.values())
        size = f"{least} to {most} scans" if least < most else f"{plural(most, 'scan')} each"
        return f"{len(self.sites)} sites with {size}"

    @property
    def map_words(self) -> str:
        """How many scans have tissue maps."""
        if not self.with_maps:
            return "no tissue maps"
        if not self.one_labeller:
            return "tissue maps that differ by site"
        of = "all" if self.with_maps == self.scans else f"{self.with_maps} of {self.scans}"
        return f"tissue maps of {of} scans"


def can_split(components: int, channel: str) -> bool:
    """Tell whether the components of a reference can stand for CSF, GM and WM.

    Parameters
    ----------
    components : how many it has.
    channel : what its images show; tissues are ordered by brightness as in T1w images.
    """
    return components >= len(TISSUES) and not is_other_contrast(channel)
