"""Densities of intensities: histograms, Gaussian mixtures, and fitting one to the other."""

from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.density.condense import condensed, trimmed
from ndflow.density.dpgmm import Fit, fit
from ndflow.density.histogram import Histogram, histogram
from ndflow.density.mixture import GaussianMixture, stack
from ndflow.density.tally import tally

__all__ = [
    "QUANTILE_LEVELS",
    "Fit",
    "GaussianMixture",
    "Histogram",
    "condensed",
    "fit",
    "histogram",
    "midpoint_edges",
    "stack",
    "tally",
    "trimmed",
]
