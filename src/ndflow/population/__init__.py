"""Cohorts: references, tissues and lesions, all learned from the densities of many scans."""

from ndflow.population.landmarks import Landmarks
from ndflow.population.lesion_detection import (
    HealthyCeiling,
    LesionFinding,
    find_lesions,
    learn_ceiling,
)
from ndflow.population.lesion_preserving import (
    match_preserving_lesions,
    without_components,
)
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
    "HealthyCeiling",
    "Landmarks",
    "LesionFinding",
    "Reference",
    "TissueModel",
    "Tissues",
    "adapted_proportions",
    "find_lesions",
    "learn_ceiling",
    "match_preserving_lesions",
    "pushforward",
    "reference",
    "tissue_model",
    "tissues_from_components",
    "without_components",
]
