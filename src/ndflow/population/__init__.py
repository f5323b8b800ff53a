"""What a cohort looks like: the average of many densities, as one."""

from ndflow.population.adaptive import Adapted, adapted
from ndflow.population.pushing import pushed
from ndflow.population.reference import Reference, reference
from ndflow.population.tissues import TISSUES, TissueModel, Tissues, grouped, tissue_model

__all__ = [
    "TISSUES",
    "Adapted",
    "Reference",
    "TissueModel",
    "Tissues",
    "adapted",
    "grouped",
    "pushed",
    "reference",
    "tissue_model",
]
