"""Modes: how the maps of a method are composed for the scans of a study.

*Individual*: each scan is matched to the common reference. *Site*: the reference of the scan's site
is matched to the common one, once; a scan is aligned with its site's reference, which has zero mean
and unit standard deviation like any other, and then goes through that one map. *Two-level*: what
comes out of the site's map is matched to the common reference once more, scan by scan, where the
target may have the tissue proportions of each person.

The visits of one person share what is found for single scans: one map, from the mean of their
densities. Before the map of its site, each visit has a straight line of its own, in place of
z-scoring (`ndflow.population.visits`). So what changes between visits is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture, fit
from ndflow.errors import InvalidValueError
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.methods.ndflow import (
    between_quantiles,
    carried,
    chosen_density,
    solve_together,
    target_rule,
)
from ndflow.options import Options
from ndflow.population import TissueModel, Tissues
from ndflow.population.averaging import Pushforward, mean_density, pushforward
from ndflow.population.proportions import OF_ANY, Variation, model_of_site
from ndflow.population.travelling import Seen
from ndflow.population.visits import lines_of_visits, pooled_quantiles
from ndflow.transport import Affine, Chain, align
from ndflow.values import FloatArray


@dataclass(frozen=True)
class SiteMap:
    """The way from the reference of a site to the common reference.

    Attributes
    ----------
    reference : of the site.
    solution : its map to the common reference.
    """

    reference: DensityModel
    solution: Solution

    @classmethod
    def to(cls, reference: DensityModel, site: DensityModel, options: Options) -> SiteMap:
        """Return the map from a site's reference to the common one.

        Differences between people are handled scan by scan.
        """
        plain = replace(options, proportions="average")
        return cls(site, method_of(plain).solve(site, DensityModel(reference.mixture), plain))

    @classmethod
    def of_travellers(cls, reference: DensityModel, site: DensityModel, seen: Seen) -> SiteMap:
        """Return the map from a site's reference by what is known about its travellers."""
        units = align(reference.mixture).inverse()
        imap = between_quantiles(seen.there, units(seen.shared))
        message = "carried travelling people to what they are at all sites"
        return cls(site, Solution(imap, align(site.mixture, reference.mixture), message))

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for fingerprints."""
        return {**self.reference.to_dict(), "map": self.solution.imap.to_dict()}


class Visit(NamedTuple):
    """One of several scans of a person.

    Attributes
    ----------
    scan : what is known about it.
    site : the map of its site, if there is one.
    """

    scan: DensityModel
    site: SiteMap | None

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for fingerprints."""
        return {**self.scan.to_dict(), "site": self.site and self.site.to_dict()}


@dataclass(frozen=True)
class Goal:
    """What a scan is brought to.

    Attributes
    ----------
    reference : the common one, in the units of the result.
    options : how.
    site : the map of the scan's site; None where each scan goes by itself.
    further : whether a scan is matched by itself after the map of its site.
    variation : how the scans that come here differ beside people, where proportions are estimated.
    visits : the scans of one person, if these share a map.
    place : of the scan among them.
    """

    reference: DensityModel
    options: Options
    site: SiteMap | None = None
    further: bool = False
    variation: Variation = OF_ANY
    visits: tuple[Visit, ...] = ()
    place: int = 0

    def solve(self, scan: DensityModel, rows: FloatArray | None = None) -> Solution:
        """Return the map for a scan; of several channels, from the values of its voxels, (n, d)."""
        if rows is not None:
            return solve_together(scan, self.reference, rows, self.options)
        method = method_of(self.options)
        if self.site is None and not self.visits:
            return method.solve(
                replace(scan, variation=self.variation), self.reference, self.options
            )
        visits = self.visits or (Visit(scan, self.site),)
        ways = _ways(visits)
        whole = align(scan.mixture, self.reference.mixture)
        if self.site is not None:
            own = align(scan.mixture)
            aligned: Affine = self.site.solution.affine  # type: ignore[assignment]  # of one channel
            whole = Affine(aligned.matrix @ own.matrix, aligned(own.offset))
            if not self.further:
                return replace(self.site.solution, imap=ways[self.place], affine=whole)
        last = self._solve_person(scan, visits, ways)
        return replace(last, imap=Chain((ways[self.place], last.imap)), affine=whole)

    def _solve_person(
        self, scan: DensityModel, visits: Sequence[Visit], ways: Sequence[Chain]
    ) -> Solution:
        """Return the map that all visits of a person share, once they have gone these ways."""
        if target_rule(self.options).carries_voxels:
            pairs = zip(visits, ways, strict=True)
            seen = pooled_quantiles([way(one.scan.distribution) for one, way in pairs])
            person = replace(scan, quantiles=seen, variation=self.variation)
            return carried(person, self.reference)
        own, all_own = scan.tissues, [one.scan.tissues for one in visits]
        if isinstance(own, Tissues):
            shares = [one.proportions for one in all_own if isinstance(one, Tissues)]
            own = replace(own, proportions=np.mean(shares, axis=0))
        person = DensityModel(self._after(visits, ways), tissues=own)
        return method_of(self.options).solve(person, self.reference, self.options)

    def for_people(self) -> Goal:
        """Return the goal of a site whose people may have other proportions of tissue on average.

        They take the place of those of the population, so the map of the site keeps them.
        """
        if self.site is None or not isinstance(self.reference.tissues, TissueModel):
            return self
        model = model_of_site(self.site.reference.distribution, self.reference.tissues)
        way = SiteMap.to(DensityModel(model.target(model.mean)), self.site.reference, self.options)
        return replace(self, reference=replace(self.reference, tissues=model), site=way)

    def on_the_way(self, scan: DensityModel) -> DensityModel:
        """Return a scan after the map of its site, if there is one; only quantiles are moved."""
        if self.site is None:
            return scan
        way = Chain((align(scan.mixture), self.site.solution.imap))
        return replace(scan, quantiles=way(scan.distribution))

    @property
    def per_scan(self) -> bool:
        """Whether each scan is matched by itself."""
        return self.site is None or self.further

    def matched_density(self, solution: Solution) -> GaussianMixture | None:
        """Return the density that the result of a scan should have.

        None where it need not have any: its map is a straight line, which fits no shape, all scans
        of its site share one map, or components of it were frozen.
        """
        if isinstance(solution.imap, Affine) or not self.per_scan or solution.frozen:
            return None
        return chosen_density(solution.target, self.reference)

    def _after(self, visits: Sequence[Visit], ways: Sequence[Chain]) -> GaussianMixture:
        """Return the mean density of the visits of a person once they have gone these ways."""
        # the bins need a space of unit variance
        units = _SAME if self.site is None else align(self.reference.mixture)
        maps = [Chain((way, units)) for way in ways]
        exact = [
            Pushforward(one.scan.mixture, imap) for one, imap in zip(visits, maps, strict=True)
        ]
        if len(exact) == 1:
            moved = pushforward(exact[0].mixture, exact[0].imap)
        else:
            bins = mean_density([(one, 1 / len(exact)) for one in exact])
            moved = fit(bins, effective_count=self.options.effective_count).mixture
        back = units.inverse()
        return moved.transformed(back.matrix, back.offset)

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for fingerprints."""
        return {
            "reference": self.reference.to_dict(),
            "site": self.site and self.site.to_dict(),
            **({"further": True} if self.further else {}),
            "variation": self.variation.to_dict(),
            **({"visits": [one.to_dict() for one in self.visits]} if self.visits else {}),
        }


_SAME = Affine(np.eye(1), np.zeros(1))


def _ways(visits: Sequence[Visit]) -> list[Chain]:
    """Return how the visits of a person come to the space of the reference, or of z-scores."""
    owns = [align(one.scan.mixture) for one in visits]
    onward = [() if one.site is None else (one.site.solution.imap,) for one in visits]
    if len(visits) > 1:
        z = [own(one.scan.distribution) for own, one in zip(owns, visits, strict=True)]
        lines = lines_of_visits(z, [Chain((_SAME, *more)) for more in onward])
        owns = [
            Affine(line.matrix @ own.matrix, line(own.offset))
            for line, own in zip(lines, owns, strict=True)
        ]
    return [Chain((own, *more)) for own, more in zip(owns, onward, strict=True)]


@dataclass(frozen=True)
class Mode:
    """How maps are composed.

    Attributes
    ----------
    name : what users call it.
    by_site : whether scans go through a map of their site.
    per_scan : whether each scan is matched by itself.
    """

    name: str
    by_site: bool
    per_scan: bool

    def check(self, options: Options) -> None:
        """Refuse choices that make no sense in this mode."""
        method = method_of(options)
        if self.by_site and not method.matches_densities:
            raise InvalidValueError(f"{method.name!r} knows no sites; leave out --mode {self.name}")
        if self.by_site and options.freeze:
            raise InvalidValueError(f"freeze is about single scans; leave out --mode {self.name}")
        if not self.per_scan and target_rule(options).needs_tissue_model:
            raise InvalidValueError(
                f"--proportions {options.proportions} needs --mode two-level or individual"
            )

    def goals(
        self, reference: DensityModel, sites: Mapping[str, SiteMap], options: Options
    ) -> dict[str | None, Goal]:
        """Return what scans are brought to: one goal per site, and one for all under None.

        Parameters
        ----------
        reference : the common one, in the units of the result.
        sites : the map of each site; not used where each scan goes by itself.
        options : how.
        """
        ways = sites.items() if self.by_site else ()
        goals: dict[str | None, Goal] = {None: Goal(reference, options)}
        return goals | {name: Goal(reference, options, way, self.per_scan) for name, way in ways}

    def goal_of(self, goals: Mapping[str | None, Goal], site: str | None) -> Goal:
        """Return the goal of a scan of this site."""
        return goals[site if self.by_site else None]


MODES = {
    mode.name: mode
    for mode in (
        Mode("individual", by_site=False, per_scan=True),
        Mode("site", by_site=True, per_scan=False),
        Mode("two-level", by_site=True, per_scan=True),
    )
}
