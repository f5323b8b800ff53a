"""What a cohort looks like: the average of many densities, as one."""

from ndflow.population.lesion_detection import (
    HealthyCeiling,
    LesionFinding,
    find_lesions,
    learn_ceiling,
)
from ndflow.population.lesion_preserving import (
    LesionPreservingMatch,
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
    "LesionFinding",
    "LesionPreservingMatch",
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
