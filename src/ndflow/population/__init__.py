"""What a cohort looks like: the average of many densities, as one."""

from ndflow.population.adaptive import LEVELS, Adapted, adapted
from ndflow.population.lesions import Alarm, Found, find_lesions, learn_alarm
from ndflow.population.pushing import pushed
from ndflow.population.reference import Reference, reference
from ndflow.population.sparing import Spared, spare, without
from ndflow.population.tissues import TISSUES, TissueModel, Tissues, grouped, tissue_model

__all__ = [
    "LEVELS",
    "TISSUES",
    "Adapted",
    "Alarm",
    "Found",
    "Reference",
    "Spared",
    "TissueModel",
    "Tissues",
    "adapted",
    "find_lesions",
    "grouped",
    "learn_alarm",
    "pushed",
    "reference",
    "spare",
    "tissue_model",
    "without",
]
