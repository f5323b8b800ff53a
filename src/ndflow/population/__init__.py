"""Cohorts: references and tissues, learned from the densities of many scans."""

from ndflow.population.averaging import pushforward as pushforward
from ndflow.population.proportions import estimated_proportions as estimated_proportions
from ndflow.population.reference import Landmarks as Landmarks
from ndflow.population.reference import Reference as Reference
from ndflow.population.reference import reference as reference
from ndflow.population.tissues import TISSUES as TISSUES
from ndflow.population.tissues import TissueModel as TissueModel
from ndflow.population.tissues import Tissues as Tissues
from ndflow.population.tissues import tissue_model as tissue_model
from ndflow.population.tissues import tissues_from_components as tissues_from_components
