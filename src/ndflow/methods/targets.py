"""What one scan is matched to: the average of a population, or its tissues in other proportions.

People differ in how much CSF, GM and WM they have, scanners in how these look. A target with the
scan's own proportions lets the map correct the scanner only (`ndflow.population.tissue_model`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.methods.base import DensityModel
from ndflow.methods.solution import TargetChoice
from ndflow.options import Options
from ndflow.population import TISSUES, TissueModel, Tissues, adapted_proportions
from ndflow.population.tissues import tissues_from_components
from ndflow.values import FloatArray

# How strongly proportions are held to those of the population, see `adapted_proportions`: more, as
# long as the contrast of a scanner could be taken for proportions; less, once a site's map has
# removed it.
_STRONG, _WEAK = 3e-3, 3e-4
_CLEARLY = 1.0  # by how many standard deviations of a tissue two of them differ


Chosen = tuple[GaussianMixture, TargetChoice | None]
Saved = Tissues | TissueModel | None


class TargetRule:
    """A rule for what a scan is matched to: the average of the population, as in the paper.

    Attributes
    ----------
    needs_tissue_model : whether the population's tissues must be known.
    needs_tissue_maps : whether each scan must have tissue probability maps.
    uses_tissue_maps : whether those of a study's scans are used where there are any.
    adapts_sites : whether what a site is matched to depends on the tissues.
    """

    needs_tissue_model = False
    needs_tissue_maps = False
    uses_tissue_maps = False
    adapts_sites = False

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        """Return what a scan is matched to, and why; None where that needs no explanation.

        Parameters
        ----------
        source, target : the scan, and the population.
        """
        return target.mixture, None

    def site_density(self, site: GaussianMixture, target: DensityModel) -> GaussianMixture:
        """Return what the average of a site is matched to: by default that of the population.

        Parameters
        ----------
        site : the density of the site's reference.
        target : the population.
        """
        return target.mixture

    def population_tissues(self, mixture: GaussianMixture, saved: Saved) -> TissueModel | None:
        """Return the tissues of a population, if the rule needs them.

        Parameters
        ----------
        mixture : the density of the population.
        saved : the tissues that were saved with it.
        """
        return None

    def phrase(self, target: str) -> str:
        """Return what scans were matched to, for a methods section, given what `target` is."""
        return target


class _OwnProportions(TargetRule):
    """The tissues of the population, in proportions of the scan's own."""

    needs_tissue_model = True
    uses_tissue_maps = True
    known: str

    def phrase(self, target: str) -> str:
        return (
            f"the densities of CSF, GM and WM in {target}, in the scan's own proportions "
            f"({self.known})"
        )


class _FromMaps(_OwnProportions):
    """In the proportions that the scan's tissue probability maps have."""

    needs_tissue_maps = True
    known = "taken from its tissue probability maps"

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        model = _tissue_model(target)
        if not isinstance(source.tissues, Tissues):
            raise InvalidValueError(
                "--proportions tissue needs tissue probability maps of CSF, GM and WM; give "
                "--tissue-maps (or columns of a table), or use --proportions adaptive"
            )
        _refuse_swapped(source.tissues, model)
        own = source.tissues.proportions
        return model.target(own), _choice("tissues", own, "its tissue probability maps", model)

    def population_tissues(self, mixture: GaussianMixture, saved: Saved) -> TissueModel:
        if isinstance(saved, TissueModel):
            return saved
        raise InvalidValueError(
            "holds no tissues from tissue probability maps; give the file of a reference of scans "
            "with such maps, or --proportions adaptive"
        )


class _Mildest(_OwnProportions):
    """In the proportions that need the mildest map."""

    adapts_sites = True
    known = (
        "chosen such that it needs the mildest map, with a prior of what is usual; where that made "
        "no clear difference, the average was kept"
    )

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        model = _tissue_model(target)
        strength = _WEAK if source.through_site else _STRONG
        found = adapted_proportions(source.mixture, model, prior_strength=strength)
        if not found.clear:
            why = f"no proportions make its map clearly milder (by {found.gain:.0%} at most)"
            return target.mixture, _choice("average", model.mean, why, model)
        why = f"the mildest map, {found.gain:.0%} milder than with the mean proportions"
        chosen = found.proportions
        return model.target(chosen), _choice("tissues", chosen, why, model)

    def site_density(self, site: GaussianMixture, target: DensityModel) -> GaussianMixture:
        if not isinstance(target.tissues, TissueModel):
            return target.mixture
        found = adapted_proportions(site, target.tissues, prior_strength=_STRONG)
        return target.tissues.target(found.proportions)

    def population_tissues(self, mixture: GaussianMixture, saved: Saved) -> TissueModel:
        if isinstance(saved, TissueModel):
            return saved
        try:
            return tissues_from_components(mixture)
        except InvalidValueError as error:
            raise InvalidValueError(
                f"has no tissues, and none can be made from its components ({error}); make a "
                f"reference from scans with tissue probability maps, or leave out --proportions"
            ) from None


_RULES = {"average": TargetRule(), "tissue": _FromMaps(), "adaptive": _Mildest()}


def target_rule(options: Options) -> TargetRule:
    """Return the rule that the user chose."""
    return _RULES[options.proportions]


def chosen_density(choice: TargetChoice | None, target: DensityModel) -> GaussianMixture:
    """Return what a scan was matched to, given the record of that."""
    if choice is None or choice.to == "average" or not isinstance(target.tissues, TissueModel):
        return target.mixture
    return target.tissues.target([choice.proportions[name] for name in TISSUES])


def _tissue_model(target: DensityModel) -> TissueModel:
    if not isinstance(target.tissues, TissueModel):
        raise InvalidValueError("the target must know the tissues of its population")
    return target.tissues


def _refuse_swapped(own: Tissues, model: TissueModel) -> None:
    """Refuse tissues in a clearly different order of brightness than the population's.

    No increasing map could bring them together: the tissue maps must have been swapped.
    """
    apart, usually_apart = _differences(own.densities), _differences(model.densities)
    wrong = (apart * usually_apart < 0) & (np.minimum(abs(apart), abs(usually_apart)) > _CLEARLY)
    if wrong.any():
        one, two = np.argwhere(wrong)[0]
        order = "brighter" if apart[one, two] > 0 else "darker"
        raise InvalidValueError(
            f"according to its tissue maps {TISSUES[one]} is {order} than {TISSUES[two]}, but in "
            f"the reference it is the other way round; check which map is which"
        )


def _differences(densities: Sequence[GaussianMixture]) -> FloatArray:
    """Return by how much the mean of each tissue exceeds that of each other, (3, 3).

    In units of the mean standard deviation within tissues.
    """
    means = np.array([density.mean()[0] for density in densities])
    sd = np.sqrt(np.mean([density.covariance()[0, 0] for density in densities]))
    result: FloatArray = (means[:, np.newaxis] - means) / sd
    return result


def _choice(to: str, proportions: FloatArray, reason: str, model: TissueModel) -> TargetChoice:
    return TargetChoice(
        to,
        dict(zip(TISSUES, np.asarray(proportions).tolist(), strict=True)),
        reason,
        dict(zip(TISSUES, model.mean.tolist(), strict=True)),
        model.source,
    )
