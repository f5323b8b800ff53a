"""From the density of a scan and of a target to the map between them, by the method chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.methods.lesions import KeptOut, lesions_of
from ndflow.methods.model import Portrait, needs_landmarks
from ndflow.methods.target_density import aim_of
from ndflow.population import MIDPOINT_LEVELS, match_preserving_lesions
from ndflow.settings import Matching
from ndflow.transport import (
    DETERMINED_RANGE,
    Affine,
    IntensityMap,
    align,
    components_by_rule,
    divergence,
    flow_map,
    match,
    tabulate,
)

__all__ = ["Solution", "solve"]

_TOLERANCE = 1e-4  # of a table, in standard deviations of the target


class Solution(NamedTuple):
    """A map, and what there is to say about it.

    Attributes
    ----------
    imap : the map, in the units of the scan and of the result.
    affine : the alignment of mean and spread alone.
    divergences : from the target, of the aligned scan and of the result; where the target has unit
        variance. None for methods that do not look at densities.
    message : how the match ended.
    converged : whether it ended well.
    aim : what the scan was matched to, if not the plain average; and how the map to that differs.
    kept_out : what of the scan was kept out of the match as a lesion, if that was asked for.
    frozen : which components of the scan stayed where they were, if that was asked for.
    """

    imap: IntensityMap
    affine: Affine
    divergences: tuple[float, float] | None
    message: str
    converged: bool = True
    aim: dict[str, Any] | None = None
    kept_out: KeptOut | None = None
    frozen: tuple[int, ...] | None = None

    def doubts(self, path: str) -> list[str]:
        """Return warnings where the match of a scan did not end well, or it is a strange one."""
        doubts = [] if self.converged else [f"{path}: the match to the target {self.message}"]
        if self.kept_out is not None and self.kept_out.unlike:
            doubts.append(
                f"{path}: a quarter of it or more is unlike all healthy scans of the reference, so "
                f"nothing of it was taken for a lesion"
            )
        if self.frozen == ():
            doubts.append(f"{path}: none of its components is what --freeze says; all could move")
        return doubts

    def findings(self, source: GaussianMixture, objective: str) -> dict[str, Any]:
        """Return what there is to know about the map of a scan with this density."""
        ends = self.divergences
        return {
            "match": self.message,
            "divergence": ends and {"objective": objective, "before": ends[0], "after": ends[1]},
            "jacobian": _jacobian(self, source),
            **({} if self.aim is None else {"aim": self.aim}),
            **({} if self.kept_out is None else {"lesions": self.kept_out.record()}),
            **({} if self.frozen is None else {"frozen": list(self.frozen)}),
        }


def solve(source: Portrait, target: Portrait, matching: Matching) -> Solution:
    """Return the map from a source to a target."""
    if needs_landmarks(matching):
        return _by_landmarks(source, target, matching)
    kept_out = lesions_of(source, target, matching)
    aim = aim_of(source, target, matching, kept_out.components if kept_out else ())
    solution = _by_density(source.mixture, aim.density, matching, kept_out)
    if aim.record is None:
        return solution
    plain = solution
    if aim.density is not target.mixture:
        plain = _by_density(source.mixture, target.mixture, matching, kept_out)
    differences = _differences(source.mixture, target.mixture, plain, solution)
    return solution._replace(aim={**aim.record, "plain": differences})


def _by_landmarks(source: Portrait, target: Portrait, matching: Matching) -> Solution:
    if source.landmarks is None or target.landmarks is None:
        raise InvalidValueError(f"the method {matching.method!r} needs landmarks")
    joined = source.landmarks.to(target.landmarks)
    affine = align(source.mixture, target.mixture)
    return Solution(joined.imap, affine, None, joined.message, joined.as_meant)


def _by_density(
    source: GaussianMixture,
    target: GaussianMixture,
    matching: Matching,
    kept_out: KeptOut | None,
) -> Solution:
    affine = align(source, target)
    aligned = source.transformed(affine.matrix, affine.offset)
    if matching.method == "affine":
        apart = _divergence(aligned, target, matching.objective)
        return Solution(affine, affine, (apart, apart), "aligned, not matched")
    how: dict[str, Any] = {
        "objective": matching.objective,
        "regularisation": matching.regularisation,
    }
    frozen = components_by_rule(source, matching.freeze)
    if kept_out is not None and kept_out.components:
        affine, matched = match_preserving_lesions(source, target, kept_out.components, **how)
    else:
        matched = match(aligned, target, frozen=frozen, **how)
    imap = flow_map(affine, matched, solver=matching.solver)
    # Beyond these quantiles the map is straight, and so is the table.
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    sd = float(np.sqrt(target.covariance()[0, 0]))
    table = tabulate(imap, low, high, tolerance=_TOLERANCE * sd)
    ends = float(matched.divergences[0]), float(matched.divergences[-1])
    message, converged = matched.status.message, matched.status.converged
    stayed = frozen if matching.freeze else None
    return Solution(table, affine, ends, message, converged, kept_out=kept_out, frozen=stayed)


def _differences(
    source: GaussianMixture, target: GaussianMixture, plain: Solution, own: Solution
) -> dict[str, Any]:
    """Say what the plain target would have given, in standard deviations of that target."""
    x = source.quantile(MIDPOINT_LEVELS)
    off = (plain.imap(x) - own.imap(x)) / float(np.sqrt(target.covariance()[0, 0]))
    ends = plain.divergences
    return {
        "rms_difference": float(np.sqrt((off * off).mean())),
        "largest_difference": float(np.abs(off).max()),
        "divergence": ends and {"before": ends[0], "after": ends[1]},
    }


def _divergence(source: GaussianMixture, target: GaussianMixture, objective: str) -> float:
    """Return the divergence where the target has unit variance, as `match` has it."""
    there = align(target)
    one, two = (m.transformed(there.matrix, there.offset) for m in (source, target))
    return divergence(one, two, objective)


def _jacobian(solution: Solution, source: GaussianMixture) -> dict[str, Any]:
    """Return the least and the greatest slope of a map where the scan has intensities.

    Both in the units of the scan and of the result, and as multiples of the alignment's slope.
    """
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    slopes = np.exp(solution.imap.log_det_jacobian(np.linspace(low, high, 1001)))
    own = abs(float(solution.affine.matrix[0, 0]))
    ends = [float(slopes.min()), float(slopes.max())]
    return {"range": ends, "relative_to_affine": [end / own for end in ends]}
