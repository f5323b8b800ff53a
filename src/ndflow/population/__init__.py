"""Cohorts: references and tissues, learned from the densities of many scans."""

from ndflow.population.averaging import pushforward
from ndflow.population.reference import Landmarks, Reference, reference
from ndflow.population.tissues import (
    MIDPOINT_LEVELS,
    TISSUES,
    AdaptedProportions,
    TissueModel,
    Tissues,
    adapted_proportions,
    tissue_model,
    tissues_from_components,
)

__all__ = [
    "MIDPOINT_LEVELS",
    "TISSUES",
    "AdaptedProportions",
    "Landmarks",
    "Reference",
    "TissueModel",
    "Tissues",
    "adapted_proportions",
    "pushforward",
    "reference",
    "tissue_model",
    "tissues_from_components",
]
