"""What a method looks at: the density of a scan or of a target, and perhaps landmarks."""

from __future__ import annotations

from typing import Any, NamedTuple

from ndflow.density import GaussianMixture
from ndflow.methods.landmarks import BASELINES, Landmarks
from ndflow.population import HealthyCeiling, TissueModel, Tissues
from ndflow.settings import Matching
from ndflow.transport import Affine

__all__ = ["Portrait", "has_own_units", "needs_landmarks"]


class Portrait(NamedTuple):
    """What is known of the intensities of a scan, or of a target.

    Attributes
    ----------
    mixture : their density.
    landmarks : what a baseline looks at; None for methods that look at the density alone.
    tissues : of a scan, or of the population that a target stands for; None where not needed.
    alarm : of a target, what healthy scans of its population have at most.
    """

    mixture: GaussianMixture
    landmarks: Landmarks | None = None
    tissues: Tissues | TissueModel | None = None
    alarm: HealthyCeiling | None = None

    def transformed(self, affine: Affine) -> Portrait:
        """Return the portrait of the same intensities in other units."""
        return Portrait(
            self.mixture.transformed(affine.matrix, affine.offset),
            self.landmarks and self.landmarks.transformed(affine),
            self.tissues and self.tissues.transformed(affine),
            self.alarm and self.alarm.transformed(affine),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it, with entries only for what there is."""
        return {name: part.to_dict() for name, part in self._asdict().items() if part is not None}


def needs_landmarks(matching: Matching) -> bool:
    """Tell whether a method looks at landmarks."""
    return matching.method in BASELINES


def has_own_units(matching: Matching) -> bool:
    """Tell whether the results of a method are in units of its own, not those of a reference."""
    return needs_landmarks(matching) and BASELINES[matching.method].own_units
