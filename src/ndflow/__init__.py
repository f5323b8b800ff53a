"""Nonparametric density flows: MRI intensities made comparable across scanners.

The way of an intensity, from a scan to a common scale:

    histogram(voxels)             occupied intensities and how often each occurs
      → fit(...)                  a Dirichlet-process Gaussian mixture: the scan's density
      → align(source, target)     both densities with the same mean and spread
      → match(source, target)     components moved until the source looks like the target
      → Flow, QuantileMap         the map that carries the mass along, and its inverse
      → tabulate(map, low, high)  the same in a table, for millions of voxels

    reference(mixtures)           the average density of a cohort: what to match to
    tissue_model(scans)           its tissues, for targets in anybody's own proportions

`normalising_map` goes from one density to another in one call.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ndflow._version import __version__ as __version__

if TYPE_CHECKING:
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
    from ndflow.errors import DegenerateDataError, FileError, InvalidValueError, NdflowError
    from ndflow.methods.landmarks import Landmarks
    from ndflow.population import (
        Reference,
        TissueModel,
        Tissues,
        adapted_proportions,
        pushforward,
        reference,
        tissue_model,
    )
    from ndflow.scan.apply import apply
    from ndflow.scan.fit import fit_image
    from ndflow.scan.model_files import load, save
    from ndflow.scan.normalise import normalise, normalize
    from ndflow.scan.results import Result
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
        PiecewiseLinear,
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

__all__ = [
    "Affine",
    "Chain",
    "DegenerateDataError",
    "FileError",
    "Fit",
    "Flow",
    "GaussianMixture",
    "Gradient",
    "Histogram",
    "IntensityMap",
    "InvalidValueError",
    "InverseTabulated",
    "Landmarks",
    "LinearTails",
    "Lookup",
    "Match",
    "NdflowError",
    "PiecewiseLinear",
    "QuantileMap",
    "Reference",
    "Result",
    "Status",
    "Tabulated",
    "TissueModel",
    "Tissues",
    "adapted_proportions",
    "align",
    "apply",
    "condensed",
    "divergence",
    "divergence_gradient",
    "fit",
    "fit_image",
    "histogram",
    "load",
    "match",
    "normalise",
    "normalising_map",
    "normalize",
    "pushforward",
    "reference",
    "save",
    "stack",
    "tabulate",
    "tissue_model",
    "trimmed",
]

# Where the names come from, looked through in this order when one is first used: a command that
# needs no mathematics, or a program that needs no files, does not wait for them.
_HOMES = (
    "errors",
    "values",
    "density",
    "transport",
    "methods.landmarks",
    "population",
    "scan.apply",
    "scan.fit",
    "scan.model_files",
    "scan.normalise",
    "scan.results",
)


def __getattr__(name: str) -> object:
    """Return a public name, from the first package that has it."""
    if name in __all__:
        for home in _HOMES:
            package = import_module(f"{__name__}.{home}")
            if name in package.__all__:
                thing: object = getattr(package, name)
                globals()[name] = thing
                return thing
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, whether they were used yet or not."""
    return sorted({*globals(), *__all__})
