"""What intensities look like: histograms, mixtures, and fitting one to the other."""

from ndflow.density.condense import condensed, trimmed
from ndflow.density.dpgmm import Fit, fit
from ndflow.density.histogram import Histogram, histogram
from ndflow.density.mixture import GaussianMixture, stack
from ndflow.density.tally import tally

__all__ = [
    "Fit",
    "GaussianMixture",
    "Histogram",
    "condensed",
    "fit",
    "histogram",
    "stack",
    "tally",
    "trimmed",
]
