"""``ndflow``: nonparametric density flows [castro2018].

The density of the scan is aligned with the target's and matched to it, and the intensities are
carried along the mass-conserving flow between the two (`ndflow.transport`). Components of the scan
can be kept out of the match because the user says so, and the target can have the scan's own tissue
proportions (`ndflow.methods.targets`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.methods.base import DensityModel, Method
from ndflow.methods.solution import Divergence, PlainTarget, Solution
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.population.tissues import MIDPOINT_LEVELS
from ndflow.transport import tabulate
from ndflow.transport.joint import joint_map
from ndflow.transport.match import check_rules, components_by_rule
from ndflow.transport.normalising_map import DETERMINED_RANGE, align_and_match, flow_map
from ndflow.values import FloatArray, plural

EVIDENCE = 10.0  # of several channels, times that of one; chosen on the channels of two patients
_TOLERANCE = 1e-4  # of a table, in standard deviations of the target
_SHORTCOMINGS = {
    "l2": (
        "the L2 divergence matches peaks rather than amounts, regularisation holds components "
        "back, and a target with other proportions of tissue pulls them apart; try --set objective="
        "cramer, a target more like the scan"
    ),
    "cramer": (
        "regularisation holds components back, and a target with other proportions of tissue "
        "pulls them apart; try a smaller --set regularisation, a target more like the scan"
    ),
}
_OBJECTIVES = {"l2": "L2 divergence", "cramer": "Cramér distance"}


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
        density, choice = target_rule(options).density(source, target)
        solution = _matched(source.mixture, density, options)
        if choice is None:
            return solution
        plain = solution
        if density is not target.mixture:
            plain = _matched(source.mixture, target.mixture, options)
        without = _plain_target(source.mixture, target.mixture, plain, solution)
        return replace(solution, target=replace(choice, plain=without))

    def description(self, options: Options) -> str:
        """Return what it does to the density of a scan, which a methods section has introduced."""
        return (
            f"matched to it by minimising their {_OBJECTIVES[options.objective]} "
            f"(regularisation {options.regularisation:g}), and intensities were carried along the "
            f"mass-conserving flow between the two (Castro & Glocker, 2018)"
        )

    def remarks(self, options: Options) -> str:
        """Return what a methods section says about frozen components."""
        if not options.freeze:
            return ""
        rules = ", ".join(options.freeze)
        return f" Components chosen by index, weight or mean intensity ({rules}) stayed fixed."

    def shortcoming(self, options: Options) -> str:
        """Return why a match may lead away from its target, and what to try."""
        return f"{_SHORTCOMINGS[options.objective]}, or compare with --method affine"

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


def _plain_target(
    source: GaussianMixture, target: GaussianMixture, plain: Solution, own: Solution
) -> PlainTarget:
    """Return what the plain average would have given, in its standard deviations."""
    x = source.quantile(MIDPOINT_LEVELS)
    off = (plain.imap(x) - own.imap(x)) / float(np.sqrt(target.covariance()[0, 0]))
    return PlainTarget(
        float(np.sqrt((off * off).mean())), float(np.abs(off).max()), plain.divergence
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
