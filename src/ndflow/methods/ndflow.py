"""``ndflow``: nonparametric density flows [castro2018].

The density of the scan is aligned with the target's and matched to it, and the intensities are
carried along the mass-conserving flow between the two (`ndflow.transport`). Components of the scan
can be kept out of the match because the user says so, and the target can have the scan's own tissue
proportions.

Where these are estimated, no mixture stands between the voxels and the target t: in one dimension
the flow from one density to another is the map ``T⁻¹ ∘ F``, and F is taken from the voxels, at
quantiles that are 2.5 % apart. Fits of the same voxels with a little noise may differ in their
components, these quantiles hardly do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.methods.base import DensityModel, Divergence, Method, Solution, TargetChoice
from ndflow.options import Options
from ndflow.population import TISSUES, TissueModel, Tissues, tissues_from_components
from ndflow.population.proportions import estimated_proportions, tissue_intervals
from ndflow.transport import align, tabulate
from ndflow.transport.joint import joint_map
from ndflow.transport.match import check_rules, components_by_rule
from ndflow.transport.normalising_map import DETERMINED_RANGE, align_and_match, flow_map
from ndflow.transport.tabulated import Tabulated, smooth_table
from ndflow.values import FloatArray, plural

EVIDENCE = 10.0  # of several channels, times that of one; chosen on the channels of two patients
_TOLERANCE = 1e-4  # of a table, in standard deviations of the target
_APART = 1e-6  # of the range of a scan: quantiles that are closer are the same


class DensityFlow(Method):
    """Carry intensities along the flow from the density of a scan to its target."""

    name = "ndflow"
    uses = frozenset({"proportions", "freeze", "objective", "regularisation", "solver"})
    matches_densities = True
    maps_jointly = True

    def check(self, options: Options) -> None:
        """Refuse rules for frozen components that make no sense."""
        super().check(options)
        try:
            check_rules(options.freeze)
        except InvalidValueError as error:
            raise InvalidValueError(f"--set freeze: {error}") from None

    def solve(self, source: DensityModel, target: DensityModel, options: Options) -> Solution:
        """Return the map along the flow."""
        rule = target_rule(options)
        if rule.carries_voxels and not options.freeze:
            affine = align(source.mixture, target.mixture)
            return replace(carried(source, target), affine=affine)
        density, choice = rule.density(source, target)
        return replace(_matched(source.mixture, density, options), target=choice)

    def options(self, options: Options) -> list[str]:
        """Return the choices that matter to it, in words."""
        words = [f"objective {options.objective}", f"regularisation {options.regularisation:g}"]
        words += [f"solver {options.solver}", f"proportions {options.proportions}"]
        words += [f"frozen {', '.join(options.freeze)}"] if options.freeze else []
        return words


def _matched(source: GaussianMixture, target: GaussianMixture, options: Options) -> Solution:
    """Align, match and flow from one density to another."""
    frozen = components_by_rule(source, options.freeze)
    affine, matched = align_and_match(
        source,
        target,
        objective=options.objective,
        regularisation=options.regularisation,
        frozen=frozen,
    )
    imap = flow_map(affine, matched, solver=options.solver)
    # Beyond these quantiles the map is straight, and so is the table.
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    sd = float(np.sqrt(target.covariance()[0, 0]))
    first, last = float(matched.divergences[0]), float(matched.divergences[-1])
    return Solution(
        tabulate(imap, low, high, tolerance=_TOLERANCE * sd),
        affine,
        matched.status.message,
        matched.status.converged,
        Divergence(options.objective, first, last),
        frozen=frozen if options.freeze else None,
    )


_EVERY = 5  # quantiles, of those i/200
_KNOTS = np.r_[0, np.arange(_EVERY - 1, QUANTILE_LEVELS.size, _EVERY), QUANTILE_LEVELS.size - 1]


def carried(source: DensityModel, target: DensityModel) -> Solution:
    """Return the map that takes the voxels of a scan to tissues in estimated proportions.

    Parameters
    ----------
    source : the quantiles of the scan count, and what is known about scans like it.
    target : the population, with its tissues.

    Returns
    -------
    Solution
        Without an alignment.
    """
    density, choice = _RULES["adaptive"].density(source, target)
    imap = between_quantiles(source.distribution, density.quantile(QUANTILE_LEVELS))
    message = "carried the voxels to their quantiles in the target"
    return Solution(imap, None, message, target=choice)


def between_quantiles(source: FloatArray, target: FloatArray) -> Tabulated:
    """Return the smooth map that takes quantiles at `QUANTILE_LEVELS` to others."""
    x, y = source[_KNOTS], target[_KNOTS]
    rises = np.concatenate([[True], np.diff(x) > _APART * (x[-1] - x[0])])
    x, y = x[rises], y[rises]
    if x.size < 2:
        raise DegenerateDataError(f"nearly all voxels used have the value {x[0]:g}")
    slopes = np.gradient(y, x) if x.size > 2 else np.diff(y) / np.diff(x) * np.ones(2)
    return smooth_table(x, y, slopes)


# ── targets ───────────────────────────────────────────────────────────────────────────────────────
# What one scan is matched to: the average of a population, or its tissues in other proportions.
#
# People differ in how much CSF, GM and WM they have, scanners in how these look. A target with the
# scan's own proportions lets the map correct the scanner only (`ndflow.population.tissue_model`).

_CLEARLY = 1.0  # by how many standard deviations of a tissue two of them differ


Chosen = tuple[GaussianMixture, TargetChoice | None]
Saved = Tissues | TissueModel | None


class TargetRule:
    """A rule for what a scan is matched to: the average of the population, as in the paper.

    Attributes
    ----------
    needs_tissue_model : whether the population's tissues must be known; tissue probability maps
        are then used where there are any.
    needs_tissue_maps : whether each scan must have tissue probability maps.
    carries_voxels : whether the map is found from the voxels of a scan, see `carried`.
    """

    needs_tissue_model = False
    needs_tissue_maps = False
    carries_voxels = False

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        """Return what a scan is matched to, and why; None where that needs no explanation.

        Parameters
        ----------
        source, target : the scan, and the population.
        """
        return target.mixture, None

    def population_tissues(self, mixture: GaussianMixture, saved: Saved) -> TissueModel | None:
        """Return the tissues of a population, if the rule needs them.

        Parameters
        ----------
        mixture : the density of the population.
        saved : the tissues that were saved with it.
        """
        return None


class _FromMaps(TargetRule):
    """The population's tissues, in the proportions of the scan's tissue probability maps."""

    needs_tissue_model = True
    needs_tissue_maps = True

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        model = _tissue_model(target)
        if not isinstance(source.tissues, Tissues):
            raise InvalidValueError("--proportions tissue needs probability maps of CSF, GM, WM")
        _refuse_swapped(source.tissues, model)
        own = source.tissues.proportions
        return model.target(own), _choice("tissues", own, "its tissue probability maps", model)

    def population_tissues(self, mixture: GaussianMixture, saved: Saved) -> TissueModel:
        if isinstance(saved, TissueModel):
            return saved
        raise InvalidValueError("holds no tissues from maps; leave out --proportions tissue")


class _Estimated(TargetRule):
    """The population's tissues, in proportions estimated from the quantiles of the scan."""

    needs_tissue_model = True
    carries_voxels = True

    def density(self, source: DensityModel, target: DensityModel) -> Chosen:
        model = _tissue_model(target)
        found = estimated_proportions(source.distribution, model, source.variation)
        differs = f"± {100 * source.variation.contrast:.0f} %"
        why = f"its quantiles, given that the contrast of such scans varies by {differs}"
        known = dict(zip(TISSUES, tissue_intervals(found, model).tolist(), strict=True))
        choice = _choice("tissues", found.proportions, why, model)
        return model.target(found.proportions), replace(choice, intervals=known)

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


_RULES = {"average": TargetRule(), "tissue": _FromMaps(), "adaptive": _Estimated()}


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


# ── several channels ──────────────────────────────────────────────────────────────────────────────


def solve_together(
    source: DensityModel, target: DensityModel, rows: FloatArray, options: Options
) -> Solution:
    """Return the map of several channels to a target: of each by itself, then a joint flow.

    Parameters
    ----------
    source, target : what is known about the subject, with the density of each channel, and about
        its target.
    rows : the values of the subject's voxels, (n, d).
    options : what the user chose.
    """
    found = joint_map(
        rows,
        source.marginals,
        target.mixture,
        regularisation=options.regularisation,
        effective_count=EVIDENCE * options.effective_count,
    )
    message = "maps of each channel by itself"
    if found.figures.kept:
        message = f"{message}, then a joint flow of {plural(found.figures.components, 'component')}"
    return Solution(found.map, None, message, joint=found.figures)


METHODS = (DensityFlow(),)
