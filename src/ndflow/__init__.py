"""Nonparametric density flows: MRI intensities made comparable across scanners.

The verbs of the command line:

    normalise(image, to)          bring an image to a reference, or to another image
    apply(image, imap)            apply a saved intensity map, or undo it
    fit(image)                    the density of an image: a Dirichlet-process Gaussian mixture
    reference(sources)            the average density of many scans: what to bring others to
    builtin_reference("T1w")      such a reference that comes with the package
    prepare(table, out)           raw scans: brain masks, bias fields, tissue maps
    cohort(table, out)            a whole study
    evaluate(runs), report(out)   compare finished studies, and show them on a page
    verify(out)                   check that the files of a study are as they were
    load(path), save(path, model) mixtures, references and intensity maps in files

What they are made of, from an intensity to a common scale (`density`, `transport`):

    histogram(voxels)             occupied intensities and how often each occurs
      → fit(...)                  the scan's density
      → transport.align           both densities with the same mean and standard deviation
      → transport.match           components moved until the source looks like the target
      → transport.QuantileMap     the map that carries the mass along: f(x), ~f, g @ f
      → transport.tabulate        the same in a table, for millions of voxels

`normalising_map` goes from one density to another in one call.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ndflow._version import __version__ as __version__

if TYPE_CHECKING:
    from ndflow import density, population, transport
    from ndflow.density import Fit, GaussianMixture, Histogram, histogram
    from ndflow.errors import DegenerateDataError, FileError, InvalidValueError, NdflowError
    from ndflow.evaluation.save import Evaluation, evaluate
    from ndflow.population import Reference
    from ndflow.reporting.build import report
    from ndflow.reporting.cohort import cohort, prepare
    from ndflow.study.manifest import Verification, verify
    from ndflow.study.run import Summary
    from ndflow.subject.apply import apply
    from ndflow.subject.fit import fit
    from ndflow.subject.model_files import load, save
    from ndflow.subject.normalise import normalise, normalize
    from ndflow.subject.reference import reference
    from ndflow.subject.results import Result
    from ndflow.subject.target import builtin_reference
    from ndflow.transport import Affine, Chain, IntensityMap, normalising_map

# Where each public name lives. It is imported when it is first used, so that a program that needs
# no files, or a command that needs no mathematics, does not wait for them.
_HOMES = {
    "density": (
        "Fit",
        "GaussianMixture",
        "Histogram",
        "histogram",
    ),
    "errors": (
        "DegenerateDataError",
        "FileError",
        "InvalidValueError",
        "NdflowError",
    ),
    "evaluation.save": (
        "Evaluation",
        "evaluate",
    ),
    "population": ("Reference",),
    "reporting.build": ("report",),
    "reporting.cohort": ("cohort", "prepare"),
    "study.run": ("Summary",),
    "study.manifest": (
        "Verification",
        "verify",
    ),
    "subject.apply": ("apply",),
    "subject.fit": ("fit",),
    "subject.model_files": (
        "load",
        "save",
    ),
    "subject.normalise": (
        "normalise",
        "normalize",
    ),
    "subject.reference": ("reference",),
    "subject.results": ("Result",),
    "subject.target": ("builtin_reference",),
    "transport": (
        "Affine",
        "Chain",
        "IntensityMap",
        "normalising_map",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = ("density", "population", "transport")

__all__ = [
    "Affine",
    "Chain",
    "DegenerateDataError",
    "Evaluation",
    "FileError",
    "Fit",
    "GaussianMixture",
    "Histogram",
    "IntensityMap",
    "InvalidValueError",
    "NdflowError",
    "Reference",
    "Result",
    "Summary",
    "Verification",
    "apply",
    "builtin_reference",
    "cohort",
    "density",
    "evaluate",
    "fit",
    "histogram",
    "load",
    "normalise",
    "normalising_map",
    "normalize",
    "population",
    "prepare",
    "reference",
    "report",
    "save",
    "transport",
    "verify",
]


def __getattr__(name: str) -> object:
    """Return a public name, from where it lives."""
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    thing: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    """List the public names, whether they were used yet or not."""
    return [*__all__, "__version__"]
