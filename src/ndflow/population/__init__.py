"""Cohorts: references and tissues, learned from the densities of many scans."""

from ndflow.population.landmarks import Landmarks
from ndflow.population.pushforward import pushforward
from ndflow.population.reference import Reference, reference
from ndflow.population.tissue_model import (
    TISSUES,
    TissueModel,
    Tissues,
    tissue_model,
    tissues_from_components,
)
from ndflow.population.tissue_proportions import (
    MIDPOINT_LEVELS,
    AdaptedProportions,
    adapted_proportions,
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
