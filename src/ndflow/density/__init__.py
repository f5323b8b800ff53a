"""Densities of intensities: histograms, Gaussian mixtures, and fitting one to the other."""

from ndflow.density.condense import trimmed as trimmed
from ndflow.density.fit import Fit as Fit
from ndflow.density.fit import fit as fit
from ndflow.density.histogram import Histogram as Histogram
from ndflow.density.histogram import histogram as histogram
from ndflow.density.histogram import tally as tally
from ndflow.density.mixture import GaussianMixture as GaussianMixture
from ndflow.density.mixture import stack as stack
