"""Densities of intensities: histograms, Gaussian mixtures, and fitting one to the other."""

from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.density.condense import condensed, trimmed
from ndflow.density.fit import Fit, fit
from ndflow.density.histogram import Histogram, histogram, tally
from ndflow.density.mixture import GaussianMixture, stack

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
