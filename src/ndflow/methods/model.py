"""DensityModel: what a method knows about the intensities of a scan, or of a target."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ndflow.density import GaussianMixture
from ndflow.population import Landmarks, Reference, TissueModel, Tissues
from ndflow.transport import Affine

__all__ = ["DensityModel"]


@dataclass(frozen=True)
class DensityModel:
    """A density, and whatever else is known about the same intensities.

    Attributes
    ----------
    mixture : the density.
    landmarks : the intensities that some methods look at instead of the density.
    tissues : the tissues of a scan, or of the population that a target represents.
    through_site : of a scan, whether the map of its site has removed the scanner's contrast.
    """

    mixture: GaussianMixture
    landmarks: Landmarks | None = None
    tissues: Tissues | TissueModel | None = None
    through_site: bool = False

    @classmethod
    def of_reference(cls, reference: Reference) -> DensityModel:
        """Return what a reference knows about its population."""
        return cls(reference.mixture, reference.landmarks, reference.tissues)

    def transformed(self, affine: Affine) -> DensityModel:
        """Return the model of the same intensities in other units."""
        return DensityModel(
            self.mixture.transformed(affine.matrix, affine.offset),
            self.landmarks and self.landmarks.transformed(affine),
            self.tissues and self.tissues.transformed(affine),
            self.through_site,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that are known, as JSON can hold them."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        del parts["through_site"]  # only on the way through a site, never of what is kept
        return {name: part.to_dict() for name, part in parts.items() if part is not None}
