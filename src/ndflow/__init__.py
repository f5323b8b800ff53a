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
    from ndflow import density as density
    from ndflow import population as population
    from ndflow import transport as transport
    from ndflow.density import Fit as Fit
    from ndflow.density import GaussianMixture as GaussianMixture
    from ndflow.density import Histogram as Histogram
    from ndflow.density import histogram as histogram
    from ndflow.errors import DegenerateDataError as DegenerateDataError
    from ndflow.errors import FileError as FileError
    from ndflow.errors import InvalidValueError as InvalidValueError
    from ndflow.errors import NdflowError as NdflowError
    from ndflow.evaluation.save import Evaluation as Evaluation
    from ndflow.evaluation.save import evaluate as evaluate
    from ndflow.population import Reference as Reference
    from ndflow.reporting.build import report as report
    from ndflow.reporting.cohort import cohort as cohort
    from ndflow.reporting.cohort import prepare as prepare
    from ndflow.study.manifest import Verification as Verification
    from ndflow.study.manifest import verify as verify
    from ndflow.study.run import Summary as Summary
    from ndflow.subject.fit import fit as fit
    from ndflow.subject.normalise import Result as Result
    from ndflow.subject.normalise import apply as apply
    from ndflow.subject.normalise import normalise as normalise
    from ndflow.subject.normalise import normalize as normalize
    from ndflow.subject.records import load as load
    from ndflow.subject.records import save as save
    from ndflow.subject.reference import reference as reference
    from ndflow.subject.target import builtin_reference as builtin_reference
    from ndflow.transport import Affine as Affine
    from ndflow.transport import Chain as Chain
    from ndflow.transport import IntensityMap as IntensityMap
    from ndflow.transport import normalising_map as normalising_map

# Where each public name lives. It is imported when it is first used, so that a program that needs
# no files, or a command that needs no mathematics, does not wait for them.
_HOMES = {
    "density": ("Fit", "GaussianMixture", "Histogram", "histogram"),
    "errors": ("DegenerateDataError", "FileError", "InvalidValueError", "NdflowError"),
    "evaluation.save": ("Evaluation", "evaluate"),
    "population": ("Reference",),
    "reporting.build": ("report",),
    "reporting.cohort": ("cohort", "prepare"),
    "study.manifest": ("Verification", "verify"),
    "study.run": ("Summary",),
    "subject.fit": ("fit",),
    "subject.records": ("load", "save"),
    "subject.normalise": ("Result", "apply", "normalise", "normalize"),
    "subject.reference": ("reference",),
    "subject.target": ("builtin_reference",),
    "transport": ("Affine", "Chain", "IntensityMap", "normalising_map"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = ("density", "population", "transport")

__all__ = [*_ROOMS, *_HOME_OF]


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
