"""A reference from mixtures, from images, or from both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.io import Source, files_of, sha256_of
from ndflow.population import Reference, reference
from ndflow.workflow.fitting import fit_image
from ndflow.workflow.models import AnyPath, is_model, load_density, save
from ndflow.workflow.results import stem
from ndflow.workflow.settings import Average, Fitting, Reading

__all__ = ["Density", "density_of", "write_reference"]


class Density(NamedTuple):
    """The density of a scan, and warnings about how it came to be."""

    mixture: GaussianMixture
    warnings: tuple[str, ...]


def density_of(
    source: AnyPath,
    *,
    mask: Source | None,
    exclude: Source | None,
    reading: Reading,
    fitting: Fitting,
) -> Density:
    """Return the density in a file, or that of an image; parameters as for `read_scan`."""
    if not is_model(source):
        fitted = fit_image(source, mask=mask, exclude=exclude, reading=reading, fitting=fitting)
        return Density(fitted.fit.mixture, fitted.warnings)
    model = load_density(source)
    if isinstance(model, Reference):
        hint = "give the mixtures that it was made of, from 'ndflow fit'"
        raise FileError(source, "a reference, which cannot be averaged with scans", hint)
    return Density(model, ())


def write_reference(
    output: AnyPath,
    sources: Sequence[AnyPath],
    mixtures: Sequence[GaussianMixture],
    *,
    weights: Sequence[float] | None,
    average: Average,
    channel: str,
    force: bool,
) -> Reference:
    """Average the mixtures of some sources and write the reference to a file.

    Parameters
    ----------
    output : where to.
    sources, mixtures : the files, and what was in them.
    weights, average : see `ndflow.reference`.
    channel : what the images show, for example ``"T1w"``.
    force : whether another file may be replaced.
    """
    for source, mixture in zip(sources, mixtures, strict=True):
        if mixture.channels != 1:
            cause = f"a density of {mixture.channels} channels, not of one"
            raise FileError(source, cause, "fit one channel at a time")
    names = [stem(source) for source in sources]
    made = reference(mixtures, weights=weights, average=average, names=names, channels=channel)
    record = {
        "inputs": [
            {"name": name, "sha256": [sha256_of(file) for file in files_of(source)]}
            for name, source in zip(names, sources, strict=True)
        ]
    }
    save(output, made, record=record, force=force, inputs=sources)
    return made
