"""Modes: how the maps of a method are composed for the scans of a study.

*Individual*: each scan is matched to the common reference. *Site*: the reference of the scan's site
is matched to the common one, once; a scan is aligned with its site's reference, which has zero mean
and unit standard deviation like any other, and then goes through that one map. *Two-level*: what
comes out of the site's map is matched to the common reference once more, scan by scan, where the
target may have the tissue proportions of each person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.methods.ndflow import carried, chosen_density, solve_together, target_rule
from ndflow.options import Options
from ndflow.population import TissueModel, pushforward
from ndflow.population.proportions import OF_ANY, Variation, model_of_site
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
    """

    reference: DensityModel
    options: Options
    site: SiteMap | None = None
    further: bool = False
    variation: Variation = OF_ANY

    def solve(self, scan: DensityModel, rows: FloatArray | None = None) -> Solution:
        """Return the map for a scan; of several channels, from the values of its voxels, (n, d)."""
        if rows is not None:
            return solve_together(scan, self.reference, rows, self.options)
        method = method_of(self.options)
        scan = replace(scan, variation=self.variation)
        if self.site is None:
            return method.solve(scan, self.reference, self.options)
        way = self.site.solution
        own = align(scan.mixture)
        aligned: Affine = way.affine  # type: ignore[assignment]  # of one channel
        whole = Affine(aligned.matrix @ own.matrix, aligned(own.offset))
        through_site = Chain((own, way.imap))
        if not self.further:
            return replace(way, imap=through_site, affine=whole)
        if target_rule(self.options).carries_voxels:
            last = carried(self.on_the_way(scan), self.reference)
        else:
            there = DensityModel(self._after(scan, through_site), tissues=scan.tissues)
            last = method.solve(there, self.reference, self.options)
        return replace(last, imap=Chain((through_site, last.imap)), affine=whole)

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

    def _after(self, scan: DensityModel, through_site: Chain) -> GaussianMixture:
        """Return the density of a scan after the map of its site."""
        units = align(self.reference.mixture)  # the bins need a space of unit variance
        moved = pushforward(scan.mixture, Chain((through_site, units)))
        back = units.inverse()
        return moved.transformed(back.matrix, back.offset)

    def to_dict(self) -> dict[str, Any]:
        """Return what results depend on, for fingerprints."""
        return {
            "reference": self.reference.to_dict(),
            "site": None if self.site is None else self.site.reference.to_dict(),
            **({"further": True} if self.further else {}),
            "variation": self.variation.to_dict(),
        }


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
