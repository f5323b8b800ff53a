"""Solution: the map from a scan to its target, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap
from ndflow.transport.joint import JointFigures
from ndflow.values import Record


@dataclass(frozen=True)
class Divergence(Record):
    """How far a scan is from its target, where the target has unit variance.

    Attributes
    ----------
    objective : how that is measured, ``l2`` or ``cramer``.
    before, after : of the aligned scan, and of the result.
    """

    objective: str
    before: float
    after: float


@dataclass(frozen=True)
class SlopeRange(Record):
    """The smallest and the largest slope of a map where the scan has intensities.

    Attributes
    ----------
    range : in the units of the result per unit of the scan.
    relative_to_affine : as multiples of the slope of the alignment.
    """

    range: tuple[float, float]
    relative_to_affine: tuple[float, float]


@dataclass(frozen=True)
class PlainTarget(Record):
    """What the plain average would have given instead of a target made of tissues.

    Attributes
    ----------
    rms_difference, largest_difference : between the two maps, in standard deviations.
    divergence : from the plain average.
    """

    rms_difference: float
    largest_difference: float
    divergence: Divergence | None = None


@dataclass(frozen=True)
class TargetChoice(Record):
    """What a scan was matched to where that was not simply the average.

    Attributes
    ----------
    to : ``tissues`` in proportions of its own, or the ``average`` after all.
    proportions : of CSF, GM and WM in the target.
    reason : where these proportions come from.
    population : the mean proportions of the reference.
    tissues : what the tissues of the reference were made from, ``maps`` or ``components``.
    plain : what the average would have given.
    """

    to: str
    proportions: dict[str, float]
    reason: str
    population: dict[str, float]
    tissues: str
    plain: PlainTarget | None = None

    def sentence(self) -> str:
        """Say what the scan was matched to, and what the plain average would have given."""
        if self.to == "average":
            return f"Matched to the average of the reference: {self.reason}."
        own = ", ".join(f"{share:.0%} {name}" for name, share in self.proportions.items())
        usual = ", ".join(f"{share:.0%}" for share in self.population.values())
        text = f"Matched to {own} (population mean: {usual}), from {self.reason}."
        if self.plain is None:
            return text
        return (
            f"{text} With the plain average, intensities would differ by "
            f"{self.plain.rms_difference:.2g} standard deviations (root mean square)."
        )


@dataclass(frozen=True)
class MatchRecord(Record):
    """How a map was found, for the sidecar of the result.

    Attributes
    ----------
    message : how the match ended.
    slopes : of the map.
    divergence : from the target; None for methods that do not compare densities.
    target : what the scan was matched to, where that was not simply the average.
    frozen : the components that were not allowed to move, if any were chosen.
    """

    message: str
    slopes: SlopeRange | None = None
    divergence: Divergence | None = None
    target: TargetChoice | None = None
    frozen: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Solution:
    """The map from a scan to its target.

    Attributes
    ----------
    imap : the map, from the units of the scan to those of the result.
    affine : the alignment of mean and standard deviation alone; None of several channels.
    message : how the match ended.
    converged : whether it ended well.
    divergence, target, frozen : see `MatchRecord`.
    joint : of several channels, what was measured on the way.
    """

    imap: IntensityMap
    affine: Affine | None
    message: str
    converged: bool = True
    divergence: Divergence | None = None
    target: TargetChoice | None = None
    frozen: tuple[int, ...] | None = None
    joint: JointFigures | None = None

    def warnings(self, path: str) -> list[str]:
        """Return what the user should know about the match of the scan at `path`."""
        found = [] if self.converged else [f"{path}: the match to the target {self.message}"]
        if self.joint is not None and not self.joint.kept:
            found.append(
                f"{path}: a joint flow would not bring the channels closer to the target, so each "
                f"was mapped by itself"
            )
        if self.frozen == ():
            found.append(
                f"{path}: --set freeze chooses none of its components; all of them could move"
            )
        return found

    def record(self, source: GaussianMixture) -> MatchRecord:
        """Return how the map of a scan with this density was found."""
        slopes = self._slopes(source)
        return MatchRecord(self.message, slopes, self.divergence, self.target, self.frozen)

    def _slopes(self, source: GaussianMixture) -> SlopeRange | None:
        if self.affine is None:  # a map of several channels has no one slope
            return None
        low, high = source.quantile(DETERMINED_RANGE).tolist()
        slopes = np.exp(self.imap.log_det_jacobian(np.linspace(low, high, 1001)))
        own = abs(float(self.affine.matrix[0, 0]))
        ends = float(slopes.min()), float(slopes.max())
        return SlopeRange(ends, (ends[0] / own, ends[1] / own))
