"""Nonparametric density flows: MRI intensities made comparable across scanners.

The way of an intensity, from a scan to a common scale:

    histogram(voxels)             occupied intensities and how often each occurs
      → fit(...)                  a Dirichlet-process Gaussian mixture: the scan's density
      → align(source, target)     both densities with the same mean and spread
      → match(source, target)     components moved until the source looks like the target
      → Flow, QuantileMap         the map that carries the mass along, and its inverse
      → tabulate(map, low, high)  the same in a table, for millions of voxels

    reference(mixtures)           the average density of a cohort: what to match to

`normalising_map` goes from one density to another in one call.
"""

from ndflow.density import (
    Fit,
    GaussianMixture,
    Histogram,
    condensed,
    fit,
    histogram,
    stack,
    trimmed,
)
from ndflow.errors import DegenerateDataError, InvalidValueError, NdflowError
from ndflow.population import Reference, reference
from ndflow.transport import (
    Affine,
    Chain,
    Flow,
    Gradient,
    IntensityMap,
    InverseTabulated,
    LinearTails,
    Lookup,
    Match,
    QuantileMap,
    Tabulated,
    align,
    divergence,
    divergence_gradient,
    match,
    normalising_map,
    tabulate,
)
from ndflow.values import Status

__version__ = "0.1.0"

__all__ = [
    "Affine",
    "Chain",
    "DegenerateDataError",
    "Fit",
    "Flow",
    "GaussianMixture",
    "Gradient",
    "Histogram",
    "IntensityMap",
    "InvalidValueError",
    "InverseTabulated",
    "LinearTails",
    "Lookup",
    "Match",
    "NdflowError",
    "QuantileMap",
    "Reference",
    "Status",
    "Tabulated",
    "align",
    "condensed",
    "divergence",
    "divergence_gradient",
    "fit",
    "histogram",
    "match",
    "normalising_map",
    "reference",
    "stack",
    "tabulate",
    "trimmed",
]
